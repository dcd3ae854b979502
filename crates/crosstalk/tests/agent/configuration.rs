//! File, environment and flags.

use crate::process::crosstalk;
use std::fs;

#[test]
fn the_printed_configuration_passes_its_own_check() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    let printed = crosstalk().arg("--print-config").output().unwrap();
    fs::write(&file, &printed.stdout).unwrap();
    let checked = crosstalk().arg("--check").arg("--config").arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn a_mistake_is_told_with_file_and_line_and_a_usage_status() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    fs::write(&file, "[sampling]\n\nperiod = \"fast\"\n").unwrap();
    let checked = crosstalk().arg("--check").arg("--config").arg(&file).output().unwrap();
    assert_eq!(checked.status.code(), Some(2));
    let error = String::from_utf8_lossy(&checked.stderr);
    assert!(error.contains("agent.toml:3: "), "{error}");
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("agent.toml");
    fs::write(&file, "listen = \"127.0.0.1:1\"\n").unwrap();
    let listens = |flag: &[&str], variable: Option<&str>| {
        let mut command = crosstalk();
        command.arg("--check").arg("--config").arg(&file).args(flag);
        if let Some(value) = variable {
            command.env("CROSSTALK_AGENT_LISTEN", value);
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(listens(&[], None).contains("127.0.0.1:1\n"));
    assert!(listens(&[], Some("127.0.0.1:2")).contains("127.0.0.1:2\n"));
    let flag = ["--listen", "127.0.0.1:3"];
    assert!(listens(&flag, Some("127.0.0.1:2")).contains("127.0.0.1:3\n"));
    let wrong = crosstalk().arg("--check").env("CROSSTALK_AGENT_LISTEN", "x").output().unwrap();
    let error = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(error.contains("CROSSTALK_AGENT_LISTEN: "), "{error}");
}

#[test]
fn an_address_already_taken_is_told_with_the_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = crosstalk().args(["--listen", &address]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(&address) && error.contains("--listen"), "{error}");
    assert_eq!(error.matches("in use").count(), 1, "{error}");
}

#[test]
fn output_that_cannot_be_written_is_a_failure_with_the_reason() {
    for flag in ["--print-config", "--check"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = crosstalk().arg(flag).stdout(full).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("cannot write to standard output: No space left"), "{error}");
    }
}
