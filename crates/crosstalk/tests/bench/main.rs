//! `crosstalk bench` as a person uses it.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

#[path = "../../../bench/tests/support/skip.rs"]
mod skip;
#[path = "../support/mod.rs"]
mod support;

mod adaptive;
mod analyzed;
mod killed;
mod long_run;
mod results;
mod signals;

use crosstalk_host::{ControlGroup, HostRoot};
use skip::skip;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use support::crosstalk;

/// Quick to start: nothing that needs the kernel's programs.
pub(crate) const PLAIN: &str =
    "data: {profilefrequency: 50, perf: false, probe: false, rdt: false}";

pub(crate) fn bench(runs: &Path) -> Command {
    let mut command = crosstalk();
    command.arg("bench").arg("--runs").arg(runs).stdin(Stdio::null());
    command
}

pub(crate) fn write(folder: &Path, text: &str) -> String {
    let file = folder.join("experiment.yaml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

pub(crate) fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// Whether this machine lets us make cgroups; says so where it does not.
pub(crate) fn can_make_cgroups() -> bool {
    /// Several tests ask at once.
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let number = ASKED.fetch_add(1, Ordering::Relaxed);
    let name = format!("crosstalk-test-bench-{}-{number}", std::process::id());
    let made = ControlGroup::create(&HostRoot::default(), &name);
    let gone = made.and_then(|group| group.remove());
    gone.map_err(skip).is_ok()
}

/// Whether a run's events tell of this by now.
pub(crate) fn is_told(runs: &Path, event: &str) -> bool {
    let events = fs::read_dir(runs).into_iter().flatten().flatten();
    let mut texts = events.map(|run| fs::read_to_string(run.path().join("events.jsonl")));
    texts.any(|text| text.is_ok_and(|text| text.contains(event)))
}

/// Whether a run's events tell of a start by now.
pub(crate) fn has_started(runs: &Path) -> bool {
    is_told(runs, "\"event\":\"start\"")
}
