//! Experiments of plain shell commands, run in a folder of their own.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

mod skip;

pub use skip::skip;

use crosstalk_bench::experiment::{Surroundings, Variables};
use crosstalk_bench::live::Silent;
use crosstalk_bench::runtime::{Processes, Runtime};
use crosstalk_bench::store::{Event, EventKind, RunDir, RunRecord, RunStore};
use crosstalk_bench::{Error, Experiment, Options, PREFIX, run};
use crosstalk_host::{ControlGroup, CoreTime, HostRoot};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
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
            hurry: Arc::new(AtomicBool::new(false)),
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

/// Nothing is to be further off its plan.
const MOST_OFF_MS: f64 = 100.0;

/// Holds every one of so many runs to its plan. Where the host took one core away for as long, over the run, as something was
/// off beyond what it may be, there is another try: that may have been why. What is off without that is our own doing.
pub fn all_on_plan(runs: usize, run: impl Fn() -> f64) {
    for number in 0..runs {
        for attempts_left in (0..3).rev() {
            let before = stolen_ms();
            let off = run();
            if off < MOST_OFF_MS {
                break;
            }
            let cores = stolen_ms().into_iter().zip(before).map(|(now, before)| now - before);
            let stolen = cores.fold(0.0, f64::max);
            let told = format!("run {number}: {off:.0} ms off plan, {stolen:.0} ms stolen");
            assert!(off - stolen < MOST_OFF_MS && attempts_left > 0, "{told}");
            eprintln!("once more: {told}");
        }
    }
}

/// Time that the hypervisor ran somebody else on a core that wanted to run, by core; 0 on a machine that is nobody's guest.
fn stolen_ms() -> Vec<f64> {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let cores = CoreTime::parse(&stat).into_iter();
    cores.map(|core| core.stolen_ns.unwrap_or(0) as f64 / 1e6).collect()
}

/// Milliseconds that starts, stops and ends were off their plan, at most; each of `ends` is there once, at these seconds.
pub fn off_plan_ms(events: &[Event], ends: &[(&str, f64)]) -> f64 {
    let mut off = Vec::new();
    for event in events {
        if let EventKind::Start { late_ms } | EventKind::Stop { late_ms } = event.kind {
            off.push((late_ms, format!("{:?} {:?}", event.container, event.kind)));
        }
    }
    for (name, planned) in ends {
        let ended = seconds(events, name, |kind| matches!(kind, EventKind::Ended { .. }));
        let [ended] = ended[..] else { panic!("{name} is to end once: {events:#?}") };
        off.push(((ended - planned) * 1e3, format!("{name} has ended")));
    }
    let (most, what) = off.into_iter().max_by(|a, b| a.0.abs().total_cmp(&b.0.abs())).unwrap();
    eprintln!("at most {most:.1} ms off plan: {what}");
    most.abs()
}

/// Whether this machine lets us make cgroups; says so where it does not.
pub fn can_make_cgroups() -> bool {
    /// Several tests ask at once.
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let number = ASKED.fetch_add(1, Ordering::Relaxed);
    let name = format!("{PREFIX}probe-{}-{number}", std::process::id());
    let made = ControlGroup::create(&HostRoot::default(), &name);
    let gone = made.and_then(|group| group.remove());
    gone.map_err(skip).is_ok()
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
