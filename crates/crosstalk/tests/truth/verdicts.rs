//! Is what verdicts say true? Held against schedules that loads keep and against what they say they got done.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use super::{again_if_stolen, whole_machine};
use crate::support::*;
use crosstalk_accuracy::real::{Diary, MUST_FIND, effect};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

/// A load that keeps a diary of when it was on and what it got done, and ends with the test.
struct Diarist {
    child: Child,
    name: String,
    file: PathBuf,
}

impl Diarist {
    fn start(folder: &Path, kind: &str, args: &[&str]) -> Self {
        let file = folder.join(kind);
        let mut command = crosstalk();
        command.args(["workload", kind, "--every", "50ms"]).args(args);
        let child = command.stdout(fs::File::create(&file).unwrap()).spawn().unwrap();
        Self { name: format!("{kind} ({})", child.id()), child, file }
    }

    fn end(&mut self) -> Diary {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        Diary::read(&fs::read_to_string(&self.file).unwrap())
    }
}

impl Drop for Diarist {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A verdict on one of them by the other: its time, its share and where it may lie.
struct Blamed {
    time: (u64, u64),
    low: f64,
    high: f64,
}

fn blamed(out: &Path, [victim, culprit]: [&str; 2], waits: bool) -> Option<Blamed> {
    let output = succeed(crosstalk().arg("analyze").arg(out).arg("--json"));
    let verdicts: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let is_it = |v: &&Value| {
        v["victim"] == victim
            && v["aggressors"].as_array().unwrap().iter().any(|one| *one == culprit)
            && (v["resource"] == "cpu time") == waits
    };
    verdicts.iter().find(is_it).map(|v| Blamed {
        time: (v["from_ns"].as_u64().unwrap(), v["to_ns"].as_u64().unwrap()),
        low: v["low"].as_f64().unwrap(),
        high: v["high"].as_f64().unwrap(),
    })
}

/// What a victim that wants its core all the time did not get of it while a culprit was on, beyond what it did not get
/// while it was off: of all the time, by the schedule and the victim's own account of its time on cores.
fn kept_from_its_core(victim: &Diary, culprit: &Diary, (from_ns, to_ns): (u64, u64)) -> f64 {
    let (mut off, mut on) = ((0.0, 0.0), (0.0, 0.0));
    for pair in victim.progress.windows(2) {
        let [(begin_ns, _, busy), (end_ns, _, more_busy)] = [pair[0], pair[1]];
        if begin_ns < from_ns || end_ns > to_ns {
            continue;
        }
        let wall = (end_ns - begin_ns) as f64 / 1e9;
        let sums = if culprit.on(begin_ns, end_ns) < 0.02 { &mut off } else { &mut on };
        *sums = (sums.0 + wall, sums.1 + wall - (more_busy - busy));
    }
    let usual = off.1 / off.0.max(1e-9);
    (on.1 - usual * on.0) / (on.0 + off.0)
}

#[test]
fn the_interval_of_a_wait_for_a_core_holds_what_schedule_and_victim_say_was_lost() {
    let _machine = whole_machine();
    again_if_stolen(|| {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("rec");
        let mut victim =
            Diarist::start(folder.path(), "chase", &["--core", "0", "--bytes", "64KiB"]);
        let phases = ["--phases", "7", "--shortest", "500ms", "--longest", "1500ms"];
        let mut culprit =
            Diarist::start(folder.path(), "compute", &[&["--core", "0"], &phases[..]].concat());
        succeed(&mut record(&out, &["--duration", "15s"]));
        let (suffered, was_on) = (victim.end(), culprit.end());
        let said = blamed(&out, [&victim.name, &culprit.name], true).expect("it is named");
        let truth = kept_from_its_core(&suffered, &was_on, said.time);
        assert!(truth > 0.1, "it lost {truth}: the two had no core in common");
        // The victim tells of its time twenty times a second, and of that at the edges of phases not to the point.
        const KNOWN_TO: f64 = 0.01;
        assert!(
            said.low - KNOWN_TO <= truth && truth <= said.high + KNOWN_TO,
            "{} to {} said, {truth} lost",
            said.low,
            said.high
        );
        // An interval that says nothing holds everything.
        assert!(said.high - said.low < 0.05, "{} to {} said", said.low, said.high);
    });
}

/// Where a stream slows the other core by much, it is named, and what is said overlaps the truth; where it does not, on
/// hosts with memory to spare, nothing beyond the truth is said.
#[test]
fn what_a_stream_costs_a_victim_on_another_core_is_what_its_own_progress_says() {
    let _machine = whole_machine();
    again_if_stolen(|| {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("rec");
        let of_victim = ["--core", "0", "--bytes", "32MiB", "--rest", "3ms"];
        let mut victim = Diarist::start(folder.path(), "chase", &of_victim);
        let of_culprit = ["--core", "1", "--bytes", "256MiB", "--phases", "7"];
        let mut culprit = Diarist::start(folder.path(), "stream", &of_culprit);
        succeed(&mut record(&out, &["--duration", "40s"]));
        let (suffered, was_on) = (victim.end(), culprit.end());
        let said = blamed(&out, [&victim.name, &culprit.name], false);
        let time = said.as_ref().map_or((0, u64::MAX), |said| said.time);
        let truth = effect(&suffered, &[&was_on], 0, time).expect("it was on, and off");
        // The truth is measured, too, and as a share of the victim's time has an interval of its own.
        let scale = truth.lost / truth.effect;
        let (least, most) = (truth.low * scale, truth.high * scale);
        if truth.low < MUST_FIND {
            eprintln!(
                "a stream hardly slows this host's other core ({truth:?}): only blame beyond that is looked for"
            );
        }
        match said {
            Some(said) => {
                assert!(said.high - said.low < 0.2, "{} to {} says nothing", said.low, said.high);
                let (low, high) = (said.low, said.high);
                let is_beyond = low > most.max(0.0);
                let is_short = truth.low >= MUST_FIND && high < least;
                assert!(!is_beyond && !is_short, "{low} to {high} said, {least} to {most} lost");
            }
            None => assert!(truth.low < MUST_FIND, "nothing is said of {truth:?}"),
        }
    });
}
