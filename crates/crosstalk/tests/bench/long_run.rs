//! What it takes to show a long run: no more than the driver may take.

use crate::{bench, told};
use crosstalk_bench::Experiment;
use crosstalk_bench::collectors::{ContainerRow, ProgressRow};
use crosstalk_bench::experiment::{Surroundings, Variables};
use crosstalk_bench::plan::RoundKind;
use crosstalk_bench::store::{Event, EventKind, Outcome, RanRound, RunDir, RunStore};
use crosstalk_host::HostRoot;
use crosstalk_model::{Batch, Row};
use crosstalk_recording::{Format, Layout, Metadata, Recording, RecordingOptions, Run};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

const CONTAINERS: u32 = 20;
const SECONDS: u64 = 900;
const EVERY_MS: u64 = 50;
const MOST_BYTES: u64 = 50 << 20;
const ZERO_NS: u64 = 1_767_225_600_000_000_000;

/// What a sampler of containers sees, and what they say, one of them slower from the middle on, when the last starts.
fn rows(index: u32, step: u64) -> (ContainerRow, ProgressRow) {
    let container: Arc<str> = format!("c{index}").into();
    let slot_start_ns = ZERO_NS + (step + 1) * EVERY_MS * 1_000_000;
    let used = ContainerRow {
        slot_start_ns,
        covers_ns: EVERY_MS * 1_000_000,
        round: 0,
        index,
        container: Arc::clone(&container),
        cpu_ns: Some(step % 50_000_000),
        throttled_ns: None,
        memory_bytes: Some(1 << 30),
        block_read_bytes: Some(step % 9_000),
        block_written_bytes: Some(0),
        network_received_bytes: None,
        network_sent_bytes: None,
        cache_allocation: None,
        bandwidth_allocation: None,
    };
    let half = SECONDS * 1_000 / EVERY_MS / 2;
    let done = step as f64 * 2.0 - step.saturating_sub(half) as f64;
    (used, ProgressRow { slot_start_ns, round: 0, index, container, done })
}

fn record<R: Row + 'static>(recording: &mut Recording, rows: Vec<R>) {
    let table = Batch::table(&[Batch::new(rows)]).unwrap();
    recording.open(table.dataset, table.first_slot_ns).unwrap();
    recording.write(table).unwrap();
}

fn fill(dir: &RunDir) {
    let options = RecordingOptions {
        out: dir.data(),
        append: false,
        format: Format::Parquet,
        layout: Layout::Flat,
        rotate_bytes: 256 << 20,
        rotate_after: Duration::from_secs(600),
    };
    let run = Run::new("node", ZERO_NS);
    let (mut recording, _) = Recording::create(options, run, Metadata::default()).unwrap();
    let steps = SECONDS * 1_000 / EVERY_MS;
    for first in (0..steps).step_by(200) {
        let all = (first..first + 200).flat_map(|step| (0..CONTAINERS).map(move |at| (at, step)));
        let (used, said): (Vec<_>, Vec<_>) = all.map(|(at, step)| rows(at, step)).unzip();
        record(&mut recording, used);
        record(&mut recording, said);
    }
    recording.finish().unwrap();
}

/// A run that nobody waited for: fifteen minutes of twenty containers, the last of which starts in the middle.
fn synthesize(runs: &Path) {
    let around = Surroundings {
        cpus: [0].into_iter().collect(),
        path: vec!["/bin".into(), "/usr/bin".into()],
    };
    let all = (0..CONTAINERS).map(|at| format!("c{at}: {{index: {at}, command: sh}}\n"));
    let text = "benchmark: {name: long}\n".to_owned() + &all.collect::<String>();
    let experiment = Experiment::parse("e.yaml", &text, &Variables::default(), &around).unwrap();
    let store = RunStore::at(runs);
    let (dir, mut record) =
        store.create(&experiment, &text, ZERO_NS, &HostRoot::default()).unwrap();
    let end_ns = ZERO_NS + SECONDS * 1_000_000_000;
    let (number, kind, cgroup_ids) = (0, RoundKind::Together, Vec::new());
    let round = RanRound { number, kind, zero_ns: ZERO_NS, end_ns: Some(end_ns), cgroup_ids };
    (record.rounds, record.ended_ns) = (vec![round], Some(end_ns));
    record.outcome = Some(Outcome::Completed);
    let mut log = dir.event_log().unwrap();
    for index in 0..CONTAINERS {
        let seconds = if index + 1 == CONTAINERS { SECONDS / 2 } else { 0 };
        let unix_ns = ZERO_NS + seconds * 1_000_000_000;
        let (container, kind) = (Some(format!("c{index}")), EventKind::Start { late_ms: 0.0 });
        log.add(&Event { unix_ns, seconds: seconds as f64, round: 0, container, kind }).unwrap();
    }
    fill(&dir);
    dir.write(&record).unwrap();
}

/// The most memory that a process had so far.
fn most_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

#[test]
fn a_long_run_is_shown_and_drawn_within_the_memory_that_the_driver_may_take() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    synthesize(&runs);
    let page = folder.path().join("page.html");
    let mut command = bench(&runs);
    command.args(["show", "last", "--html"]).arg(&page).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let pid = child.id();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = most_bytes(pid).unwrap_or(most);
        #[allow(clippy::disallowed_methods)] // a process tells nobody when it grows
        std::thread::sleep(Duration::from_millis(5));
    }
    let shown = bench(&runs).args(["show", "last", "--json"]).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let mib = most as f64 / f64::from(1 << 20);
    eprintln!("{mib:.0} MiB for {SECONDS} s of {CONTAINERS} containers");
    assert!(most > 0 && most < MOST_BYTES, "{mib:.1} MiB");
    // Whatever was left out of it: all that was done is in it, before the last came and after.
    let rate = |others: usize| {
        let mut fared = shown["containers"][0]["fared"].as_array().unwrap().iter();
        let found = fared.find(|one| one["beside"].as_array().unwrap().len() == others).unwrap();
        found["rate"]["value"].as_f64().unwrap()
    };
    let [without, with] = [CONTAINERS as usize - 2, CONTAINERS as usize - 1].map(rate);
    assert!((without - 40.0).abs() < 0.5 && (with - 20.0).abs() < 0.5, "{without} {with}");
    let page = fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("units/s</text>").count(), CONTAINERS as usize, "a series of each");
    assert!(page.len() < 4 << 20, "{} bytes", page.len());
    let list = bench(&runs).arg("list").output().unwrap();
    assert!(told(&list).contains("completed"), "{}", told(&list));
}
