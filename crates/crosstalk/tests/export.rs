//! A trace is what Perfetto's own definitions say a trace is: read back by the `perfetto` package, as `make readers`
//! installs it. Its TraceProcessor is not asked: the package does not hold that program but fetches it from a server of
//! Google's when it is first used, which a test must not depend on.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn crosstalk(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crosstalk"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn python() -> PathBuf {
    let python =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/readers/bin/python"));
    assert!(python.exists(), "the perfetto package is not installed; run: make readers");
    python
}

/// Every track by name with its slices (begun, ended) and counts, whether its parent is there, and the time that slices
/// of each core cover.
const READ: &str = r#"
import json, sys
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
trace = Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
tracks = {}
for packet in trace.packet:
    if packet.HasField("track_descriptor"):
        d = packet.track_descriptor
        tracks[d.uuid] = {"name": d.name, "parent": d.parent_uuid, "begun": 0, "ended": 0, "counts": 0,
                          "covered": 0, "names": [], "counter": d.HasField("counter")}
    if packet.HasField("track_event"):
        e, t = packet.track_event, tracks[packet.track_event.track_uuid]
        if e.type == TrackEvent.TYPE_SLICE_BEGIN:
            t["begun"] += 1; t["covered"] -= packet.timestamp; t["names"].append(e.name)
        if e.type == TrackEvent.TYPE_SLICE_END:
            t["ended"] += 1; t["covered"] += packet.timestamp
        if e.type == TrackEvent.TYPE_COUNTER:
            t["counts"] += 1
for t in tracks.values():
    assert t["parent"] == 0 or t["parent"] in tracks
    t["names"] = sorted(set(t["names"]))
print(json.dumps(list(tracks.values())))
"#;

#[test]
fn a_recording_is_a_trace_with_its_cores_counters_and_verdicts() {
    let folder = tempfile::tempdir().unwrap();
    let made = crosstalk(
        &["simulate", "--out", "rec", "--duration", "12s", "--seed", "7", "--format", "parquet"],
        folder.path(),
    );
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let exported =
        crosstalk(&["export", "rec", "--perfetto", "rec.pftrace", "--json"], folder.path());
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    let said: Value = serde_json::from_slice(&exported.stdout).unwrap();
    let verdicts = crosstalk(&["analyze", "rec", "--json"], folder.path());
    let verdicts: Vec<Value> = serde_json::from_slice(&verdicts.stdout).unwrap();

    let read = Command::new(python())
        .args(["-c", READ, "rec.pftrace"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let tracks: Vec<Value> = serde_json::from_slice(&read.stdout).unwrap();
    let named = |name: &str| -> Vec<&Value> {
        tracks.iter().filter(|t| t["name"].as_str().unwrap().starts_with(name)).collect()
    };
    let number = |track: &Value, key: &str| track[key].as_u64().unwrap();
    let events: u64 =
        tracks.iter().map(|t| number(t, "begun") + number(t, "ended") + number(t, "counts")).sum();
    assert_eq!(Some(events), said["events"].as_u64());
    for core in named("core ") {
        assert_eq!(number(core, "begun"), number(core, "ended"), "{core}");
        assert!(
            number(core, "covered") <= 12_000_000_000,
            "slices of a core never overlap: {core}"
        );
    }
    assert!(named("core ").len() > 1 && named("busy").iter().all(|t| number(t, "counts") > 0));
    assert_eq!(named("busy").len(), named("core ").len());
    // The simulated machine counts, and its probe answers.
    for counter in ["busy", "instructions per cycle", "cache misses per slot", "memory's answer"] {
        let tracks = named(counter);
        assert!(!tracks.is_empty(), "{counter}");
        assert!(
            tracks.iter().all(|t| t["counter"] == true && number(t, "counts") > 0),
            "{counter}"
        );
    }
    assert_eq!(named("verdict: ").len(), verdicts.len());
    for verdict in &verdicts {
        let victim = format!("verdict: {}", verdict["victim"].as_str().unwrap());
        let by = format!(" to {} ", verdict["aggressor"].as_str().unwrap());
        let names = |t: &&Value| t["names"][0].as_str().unwrap().contains(&by);
        assert!(named(&victim).iter().any(names), "{verdict}");
    }
}

#[test]
fn what_cannot_be_read_or_written_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = crosstalk(&["export", "nowhere", "--perfetto", "x.pftrace"], folder.path());
    assert_eq!(nothing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("nowhere"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
