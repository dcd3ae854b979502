//! The agent's own recording, and its end.

use crate::process::{Agent, crosstalk, source};
use crate::support::moto::Moto;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn a_recording_beside_the_window_is_finished_when_the_agent_is_told_to_end() {
    let out = tempfile::tempdir().unwrap();
    let agent = Agent::start(&format!(
        "[sampling]\nperiod = \"100ms\"\n[recording]\nout = \"{}\"\nformat = \"csv\"\n\
         [sources.counters]\nmode = \"on\"\n",
        out.path().display()
    ));
    let answer = agent.until("window_seconds=5", |answer| {
        source(answer, "counters")["samples_count"].as_u64() > Some(10)
    });
    assert_eq!(source(&answer, "counters")["errors"], json!(0));
    assert_eq!(agent.terminate().code(), Some(0));
    let files = files(out.path());
    assert!(files.iter().all(|file| file.extension().is_none_or(|e| e != "part")), "{files:?}");
    let tasks = files.iter().find(|file| {
        file.extension().is_some_and(|e| e == "csv") && file.to_string_lossy().contains("/tasks/")
    });
    let text = fs::read_to_string(tasks.expect("a tasks file")).unwrap();
    let about = files.iter().find(|file| {
        file.extension().is_some_and(|e| e == "json") && file.to_string_lossy().contains("/slots/")
    });
    let about = fs::read_to_string(about.expect("what the file says about itself")).unwrap();
    let about: Value = serde_json::from_str(&about).unwrap();
    for key in ["host", "kernel", "topology", "counters", "clock", "slot_ns", "schema_version"] {
        assert!(!about[key].is_null(), "{key} is missing");
    }
    assert!(about["columns"]["lost"]["doc"].is_string(), "{about:#}");
    let probe = files.iter().find(|file| {
        file.extension().is_some_and(|e| e == "csv") && file.to_string_lossy().contains("/probe/")
    });
    let probe = fs::read_to_string(probe.expect("a probe file")).unwrap();
    assert!(probe.starts_with("slot_start_ns,time,read_at_ns,core,l3_domain,"), "{probe:.80}");
    let slots: Vec<u64> = probe
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().and_then(|slot| slot.parse().ok()).expect("a slot"))
        .collect();
    assert!(!slots.is_empty() && slots.iter().all(|slot| slot % 1_000_000 == 0), "{slots:?}");
    assert!(text.lines().count() > 100, "{} lines", text.lines().count());
    let output = Command::new(env!("CARGO_BIN_EXE_crosstalk"))
        .args(["analyze", "--json=full"])
        .arg(out.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "analyze reads what the agent wrote: {told}");
    let whole: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(whole["unread"], json!([]));
    let [run] = &whole["runs"].as_array().unwrap()[..] else { panic!("{whole:#}") };
    assert_eq!(run["rows"].as_u64(), Some(text.lines().count() as u64 - 1), "{run:#}");
    assert!(run["caveats"].as_array().unwrap().iter().all(|text| {
        let text = text.as_str().unwrap();
        !text.contains("no data set slots") && !text.contains("no data set probe")
    }));
}

#[test]
fn a_recording_for_a_bucket_is_there_by_day_and_hour_when_the_agent_has_ended() {
    let (store, spool) = (Moto::start(), tempfile::tempdir().unwrap());
    let mut command = crosstalk();
    command.envs(store.keys());
    let config = format!(
        "[sampling]\nperiod = \"100ms\"\n[recording]\nout = \"s3://cluster/agent\"\nspool = \"{}\"\n\
         [sources.counters]\nmode = \"on\"\n",
        spool.path().display()
    );
    let agent = Agent::start_as(command, tempfile::tempdir().unwrap(), &config);
    agent.until("window_seconds=5", |answer| {
        source(answer, "counters")["samples_count"].as_u64() > Some(10)
    });
    assert_eq!(agent.terminate().code(), Some(0));
    let objects = store.objects("agent/");
    for dataset in ["tasks", "slots", "probe"] {
        let is_its = |name: &str| {
            name.starts_with(&format!("agent/{dataset}/node=")) && name.contains("/date=")
        };
        let rows: u64 = objects.iter().filter(|(name, _)| is_its(name)).map(|(_, rows)| rows).sum();
        assert!(rows > 0, "{dataset}: {objects:?}");
    }
    assert!(files(spool.path()).is_empty(), "{:?}", files(spool.path()));
}
