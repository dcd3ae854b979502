//! The cache data set, from a really mounted simulator to files that join.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::simulator::{Simulator, signal};
use support::*;

/// Long enough for any loaded machine; a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks again until `done`: the other side is a process with no event to wait on.
fn await_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        #[allow(clippy::disallowed_methods)] // the pace of looking
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn about(out: &Path, dataset: &str) -> Value {
    let text = fs::read_to_string(&files(out, dataset, ".json")[0]).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn stderr_of(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A recording that runs until it is interrupted.
fn start_recording(out: &Path, simulator: &Simulator) -> Child {
    let mut command = record(out, &["--layout", "flat", "--resctrl-root", simulator.root()]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_until("a process has a group", || !simulator.groups().is_empty());
    child
}

#[test]
fn both_data_sets_are_recorded_and_join_on_slot_and_process() {
    let simulator = Simulator::start();
    let out = tempfile::tempdir().unwrap();
    let load = load("stream.py");
    let output = succeed(&mut record(
        out.path(),
        &["--resctrl-root", simulator.root(), "--top", "1000", "--", PYTHON, &load, "64", "10"],
    ));
    assert_eq!(simulator.groups(), HashSet::new(), "groups are left behind");
    let (printed, report) = split_report(&output);
    let pid: u64 = printed.lines().next().unwrap().parse().unwrap();

    let key = |row: &Row| (number(row, "slot_start_ns"), row["pid"].clone());
    let tasks: HashMap<(u64, String), Row> =
        csv_rows(out.path(), "tasks").into_iter().map(|row| (key(&row), row)).collect();
    let rows = csv_rows(out.path(), "cache");
    let mine: Vec<&Row> = rows.iter().filter(|row| number(row, "pid") == pid).collect();
    let joined: Vec<(&Row, &Row)> =
        mine.iter().filter_map(|row| Some((*row, tasks.get(&key(row))?))).collect();
    assert!(!joined.is_empty(), "none of {} rows joins", mine.len());
    for (cache, task) in &joined {
        assert_eq!(cache["process_start_ns"], task["process_start_ns"]);
        // A name is heard of some 50 ms after exec gave it.
        if number(cache, "slot_start_ns") > number(cache, "process_start_ns") + 500 * SLOT_NS {
            assert_eq!(cache["comm"], task["comm"]);
        }
    }
    for row in &mine {
        assert_eq!(number(row, "slot_start_ns") % SLOT_NS, 0);
        assert!(number(row, "read_at_ns") >= number(row, "slot_start_ns") + SLOT_NS);
        assert!(number(row, "llc_occupancy_bytes") <= 16 << 20);
    }
    let most = mine.iter().map(|row| number(row, "llc_occupancy_bytes")).max();
    assert!(most > Some(1 << 20), "{most:?}");

    let listed = report["busiest"].as_array().unwrap();
    let process = listed.iter().find(|p| p["pid"].as_u64() == Some(pid)).unwrap();
    assert!(process["llc_occupancy_bytes"].as_u64() > Some(0), "{process}");
    assert!(process["mbm_total_bytes"].as_u64() > Some(1 << 20), "{process}");
    assert_eq!(report["cache"]["rows"].as_u64(), Some(rows.len() as u64));
    assert_eq!(report["cache"]["dropped_rows"].as_u64(), Some(0));
    let about = about(out.path(), "cache");
    assert_eq!(about["cache"]["num_rmids"], 32);
    assert_eq!(about["cache"]["simulated"], true);
    assert!(about["cache_absent_because"].is_null());
    assert!(about["columns"]["llc_occupancy_bytes"]["doc"].is_string());
}

#[test]
fn what_a_child_moves_before_it_has_a_group_is_in_its_parents_rows_and_they_say_so() {
    let simulator = Simulator::start();
    let out = tempfile::tempdir().unwrap();
    // The shell has a group of its own when it forks, as make has.
    let script = "echo $$; sleep 1.5; \"$0\" \"$1\" 64 3 >&2 & wait";
    let stream = load("stream.py");
    let output = succeed(&mut record(
        out.path(),
        &["--resctrl-root", simulator.root(), "--", "sh", "-c", script, PYTHON, &stream],
    ));
    let (printed, report) = split_report(&output);
    let shell: u64 = printed.lines().next().unwrap().parse().unwrap();
    let rows = csv_rows(out.path(), "cache");
    let scopes: HashSet<&str> = rows
        .iter()
        .filter(|row| number(row, "pid") == shell)
        .map(|row| row["scope"].as_str())
        .collect();
    assert!(scopes.contains("process") && scopes.contains("with_children"), "{scopes:?}");
    let with_children = rows.iter().filter(|row| row["scope"] == "with_children").count();
    assert_eq!(report["cache"]["rows_with_children"].as_u64(), Some(with_children as u64));
}

#[test]
fn parquet_holds_the_same_columns() {
    let simulator = Simulator::start();
    let out = tempfile::tempdir().unwrap();
    let root = simulator.root();
    succeed(&mut record(
        out.path(),
        &["--resctrl-root", root, "--format", "parquet", "--duration", "2s"],
    ));
    let file = fs::File::open(&files(out.path(), "cache", ".parquet")[0]).unwrap();
    let reader =
        parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let names: Vec<String> =
        reader.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names[..4], ["slot_start_ns", "time", "read_at_ns", "pid"]);
    assert!(reader.metadata().file_metadata().num_rows() > 0);
}

#[test]
fn without_resctrl_the_rest_is_recorded_and_the_reason_is_said() {
    let out = tempfile::tempdir().unwrap();
    // A machine that has resctrl mounted is made one that has not, for this process alone.
    let script = "umount -a -t resctrl; exec \"$0\" record --json --duration 300ms --out \"$1\"";
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_crosstalk"))
        .arg(out.path())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let said: Vec<&str> = error.lines().filter(|l| l.contains("no cache data set")).collect();
    assert_eq!(said.len(), 1, "{error}");
    let reason = about(out.path(), "tasks")["cache_absent_because"].as_str().unwrap().to_owned();
    assert!(said[0].ends_with(&reason) && reason.contains("resctrl"), "{reason}");
    assert!(!out.path().join("cache").exists(), "an absent data set has a folder");
    let (_, report) = split_report(&output);
    assert!(report["cache"].is_null());
    assert!(!csv_rows(out.path(), "tasks").is_empty());
}

#[test]
fn a_root_that_was_asked_for_must_be_there() {
    let (out, plain) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = plain.path().to_str().unwrap();
    let (code, error) = stderr_of(&mut record(out.path(), &["--resctrl-root", root]));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains(&format!("--resctrl-root {root}: no resctrl")), "{error}");
}

#[test]
fn a_second_recorder_on_the_same_mount_is_told_who_has_it() {
    let simulator = Simulator::start();
    let (out, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut first = start_recording(out.path(), &simulator);
    let root = simulator.root();
    let (code, error) = stderr_of(&mut record(other.path(), &["--resctrl-root", root]));
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains(&format!("process {}", first.id())), "{error}");
    signal(&first, "INT");
    assert!(first.wait().unwrap().success());
    assert_eq!(simulator.groups(), HashSet::new(), "Ctrl-C leaves groups behind");
}

#[test]
fn what_a_kill_leaves_is_swept_by_the_next_start_and_groups_of_others_stay() {
    let simulator = Simulator::start();
    let out = tempfile::tempdir().unwrap();
    fs::create_dir(simulator.folder.path().join("mon_groups/other")).unwrap();
    let mut first = start_recording(out.path(), &simulator);
    await_until("groups of its own", || simulator.groups().len() > 1);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(simulator.groups().len() > 1, "a killed recorder cannot have cleaned up");
    succeed(&mut record(
        out.path(),
        &["--duration", "300ms", "--append", "--resctrl-root", simulator.root()],
    ));
    assert_eq!(simulator.groups(), HashSet::from(["other".to_owned()]));
    assert!(files(out.path(), "cache", ".part").is_empty(), "a part was not recovered");
}

#[test]
fn a_mount_that_goes_away_ends_the_cache_data_set_and_not_the_recording() {
    let mut simulator = Simulator::start();
    let out = tempfile::tempdir().unwrap();
    let mut recorder = start_recording(out.path(), &simulator);
    let part = || files(out.path(), "cache", ".csv.part").first().cloned();
    let size = || part().and_then(|part| fs::metadata(part).ok()).map_or(0, |meta| meta.len());
    await_until("cache rows are written", || size() > 500);
    simulator.unmount();
    let mut lines = BufReader::new(recorder.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("the cache data set ends here")));
    let slots = || files(out.path(), "slots", ".csv.part")[0].clone();
    let before = fs::metadata(slots()).unwrap().len();
    await_until("coverage goes on", || fs::metadata(slots()).unwrap().len() > before + 50_000);
    signal(&recorder, "INT");
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let (_, report) = split_report(&output);
    assert!(report["cache"]["ended_because"].is_string(), "{report}");
    let last = |dataset: &str| {
        let rows = csv_rows(out.path(), dataset);
        rows.iter().map(|row| number(row, "slot_start_ns")).max().unwrap()
    };
    assert!(last("slots") > last("cache"));
    // The file itself says that it ended early, and why.
    let about = about(out.path(), "cache");
    let gap = &about["cache_gaps"][0];
    assert!(gap["from_ns"].is_u64() && gap["to_ns"].is_null(), "{about:#}");
    assert!(about["cache_absent_because"].is_string(), "{about:#}");
}

#[test]
fn a_mount_that_comes_back_is_recorded_again_and_the_file_tells_of_the_gap() {
    let mut simulator = Simulator::start();
    let out = tempfile::tempdir().unwrap();
    let mut recorder = start_recording(out.path(), &simulator);
    let part = || files(out.path(), "cache", ".csv.part").first().cloned();
    let size = || part().and_then(|part| fs::metadata(part).ok()).map_or(0, |meta| meta.len());
    await_until("cache rows are written", || size() > 500);
    simulator.unmount();
    let mut lines = BufReader::new(recorder.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("the cache data set ends here")));
    simulator.mount_again();
    assert!(lines.any(|line| line.unwrap().contains("the cache data set goes on")));
    let before = size();
    await_until("cache rows are written again", || size() > before + 500);
    signal(&recorder, "INT");
    assert_eq!(recorder.wait().unwrap().code(), Some(0));
    let about = about(out.path(), "cache");
    let gaps = about["cache_gaps"].as_array().unwrap();
    assert_eq!(gaps.len(), 1, "{about:#}");
    let time = |key: &str| gaps[0][key].as_u64().unwrap();
    assert!(time("from_ns") < time("to_ns") && gaps[0]["why"].is_string(), "{about:#}");
    assert!(about["cache_restarts"].as_u64() > Some(0), "{about:#}");
    assert!(about["cache_absent_because"].is_null(), "{about:#}");
    // No row lies well within it.
    let mut rows = csv_rows(out.path(), "cache");
    rows.retain(|row| {
        let at = number(row, "slot_start_ns");
        at > time("from_ns") + 200_000_000 && at < time("to_ns") - 200_000_000
    });
    assert_eq!(rows.len(), 0);
}

#[test]
fn doctor_says_what_resctrl_offers_or_what_would_help() {
    let simulator = Simulator::start();
    let capability = |root: &str, name: &str| -> Value {
        let output = succeed(crosstalk().args(["doctor", "--json", "--resctrl-root", root]));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let all = report["capabilities"].as_array().unwrap();
        all.iter().find(|c| c["name"] == name).unwrap().clone()
    };
    let monitoring = capability(simulator.root(), "cache monitoring");
    assert_eq!(monitoring["verdict"], "ok");
    assert!(monitoring["found"].as_str().unwrap().contains("32 RMIDs, 1 L3 cache, simulated"));
    let allocation = capability(simulator.root(), "cache allocation");
    assert_eq!(allocation["found"], "L3 mask ff in 4 groups, MB from 10 %");
    for name in ["cache monitoring", "cache allocation"] {
        let absent = capability("/proc", name);
        assert_eq!(absent["verdict"], "absent");
        assert!(absent["fix"].as_str().unwrap().contains("mount -t resctrl"), "{absent}");
    }
}

#[test]
fn the_simulator_unmounts_when_it_is_told_to_end() {
    let mut simulator = Simulator::start();
    assert!(simulator.folder.path().join("info/L3_MON").is_dir());
    simulator.unmount();
    assert!(!simulator.folder.path().join("info").exists());
    let missing = simulator.folder.path().join("missing");
    let (code, error) = stderr_of(crosstalk().arg("resctrl-sim").arg(&missing));
    assert_eq!(code, Some(2), "{error}");
    let (code, error) = stderr_of(
        crosstalk().arg("resctrl-sim").arg(simulator.folder.path()).args(["--profile", "vax"]),
    );
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("intel-spr"), "{error}");
}
