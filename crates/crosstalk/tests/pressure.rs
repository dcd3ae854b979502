//! The `pressure` data set, a source of one folder and one line of wiring, in both jobs that record.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::*;

/// What the kernel tells here, of memory, cores and I/O.
fn resources() -> BTreeSet<String> {
    let files = fs::read_dir("/proc/pressure").into_iter().flatten().flatten();
    let names: BTreeSet<String> =
        files.map(|file| file.file_name().into_string().unwrap()).collect();
    names.into_iter().filter(|name| ["cpu", "io", "memory"].contains(&name.as_str())).collect()
}

/// Every resource has rows of the node, some of which say for how long somebody stood still.
#[track_caller]
fn assert_recorded(out: &Path) {
    let rows = csv_rows(out, "pressure");
    let node = rows.iter().filter(|row| row["cgroup"] == "/" && !row["some_ns"].is_empty());
    let measured: BTreeSet<String> = node.map(|row| row["resource"].clone()).collect();
    assert_eq!(measured, resources(), "{} rows", rows.len());
    let stalled = |row: &Row| {
        row["resource"] == "cpu" && row["some_ns"].parse::<u64>().is_ok_and(|ns| ns > 0)
    };
    assert!(rows.iter().any(stalled), "two that want one core wait for each other");
}

/// Two that want one core.
fn crowd() -> Vec<std::process::Child> {
    let busy = || {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
        command.spawn().unwrap()
    };
    vec![busy(), busy()]
}

/// Ends what is in it, however the test ends.
struct Ended(Vec<std::process::Child>);

impl Drop for Ended {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_recording_says_for_how_long_tasks_stood_still() {
    if resources().is_empty() {
        eprintln!("skipped: this kernel tells of no pressure");
        return;
    }
    let _crowd = Ended(crowd());
    let out = tempfile::tempdir().unwrap();
    succeed(&mut record(out.path(), &["--duration", "4s"]));
    assert_recorded(out.path());
}

#[test]
fn the_agent_records_it_too() {
    if resources().is_empty() {
        eprintln!("skipped: this kernel tells of no pressure");
        return;
    }
    let _crowd = Ended(crowd());
    let out = tempfile::tempdir().unwrap();
    let config = out.path().join("agent.toml");
    let recorded = out.path().join("rec");
    let text = format!("[recording]\nout = \"{}\"\nformat = \"csv\"\n", recorded.display());
    fs::write(&config, text).unwrap();
    let mut agent = crosstalk()
        .args(["agent", "--listen", "127.0.0.1:0", "--config"])
        .arg(&config)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut hello = String::new();
    BufReader::new(agent.stdout.take().unwrap()).read_line(&mut hello).unwrap();
    let mut agent = Ended(vec![agent]);
    // Two looks of a second and what is between them.
    let parts = || files(&recorded, "pressure", ".csv.part").first().map(fs::metadata);
    let began = Instant::now();
    while !matches!(parts(), Some(Ok(part)) if part.len() > 2_000) {
        assert!(began.elapsed() < Duration::from_secs(60), "no rows of pressure");
        std::thread::yield_now();
    }
    let pid = agent.0[0].id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(agent.0[0].wait().unwrap().success());
    assert_recorded(&recorded);
}
