//! What a run recorded is what `crosstalk analyze` reads.

use crate::skip::skip;
use crate::support::crosstalk;
use crate::{bench, can_make_cgroups, told, write};
use serde_json::Value;

#[test]
fn a_runs_folder_is_a_recording_of_which_analyze_says_who_held_whose_core() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = "
benchmark: {name: both, max_t: 8, data: {probe: false, rdt: false}}
victim: {index: 0, command: crosstalk workload chase --bytes 64KiB, core: 0}
hog: {index: 1, command: crosstalk workload compute, core: 0, start: 2}
";
    let file = write(folder.path(), text);
    let runs = folder.path().join("runs");
    let output = bench(&runs).args(["run", &file, "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let absent = found["summary"]["run"]["absent"].as_array().unwrap();
    if let Some(why) = absent.iter().find(|pair| pair[0] == "counters") {
        return skip(why);
    }
    let mut analyze = crosstalk();
    analyze.arg("analyze").arg(&runs).args(["--json=full", "--exit-code"]);
    let output = analyze.output().unwrap();
    assert_eq!(output.status.code(), Some(5), "no loss was found: {}", told(&output));
    let whole: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(whole["unread"], Value::Array(Vec::new()));
    assert_eq!(whole["runs"].as_array().map(Vec::len), Some(1), "{whole:#}");
    let lost = whole["verdicts"].as_array().unwrap().iter().find(|verdict| {
        let is = |key: &str, kind: &str| verdict[key].as_str().unwrap().starts_with(kind);
        is("victim", "chase (") && is("aggressor", "compute (") && is("resource", "cpu time")
    });
    let lost = lost.unwrap_or_else(|| panic!("{whole:#}"));
    assert!(lost["slowdown"].as_f64() > Some(0.05), "two shared a core: {lost:#}");
}
