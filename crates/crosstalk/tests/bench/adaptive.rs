//! The scheduler that acts, where there is nothing to do.

use crate::skip::skip;
use crate::{bench, can_make_cgroups, told, write};
use serde_json::Value;
use std::process::{Command, Stdio};

#[test]
fn adaptive_says_that_it_does_nothing_where_the_kernel_shows_it_nothing() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = "
benchmark: {name: blind, max_t: 1, scheduler: {implementation: adaptive}, data: {probe: false, rdt: false}}
a: {index: 0, command: sleep 60}
";
    let file = write(folder.path(), text);
    let inner = bench(&folder.path().join("runs"));
    // Cgroups are the owner's; programs in the kernel are for who has these.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_admin,-bpf,-perfmon"]).arg(inner.get_program());
    command.args(inner.get_args()).args(["run", &file, "--json"]).stdin(Stdio::null());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return skip(format!("setpriv: {error}")),
    };
    assert!(output.status.success(), "{}", told(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let decisions = &found["summary"]["decisions"];
    assert_eq!(decisions[0]["what"], "idle", "{found:#}");
    let why = decisions[0]["message"].as_str().unwrap();
    assert!(why.starts_with("adaptive does nothing: who slows whom is not measured: "), "{why}");
}

#[test]
fn a_service_that_nobody_disturbs_is_left_as_it_is() {
    if !can_make_cgroups() || std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return skip("needs two cores and cgroups");
    }
    // The same decisions over simulated machines are a test of the crate; these are real, and two where make test-quiet has twenty.
    let asked = std::env::var("CROSSTALK_QUIET_RUNS").ok().map(|text| text.parse().unwrap());
    let runs_in_all = asked.unwrap_or(2);
    for run in 0..runs_in_all {
        let folder = tempfile::tempdir().unwrap();
        let text = "
benchmark: {name: quiet, max_t: 7, scheduler: {implementation: adaptive}, data: {probe: false}}
service: {index: 0, command: crosstalk workload chase --bytes 1MiB, core: 0, critical: true}
neighbour: {index: 1, command: crosstalk workload compute, core: 1, start: 2}
";
        let file = write(folder.path(), text);
        let runs = folder.path().join("runs");
        let output = bench(&runs).args(["run", &file, "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let absent = found["summary"]["run"]["absent"].as_array().unwrap();
        if let Some(why) = absent.iter().find(|pair| pair[0] == "counters") {
            // Who sees nothing does nothing, which shows nothing; but it must say so.
            assert_eq!(found["summary"]["decisions"][0]["what"], "idle", "run {run}: {why}");
            return skip(why);
        }
        assert_eq!(found["summary"]["decisions"], Value::Array(Vec::new()), "run {run}");
        let shown = told(&bench(&runs).args(["show", "last"]).output().unwrap());
        assert!(shown.contains("adaptive did nothing: it saw nobody slowed"), "{shown}");
    }
    println!("adaptive did nothing in {runs_in_all} runs");
}
