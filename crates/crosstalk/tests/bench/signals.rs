//! Runs that are told to end.

use crate::{PLAIN, bench, can_make_cgroups, is_told, told, write};
use crosstalk_host::{ControlGroup, HostRoot};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_signal_at_any_moment_ends_a_run_that_leaves_nothing_behind() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let text = format!(
        "benchmark: {{name: signalled, max_t: 60, {PLAIN}}}\n\
         a: {{index: 0, command: \"sh -c 'sleep 1000 & wait'\"}}\nb: {{index: 1, command: \"sleep 1000\", start: 50}}\n"
    );
    let file = write(folder.path(), &text);
    let mut pids = Vec::new();
    // Another moment every time, after it listens to signals: the first line says that it does.
    for (signal, spread) in [("INT", 1_500), ("TERM", 1_500), ("INT", 300), ("TERM", 300)] {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let millis = u64::from(now.subsec_nanos()) / 1_000 % spread;
        let mut driver = bench(&runs)
            .args(["run", &file])
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = std::io::BufReader::new(driver.stderr.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        #[allow(clippy::disallowed_methods)] // the moment is what is tried
        std::thread::sleep(Duration::from_millis(millis));
        let pid = driver.id().to_string();
        assert!(
            Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success()
        );
        let reader = std::thread::spawn(move || std::io::read_to_string(said).unwrap_or_default());
        let status = driver.wait().unwrap();
        let said = reader.join().unwrap();
        let left = ControlGroup::list(&HostRoot::default(), &format!("crosstalk-bench-{pid}-"));
        assert!(left.is_empty(), "SIG{signal} after {millis} ms: {left:?}\n{line}{said}");
        assert!(status.code().is_some(), "SIG{signal} after {millis} ms: {status}: {said}");
        pids.push(pid);
    }
    let list = bench(&runs).args(["list", "--json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    for run in list.as_array().unwrap() {
        assert_eq!(run["outcome"]["how"], "interrupted", "{run:#}");
        let id = run["id"].as_str().unwrap();
        let shown = bench(&runs).args(["show", id, "--json"]).output().unwrap();
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        // It was to go on for a minute.
        assert!(shown["latest_ms"].as_f64().is_none_or(|ms| ms < 30_000.0), "no plan: {shown:#}");
    }
    let clean = told(&bench(&runs).arg("clean").output().unwrap());
    for pid in pids {
        assert!(!clean.contains(&format!("crosstalk-bench-{pid}-")), "{clean}");
    }
}

#[test]
fn a_second_signal_waits_for_nobody_and_still_leaves_nothing() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let stubborn = "sh -c 'trap \"\" TERM INT; while :; do sleep 0.1; done'";
    let text = format!(
        "benchmark: {{name: twice, max_t: -1, {PLAIN}}}\na: {{index: 0, command: {stubborn:?}}}\n"
    );
    let file = write(folder.path(), &text);
    let mut driver = bench(&runs)
        .args(["run", &file, "--quiet", "--grace", "1h"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = driver.id().to_string();
    let until = |what: &str, there: &str| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_told(&runs, there) {
            assert!(Instant::now() < deadline, "{what}");
            #[allow(clippy::disallowed_methods)] // a file tells nobody what is written to it
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let signal = || assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    until("nobody started", "\"event\":\"start\"");
    signal();
    until("nobody was asked to stop", "\"event\":\"stop\"");
    assert!(driver.try_wait().unwrap().is_none(), "it has an hour to stop");
    signal();
    assert_eq!(driver.wait().unwrap().code(), Some(1));
    assert!(is_told(&runs, "\"event\":\"kill\""));
    let left = ControlGroup::list(&HostRoot::default(), &format!("crosstalk-bench-{pid}-"));
    assert!(left.is_empty(), "{left:?}");
    let list = told(&bench(&runs).arg("list").output().unwrap());
    assert!(list.contains("interrupted"), "{list}");
}
