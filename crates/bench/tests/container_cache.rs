//! Cache and memory traffic of containers, from the simulator to the recording.
#![allow(clippy::unwrap_used)]

#[path = "../../inventory/tests/support/mod.rs"]
mod engine;
mod support;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use crosstalk_bench::result::{Recorded, series};
use crosstalk_bench::runtime::DockerEngine;
use crosstalk_bench::store::RunDir;
use crosstalk_host::HostRoot;
use crosstalk_recording::Reader;
use crosstalk_resctrl_sim::{Profile, mount};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::process::Command;
use std::time::Duration;
use support::{Bench, can_make_cgroups};

/// Its first thread only waits; the second goes through 32 MiB for ever.
const WORKER: &str = "
import threading
def work():
    memory, ones, at = bytearray(32 << 20), bytes(65536), 0
    while True:
        memory[at : at + 65536] = ones
        at = (at + 65536) % (len(memory) - 65536)
threading.Thread(target=work, daemon=True).start()
threading.Event().wait()
";

/// Rows of a data set as columns by name; numbers only, and words as their text.
fn rows(dir: &RunDir, dataset: &str) -> Vec<BTreeMap<String, String>> {
    let reader = Reader::open([dir.data().display().to_string()]).unwrap();
    let mut all = Vec::new();
    for piece in reader.scan(dataset).pieces() {
        let batch: RecordBatch = piece.unwrap().batch;
        for row in 0..batch.num_rows() {
            let mut values = BTreeMap::new();
            for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
                let number =
                    column.as_primitive_opt::<Int64Type>().map(|c| c.value(row).to_string());
                let text = || column.as_string_opt::<i32>().map(|c| c.value(row).to_owned());
                if let Some(value) = number.or_else(text).filter(|_| column.is_valid(row)) {
                    values.insert(field.name().clone(), value);
                }
            }
            all.push(values);
        }
    }
    all
}

fn number(row: &BTreeMap<String, String>, column: &str) -> Option<u64> {
    row.get(column)?.parse().ok()
}

/// What processes of a cgroup moved by the data set cache, each value once.
fn moved_by_processes(dir: &RunDir, cgroup_id: u64) -> u64 {
    let tasks = rows(dir, "tasks");
    let mine = tasks.iter().filter(|row| number(row, "cgroup_id") == Some(cgroup_id));
    let mine: HashSet<&String> = mine.map(|row| &row["pid"]).collect();
    let (mut told, mut sum) = (HashSet::new(), 0);
    for row in rows(dir, "cache") {
        let reading = ["group_id", "l3_domain", "read_at_ns"].map(|key| row[key].clone());
        if mine.contains(&row["pid"]) && row["scope"] != "shared" && told.insert(reading) {
            sum += number(&row, "mbm_total_bytes").unwrap_or(0);
        }
    }
    sum
}

#[test]
fn a_container_has_what_all_threads_and_later_commands_of_it_hold_and_move() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let simulator = match mount(Profile::small(), folder.path()) {
        Ok(simulator) => simulator,
        Err(error) => return support::skip(error),
    };
    let bench = Bench::new().resctrl(folder.path());
    let worker = bench.folder.path().join("worker.py");
    fs::write(&worker, WORKER).unwrap();
    // The command comes when its shell runs already, as what is exec'd into a container does.
    let later = format!("sh -c 'sleep 0.5; python3 {} & wait'", worker.display());
    let text = format!(
        "benchmark: {{name: held, max_t: 5, data: {{profilefrequency: 50, probe: false}}}}
busy: {{index: 0, command: {later:?}}}
idle: {{index: 1, command: \"sleep 60\"}}
unseen: {{index: 2, command: {later:?}, data: {{rdt: false}}}}
"
    );
    let (dir, record) = bench.run(&text).unwrap();
    simulator.unmount().unwrap();
    if let Some((_, why)) = record.absent.iter().find(|(what, _)| what == "counters") {
        return support::skip(format!("who runs cannot be seen: {why}"));
    }
    let all = rows(&dir, "container_cache");
    let of = |name: &str| all.iter().filter(|row| row["container"] == name).collect::<Vec<_>>();
    let sum =
        |name: &str| of(name).iter().filter_map(|row| number(row, "mbm_total_bytes")).sum::<u64>();
    let most = of("busy").iter().filter_map(|row| number(row, "llc_occupancy_bytes")).max();
    assert!(most > Some(1 << 20) && most <= Some(16 << 20), "{most:?}: {:?}", record.absent);
    // As often as containers are sampled: a millisecond is for who ran.
    let slots: HashSet<u64> =
        rows(&dir, "cache").iter().filter_map(|row| number(row, "slot_start_ns")).collect();
    assert!(slots.iter().all(|slot| slot.is_multiple_of(50_000_000)), "{slots:?}");
    let (_, cgroup_id) = record.rounds[0].cgroup_ids.iter().find(|(n, _)| n == "busy").unwrap();
    assert!(sum("busy") > 1 << 20, "{}", sum("busy"));
    assert_eq!(sum("busy"), moved_by_processes(&dir, *cgroup_id), "nothing is lost on the way");
    assert!(sum("idle") < sum("busy") / 10, "{} {}", sum("idle"), sum("busy"));
    for row in of("idle").iter().filter(|row| number(row, "processes") == Some(0)) {
        assert_eq!(
            number(row, "llc_occupancy_bytes"),
            None,
            "not measured is not nothing: {row:?}"
        );
    }
    assert_eq!(of("unseen").len(), 0);
    let recorded = Recorded::read(&dir, &record).unwrap();
    let titles: Vec<&str> = series("busy", &recorded).iter().map(|one| one.title).collect();
    assert!(titles.contains(&"L3 cache held") && titles.contains(&"memory traffic"), "{titles:?}");
}

#[test]
fn a_collector_that_fails_in_the_middle_costs_the_others_nothing_and_is_named() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let simulator = match mount(Profile::small(), folder.path()) {
        Ok(simulator) => simulator,
        Err(error) => return support::skip(error),
    };
    let bench = Bench::new().resctrl(folder.path());
    let runs = bench.options.runs.clone();
    let text = "benchmark: {name: fails, max_t: 5, data: {profilefrequency: 50, probe: false}}
busy: {index: 0, command: \"sh -c 'while :; do :; done'\"}
";
    let unmounting = std::thread::spawn(move || {
        let has_begun = || {
            let (dir, _) = runs.find("last").ok()?;
            let events = dir.events().ok()?;
            events.iter().any(|event| event.container.as_deref() == Some("busy")).then_some(())
        };
        while has_begun().is_none() {
            engine::pace(Duration::from_millis(20));
        }
        engine::pace(Duration::from_millis(1_500));
        simulator.unmount().unwrap();
    });
    let (dir, record) = bench.run(text).unwrap();
    unmounting.join().unwrap();
    if let Some((_, why)) = record.absent.iter().find(|(what, _)| what == "counters") {
        return support::skip(format!("who runs cannot be seen: {why}"));
    }
    let why = record.absent.iter().find(|(what, _)| what == "cache");
    assert!(why.is_some_and(|(_, why)| why.starts_with("not to the end: ")), "{:?}", record.absent);
    let round = &record.rounds[0];
    let end_ns = round.end_ns.unwrap();
    let last = |dataset: &str| {
        let all = rows(&dir, dataset);
        all.iter().filter_map(|row| number(row, "slot_start_ns")).max().unwrap()
    };
    for dataset in ["containers", "tasks"] {
        let short_ms = end_ns.saturating_sub(last(dataset)) / 1_000_000;
        assert!(short_ms < 1_000, "{dataset} ends {short_ms} ms before the round");
    }
    let first_ns = rows(&dir, "cache").iter().filter_map(|row| number(row, "slot_start_ns")).min();
    assert!(first_ns.is_some_and(|first| first < end_ns), "it was read until it failed");
}

#[test]
fn without_counters_of_who_ran_the_cache_is_said_to_be_absent() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let simulator = match mount(Profile::small(), folder.path()) {
        Ok(simulator) => simulator,
        Err(error) => return support::skip(error),
    };
    let text = "benchmark: {name: blind, max_t: 0.5, data: {perf: false, probe: false}}
a: {index: 0, command: \"sleep 60\"}
";
    let (_, record) = Bench::new().resctrl(folder.path()).run(text).unwrap();
    simulator.unmount().unwrap();
    let why = record.absent.iter().find(|(what, _)| what == "cache");
    assert!(why.is_some_and(|(_, why)| why.contains("data.perf")), "{:?}", record.absent);
}

#[test]
fn a_command_that_is_executed_in_a_docker_container_counts_as_the_containers() {
    if Command::new("dockerd").arg("--version").output().is_err() {
        return support::skip("no dockerd; apt-get install docker.io");
    }
    let folder = tempfile::tempdir().unwrap();
    let simulator = match mount(Profile::small(), folder.path()) {
        Ok(simulator) => simulator,
        Err(error) => return support::skip(error),
    };
    let (daemon, host) = engine::docker("rests:1");
    let mut bench = Bench::new().resctrl(folder.path());
    let socket = daemon.path("docker.sock");
    let docker = DockerEngine::connect(&HostRoot::default(), Some(&socket), None).unwrap();
    bench.options.runtimes.push(Box::new(docker));
    // Its first process only sleeps; all work is done by what is put into it while it runs.
    let text = "benchmark: {name: executed, max_t: 6, data: {profilefrequency: 50, probe: false}}
rests: {index: 0, image: \"rests:1\", command: \"sleep 60\"}
";
    let executed = std::thread::spawn(move || {
        for _ in 0..500 {
            let format = "{{.Names}} {{.Status}}";
            let names = engine::run("docker", &["-H", &host, "ps", "--format", format]).unwrap();
            let ours = names.lines().find(|line| line.contains("-rests Up"));
            if let Some(name) = ours.and_then(|line| line.split(' ').next()) {
                let busy = ["exec", "-d", name, "/bin/sh", "-c", "while :; do :; done"];
                return engine::run("docker", &[&["-H", &host], &busy[..]].concat());
            }
            engine::pace(Duration::from_millis(20));
        }
        Err("it never ran".to_owned())
    });
    let (dir, record) = bench.run(text).unwrap();
    simulator.unmount().unwrap();
    executed.join().unwrap().unwrap();
    if let Some((_, why)) = record.absent.iter().find(|(what, _)| what == "counters") {
        return support::skip(format!("who runs cannot be seen: {why}"));
    }
    let all = rows(&dir, "container_cache");
    let moved: u64 = all.iter().filter_map(|row| number(row, "mbm_total_bytes")).sum();
    let held = all.iter().filter_map(|row| number(row, "llc_occupancy_bytes")).max();
    assert!(moved > 0 && held > Some(0), "{moved} {held:?}: {all:?}");
}
