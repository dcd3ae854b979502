//! Compaction in an object store: every row is read once at every step, whoever is killed.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use crosstalk_recording::Format;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::*;

const ALL: &str = "SELECT node, run, pid, comm, count(*), sum(on_cpu_ns), sum(runq_wait_ns), sum(cycles), \
    min(time), max(slot_start_ns) FROM tasks GROUP BY node, run, pid, comm ORDER BY node, pid";

/// Two nodes with two files of each data set, one of them CSV, in a bucket.
fn bucket() -> (Server, String) {
    let (out, more) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    simulate(out.path(), 2, 3, Format::Parquet);
    simulate(more.path(), 2, 4, Format::Csv);
    for ending in [".csv", ".json"] {
        for file in files(more.path(), ending) {
            let name = file.file_name().unwrap().to_str().unwrap();
            let name = name.replace("000000.000Z", "000001.000Z");
            let there = file.strip_prefix(more.path()).unwrap();
            fs::copy(&file, out.path().join(there).with_file_name(name)).unwrap();
        }
    }
    let (server, address) = moto();
    upload(out.path(), &address);
    (server, address)
}

fn all(address: &str) -> String {
    printed(program().args(["sql", "s3://cluster/rec", ALL, "--format", "csv"]).envs(keys(address)))
}

fn compact(address: &str, more: &[&str]) -> Command {
    let mut command = program();
    command.args(["compact", "s3://cluster/rec"]).args(more).envs(keys(address));
    command
}

const NAMES: &str = r#"
import boto3, os
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
for page in s3.get_paginator("list_objects_v2").paginate(Bucket="cluster"):
    for one in page.get("Contents", []):
        print(one["Key"])
"#;

fn names(address: &str) -> Vec<String> {
    let names = printed(Command::new(tool("python")).args(["-c", NAMES]).envs(keys(address)));
    // What the simulator says of the truth is no data set.
    names.lines().filter(|name| !name.contains("/labels/")).map(str::to_owned).collect()
}

/// One Parquet object in each folder, and nothing else.
fn is_merged(address: &str) -> bool {
    let names = names(address);
    let mut folders: Vec<_> = names.iter().filter_map(|name| Path::new(name).parent()).collect();
    folders.dedup();
    names.iter().all(|name| name.ends_with(".parquet")) && folders.len() == names.len()
}

#[test]
fn every_row_is_read_once_before_between_and_after() {
    let (_server, address) = bucket();
    let (before, old) = (all(&address), names(&address));
    let merged = printed(&mut compact(&address, &[]));
    assert_eq!(merged.matches(": 2 files are 1 now").count(), merged.lines().count(), "{merged}");
    let between = names(&address);
    assert!(old.iter().all(|name| between.contains(name)), "{between:?}");
    assert!(between.len() > old.len(), "{between:?}");
    assert_eq!(all(&address), before);
    let left = printed(&mut compact(&address, &[]));
    assert!(left.lines().all(|line| line.contains("left: it is merged; readers")), "{left}");
    assert_eq!(names(&address), between);
    let done = printed(&mut compact(&address, &["--grace", "0s"]));
    assert!(done.lines().all(|line| line.contains("left: it is one file already")), "{done}");
    assert!(is_merged(&address), "{:?}", names(&address));
    assert_eq!(all(&address), before);
}

#[test]
fn killed_at_any_moment_no_row_is_lost_or_doubled_and_the_next_call_goes_on() {
    let (_server, address) = bucket();
    let before = all(&address);
    let mut began = 0;
    for moment in (0..12).map(|step| Duration::from_millis(150 * step)) {
        let mut child: Child = compact(&address, &["--grace", "0s", "--unfinished", "0s"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
        began += usize::from(names(&address).iter().any(|name| name.ends_with("~exchange.json")));
        assert_eq!(all(&address), before, "killed after {moment:?}");
    }
    assert!(began > 0, "it was never killed in the middle of an exchange");
    printed(&mut compact(&address, &["--grace", "0s", "--unfinished", "0s"]));
    assert!(is_merged(&address), "{:?}", names(&address));
    assert_eq!(all(&address), before);
}

#[test]
fn of_two_at_once_one_merges_each_folder() {
    let (_server, address) = bucket();
    let before = all(&address);
    let start = || compact(&address, &[]).stdout(Stdio::piped()).spawn().unwrap();
    let both = [start(), start()].map(|child| child.wait_with_output().unwrap());
    for one in &both {
        assert!(one.status.success(), "{one:?}");
    }
    assert_eq!(all(&address), before);
    printed(&mut compact(&address, &["--grace", "0s"]));
    assert!(is_merged(&address), "{:?}", names(&address));
    assert_eq!(all(&address), before);
}
