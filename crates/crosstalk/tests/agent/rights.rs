//! The rights the manifests give are enough.

use crate::process::{Agent, source};
use serde_json::json;
use std::process::Command;

#[test]
fn two_capabilities_and_a_read_only_root_are_all_it_needs() {
    // As deploy/kubernetes/agent.yaml starts it: root by number, nothing to write to, no way to more rights.
    let script = "mount -o remount,bind,ro / && exec setpriv --no-new-privs --inh-caps=-all \
                  --bounding-set=-all,+bpf,+perfmon \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.args([env!("CARGO_BIN_EXE_crosstalk"), "agent"]);
    let config = "[sampling]\nperiod = \"100ms\"\n[sources.counters]\nmode = \"on\"\n";
    let agent = Agent::start_as(command, tempfile::tempdir().unwrap(), config);
    let answer = agent.until("window_seconds=5", |answer| {
        ["counters", "proc", "probe"]
            .iter()
            .all(|name| source(answer, name)["samples_count"].as_u64() > Some(2))
    });
    for name in ["counters", "proc", "cgroup", "probe"] {
        assert_eq!(source(&answer, name)["errors"], json!(0), "{answer:#}");
    }
    assert_eq!(agent.terminate().code(), Some(0));
}
