//! Commands of the second program: started where it is, and how to get it said where it is not.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use std::path::Path;
use std::process::{Command, Output};
use support::{install, install_script};

/// The program alone in a folder: what else is built lies beside the original.
fn alone(folder: &Path, args: &[&str]) -> Output {
    let program = folder.join("crosstalk");
    if !program.exists() {
        install(Path::new(env!("CARGO_BIN_EXE_crosstalk")), &program);
    }
    Command::new(program).args(args).env("PATH", "/nonexistent").output().unwrap()
}

#[test]
fn a_part_that_is_missing_is_named_with_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    for args in [
        &["sql", "rec"][..],
        &["compact", "rec"],
        &["rollup", "rec"],
        &["analyze", "rec", "--engine", "x"],
    ] {
        let output = alone(folder.path(), args);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("crosstalk-sql") && told.contains("make sql"), "{told}");
    }
}

#[test]
fn a_part_gets_everything_behind_its_name_and_its_exit_code_is_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("crosstalk-sql");
    install_script("#!/bin/sh\nprintf '%s|' \"$@\"\nexit 5\n", &part);
    let output = alone(folder.path(), &["sql", "rec", "SELECT 1", "--format", "csv"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "sql|rec|SELECT 1|--format|csv|");
    assert_eq!(output.status.code(), Some(5));
    let help = alone(folder.path(), &["compact", "--help"]);
    assert_eq!(String::from_utf8_lossy(&help.stdout), "compact|--help|");
}

#[test]
fn an_engine_is_told_how_much_memory_it_may_take() {
    let folder = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh\nprintf '%s|' \"$@\" >&2\nexit 1\n";
    install_script(script, &folder.path().join("crosstalk-sql"));
    let asked = ["analyze", "rec", "--engine", "datafusion", "--memory", "64MiB"];
    let output = alone(folder.path(), &asked);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("|--memory|67108864|"), "{told}");
    let output = alone(folder.path(), &["analyze", "rec", "--memory", "64MiB"]);
    assert_eq!(output.status.code(), Some(2), "it is the engine's");
}

#[test]
fn an_engine_that_was_killed_is_told_with_the_signal() {
    let folder = tempfile::tempdir().unwrap();
    install_script("#!/bin/sh\nkill -KILL $$\n", &folder.path().join("crosstalk-sql"));
    let output = alone(folder.path(), &["analyze", "rec", "--engine", "datafusion"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("crosstalk-sql was ended by signal 9: out of memory"), "{told}");
}

#[test]
fn what_an_engine_that_failed_could_judge_is_told_and_the_exit_code_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let report =
        r#"{"runs":[],"training":[],"unread":["node a, run b: waits: too little memory"]}"#;
    let script = format!("#!/bin/sh\necho '{report}'\nexit 1\n");
    install_script(&script, &folder.path().join("crosstalk-sql"));
    let output = alone(folder.path(), &["analyze", "rec", "--engine", "datafusion", "--json"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("not used: node a, run b: waits: too little memory"), "{told}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "[]");
}
