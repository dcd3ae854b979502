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
    share: f64,
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
        share: v["slowdown"].as_f64().unwrap(),
        low: v["low"].as_f64().unwrap(),
        high: v["high"].as_f64().unwrap(),
    })
}

/// What a victim that wants its core all the time did not get of it while a culprit was on, beyond what it did not get
/// while it was off: of all the time, by the schedule and the victim's own account of its time on cores. And how far that
/// is known: two standard errors of what it usually does not get, and two of its lines, at the ends of the time.
fn kept_from_its_core(victim: &Diary, culprit: &Diary, (from_ns, to_ns): (u64, u64)) -> (f64, f64) {
    let (mut off, mut on) = ((0.0, 0.0), (0.0, 0.0));
    let (mut usually, mut longest) = (Vec::new(), 0.0_f64);
    for pair in victim.progress.windows(2) {
        let [(begin_ns, _, busy), (end_ns, _, more_busy)] = [pair[0], pair[1]];
        if begin_ns < from_ns || end_ns > to_ns {
            continue;
        }
        let wall = (end_ns - begin_ns) as f64 / 1e9;
        let missing = wall - (more_busy - busy);
        let is_off = culprit.on(begin_ns, end_ns) < 0.02;
        let sums = if is_off { &mut off } else { &mut on };
        *sums = (sums.0 + wall, sums.1 + missing);
        usually.extend(is_off.then_some(missing / wall));
        longest = longest.max(wall);
    }
    let (usual, all) = (off.1 / off.0.max(1e-9), on.0 + off.0);
    let many = usually.len().max(2) as f64;
    let variance = usually.iter().map(|one| (one - usual).powi(2)).sum::<f64>() / (many - 1.0);
    let known_to = 2.0 * ((variance / many).sqrt() * on.0 + longest) / all;
    ((on.1 - usual * on.0) / all, known_to)
}

/// The interval is that of the truth as far as that is known, and one that says nothing holds everything.
fn holds(said: &Blamed, (truth, known_to): (f64, f64)) {
    let (low, high) = (said.low, said.high);
    assert!(truth > 0.05, "it lost {truth}: the two had no core in common");
    assert!(known_to < 0.03, "the truth is known to {known_to} only");
    assert!(
        low - known_to <= truth && truth <= high + known_to,
        "{low} to {high} said, {truth} lost, which is known to {known_to}"
    );
    assert!(high - low < 0.05, "{low} to {high} said");
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
        holds(&said, kept_from_its_core(&suffered, &was_on, said.time));
    });
}

/// Who wrote a diary, as verdicts call it.
fn name_in(kind: &str, diary: &str) -> String {
    let lines = diary.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let pid = lines.into_iter().find_map(|line| line["pid"].as_u64());
    format!("{kind} ({})", pid.expect("it says its process id"))
}

#[test]
fn a_noisy_neighbour_that_is_recorded_and_analysed_stands_in_table_and_page_with_its_true_share() {
    let _machine = whole_machine();
    again_if_stolen(|| {
        let folder = tempfile::tempdir().unwrap();
        let (out, page) = (folder.path().join("rec"), folder.path().join("report.html"));
        let diary = |kind: &str| folder.path().join(kind);
        let workload = |kind: &str, args: &str| {
            let (program, says) = (env!("CARGO_BIN_EXE_crosstalk"), diary(kind));
            let says = says.display();
            format!(
                "{program} workload {kind} --core 0 --every 50ms --duration 20s {args} > {says}"
            )
        };
        let victim = workload("chase", "--bytes 64KiB");
        let culprit = workload("compute", "--phases 7 --shortest 500ms --longest 1500ms");
        let script = format!("{victim} & {culprit}; wait");
        succeed(&mut record(&out, &["--", "sh", "-c", &script]));
        let read = |kind: &str| fs::read_to_string(diary(kind)).unwrap();
        let (suffered, was_on) = (read("chase"), read("compute"));
        let [victim, culprit] = [name_in("chase", &suffered), name_in("compute", &was_on)];
        let said = blamed(&out, [&victim, &culprit], true).expect("it is named");
        let truth = kept_from_its_core(&Diary::read(&suffered), &Diary::read(&was_on), said.time);
        holds(&said, truth);

        let output = succeed(crosstalk().arg("analyze").arg(&out).arg("--report").arg(&page));
        let share = format!("{:.1} %", 100.0 * said.share);
        let table = String::from_utf8(output.stdout).unwrap();
        let mut rows = table.lines().filter(|row| row.starts_with(&victim));
        let row = rows.find(|row| row.contains(&culprit) && row.contains("cpu time"));
        assert!(row.is_some_and(|row| row.contains(&share)), "no {share} in {table}");
        let page = fs::read_to_string(&page).unwrap();
        let sentence = format!("<b class=\"v\">{victim}</b> lost");
        let from = page.split(&sentence).skip(1).find(|rest| {
            rest.split("</p>").next().is_some_and(|rest| rest.contains(&format!(">{culprit}<")))
        });
        assert!(from.is_some(), "no sentence says that {victim} lost to {culprit}");
        let cell = from.unwrap().split("</p>").next().unwrap();
        let rounded = format!("{:.0}", 100.0 * said.share);
        assert!(cell.contains(&rounded), "no {share} in: {cell}");
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
                "SKIP: that a stream is named for what it costs, which on this host's other core is {:.1} % ({:.1} to \
                 {:.1}): too little to be asked for; only that nothing beyond it is said is tested",
                100.0 * truth.effect,
                100.0 * truth.low,
                100.0 * truth.high
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
