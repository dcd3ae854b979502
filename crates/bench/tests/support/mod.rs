//! Experiments of plain shell commands, run in a folder of their own.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

mod skip;

pub use skip::skip;

use crosstalk_bench::experiment::{Surroundings, Variables};
use crosstalk_bench::live::Silent;
use crosstalk_bench::runtime::{Processes, Runtime};
use crosstalk_bench::store::{Event, EventKind, RunDir, RunRecord, RunStore};
use crosstalk_bench::{Error, Experiment, Options, PREFIX, run};
use crosstalk_host::{ControlGroup, HostRoot};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Counts up twenty times a second for ever, saying so.
pub const COUNTS: &str = "sh -c 'i=0; while :; do i=$((i+1)); echo \"done $i\"; sleep 0.05; done'";

/// Without what needs the kernel's programs: quick to start.
pub const PLAIN: &str = "data: {profilefrequency: 50, perf: false, probe: false, rdt: false}";

pub fn parse(text: &str) -> Experiment {
    let around = Surroundings::of(&HostRoot::default());
    Experiment::parse("test.yaml", text, &Variables::default(), &around)
        .unwrap_or_else(|mistakes| panic!("{mistakes:#?}"))
}

pub struct Bench {
    pub folder: tempfile::TempDir,
    pub options: Options,
}

impl Bench {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = HostRoot::default();
        let runtimes: Vec<Box<dyn Runtime>> = vec![Box::new(Processes::new(&host))];
        let options = Options {
            runs: RunStore::at(folder.path().join("runs")),
            runtimes,
            host,
            resctrl: None,
            grace: Duration::from_millis(500),
            stop: Arc::new(AtomicBool::new(false)),
        };
        Self { folder, options }
    }

    pub fn resctrl(mut self, root: &Path) -> Self {
        self.options.resctrl = Some(root.to_owned());
        self
    }

    pub fn run(&self, text: &str) -> Result<(RunDir, RunRecord), Error> {
        run(&parse(text), text, &self.options, &mut Silent)
    }
}

/// Cgroups of this very process that are still there.
pub fn own_cgroups() -> BTreeSet<String> {
    let own = format!("{PREFIX}{}-", std::process::id());
    ControlGroup::list(&HostRoot::default(), &own)
}

/// The seconds at which something happened to a container.
pub fn seconds(events: &[Event], name: &str, is: impl Fn(&EventKind) -> bool) -> Vec<f64> {
    let mine = events.iter().filter(|e| e.container.as_deref() == Some(name) && is(&e.kind));
    mine.map(|event| event.seconds).collect()
}

/// The one in the middle.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Whether this machine lets us make cgroups; says so where it does not.
pub fn can_make_cgroups() -> bool {
    let name = format!("{PREFIX}probe-{}", std::process::id());
    match ControlGroup::create(&HostRoot::default(), &name) {
        Ok(group) => group.remove().is_ok(),
        Err(error) => {
            skip(error);
            false
        }
    }
}

pub fn parquet_files(dir: &RunDir, dataset: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![dir.data().join(dataset)];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|ending| ending == "parquet") {
                found.push(path);
            }
        }
    }
    found
}
