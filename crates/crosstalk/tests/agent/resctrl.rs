//! resctrl as a source, against a simulator that is really mounted.

use crate::client::get;
use crate::process::{Agent, source, until};
use crate::support::simulator::Simulator;
use serde_json::{Value, json};
use std::fs;
use std::process::{Child, Command};

/// Reads and writes 64 MiB over and over; ended when dropped.
struct Streamer(Child);

impl Streamer {
    fn start() -> Self {
        let program = "a = bytearray(64 << 20)\nb = bytes(len(a))\nwhile True: a[:] = b";
        Self(Command::new("/usr/bin/python3").args(["-c", program]).spawn().unwrap())
    }
}

impl Drop for Streamer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn agent(simulator: &Simulator) -> Agent {
    Agent::start(&format!(
        "[sampling]\nperiod = \"100ms\"\n[sources.resctrl]\nroot = \"{}\"\n\
         [sources.counters]\nmode = \"off\"\n",
        simulator.root()
    ))
}

fn number(answer: &Value, key: &str) -> f64 {
    answer["metrics"][key].as_f64().unwrap_or_else(|| panic!("{key}: {answer:#}"))
}

#[test]
fn cache_and_memory_traffic_of_the_node_come_from_a_mounted_resctrl() {
    let simulator = Simulator::start();
    let root = simulator.folder.path();
    let streamer = Streamer::start();
    let agent = agent(&simulator);
    let answer = agent.until("window_seconds=5", |answer| {
        source(answer, "resctrl")["samples_count"].as_u64() > Some(10)
            && answer["metrics"]["mean_mem_bw_total"].as_f64() > Some(1e6)
    });
    assert!(number(&answer, "max_llc_occupancy") > 1e5, "{answer:#}");
    // The small profile has one cache of 16 MiB.
    assert!(number(&answer, "max_llc_occupancy") <= 16.0 * 1024.0 * 1024.0, "{answer:#}");
    // Read a moment after the total, it may already hold a little more.
    let (local, total) =
        (number(&answer, "mean_mem_bw_local"), number(&answer, "mean_mem_bw_total"));
    assert!(local <= 1.1 * total, "{local} of {total}");
    let found = source(&answer, "resctrl");
    assert_eq!(found["verdict"], json!("ok"), "{found:#}");
    assert!(found["found"].as_str().unwrap().contains("1 control group, simulated"), "{found:#}");
    assert_eq!(
        found["metrics"],
        json!(["mem_bw_total", "mem_bw_local", "llc_occupancy"]),
        "nobody else has them here"
    );
    assert!(answer["absent"]["mem_bw_total"].is_null());
    let text = get(agent.address, "/metrics").body;
    assert!(text.contains("\ncrosstalk_node_llc_occupancy_bytes "), "{text}");

    // What a control group does is the node's too, though the root no longer counts it.
    fs::create_dir(root.join("batch")).unwrap();
    let tasks = root.join("batch/tasks");
    fs::write(&tasks, streamer.0.id().to_string()).unwrap();
    let answer = agent.until("window_seconds=1", |answer| {
        let found = source(answer, "resctrl")["found"].as_str().unwrap_or_default();
        found.contains("2 control groups")
    });
    let answer = if number(&answer, "last_mem_bw_total") > 1e6 {
        answer
    } else {
        agent.until("window_seconds=1", |a| a["metrics"]["last_mem_bw_total"].as_f64() > Some(1e6))
    };
    assert_eq!(source(&answer, "resctrl")["errors"], json!(0));
    // It makes no groups of its own: those belong to recorders and other tools.
    assert!(simulator.groups().is_empty());
}

#[test]
fn a_mount_that_goes_away_is_a_verdict_and_is_taken_up_again_when_it_is_back() {
    let mut simulator = Simulator::start();
    let agent = agent(&simulator);
    let state = |answer: &Value| source(answer, "resctrl").clone();
    agent.until("window_seconds=5", |answer| state(answer)["verdict"] == json!("ok"));
    simulator.unmount();
    let answer =
        agent.until("window_seconds=5", |answer| state(answer)["verdict"] == json!("failing"));
    let found = state(&answer);
    assert!(found["found"].as_str().unwrap().contains(simulator.root()), "{found:#}");
    assert!(found["errors"].as_u64() >= Some(1), "{found:#}");
    assert_eq!(source(&answer, "proc")["errors"], json!(0), "the others never noticed");
    simulator.mount_again();
    let answer = agent.until("window_seconds=5", |answer| {
        state(answer)["verdict"] == json!("ok") && state(answer)["samples_count"].as_u64() > Some(3)
    });
    assert!(state(&answer)["restarts"].as_u64() >= Some(1), "{answer:#}");
}

#[test]
fn a_machine_without_it_says_so_in_ready_and_in_every_answer() {
    let host = tempfile::tempdir().unwrap();
    // A host that has nothing but the files that say so.
    fs::create_dir(host.path().join("proc")).unwrap();
    fs::write(host.path().join("proc/mounts"), "proc /proc proc rw 0 0\n").unwrap();
    fs::write(host.path().join("proc/filesystems"), "nodev\tproc\n").unwrap();
    fs::write(host.path().join("proc/stat"), "cpu  1 0 1 1 0 0 0 0 0 0\n").unwrap();
    let agent = Agent::start(&format!(
        "host_root = \"{}\"\n[sampling]\nperiod = \"100ms\"\n",
        host.path().display()
    ));
    let mut ready = Value::Null;
    until(|| {
        ready = get(agent.address, "/ready").json();
        source(&ready, "resctrl")["verdict"] == json!("absent")
    })
    .unwrap_or_else(|()| panic!("{ready:#}"));
    let found = source(&ready, "resctrl");
    assert!(found["found"].as_str().unwrap().contains("/proc/filesystems"), "{found:#}");
    assert!(found["fix"].as_str().unwrap().contains("Intel RDT"), "{found:#}");
    let answer = agent.window("window_seconds=1");
    for metric in ["mem_bw_local", "llc_occupancy"] {
        let why = answer["absent"][metric].as_str().unwrap();
        assert!(why.contains("resctrl: ") && why.contains("no resctrl file system"), "{why}");
    }
}
