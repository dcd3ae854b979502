//! Ports of this machine that containers of a real Docker Engine are to be reached by.
#![allow(clippy::unwrap_used)]

mod bridge;
mod contained;
#[path = "../../inventory/tests/support/mod.rs"]
mod engine;
mod support;

use bridge::Bridge;
use contained::{bench, has_engine, names};
use crosstalk_bench::store::Outcome;
use std::net::TcpListener;
use support::{Bench, PLAIN, own_cgroups, skip};

/// Runs what must fail; why it did, as its folder tells it too.
fn failure(bench: &Bench, text: &str) -> String {
    let error = bench.run(text).map(|(_, record)| record.outcome).unwrap_err().to_string();
    let (_, record) = bench.options.runs.find("last").unwrap();
    assert_eq!(record.outcome, Some(Outcome::Failed(error.clone())));
    error
}

#[test]
fn a_port_that_is_taken_is_told_with_its_line_before_anything_is_fetched_or_made() {
    if !has_engine() {
        return;
    }
    let (daemon, host) = engine::docker("counter:10");
    let bench = bench(&daemon);
    let listeners = ["127.0.0.1:0", "0.0.0.0:0"].map(|address| TcpListener::bind(address).unwrap());
    let [first, second] = listeners.each_ref().map(|one| one.local_addr().unwrap().port());
    let text = format!(
        "benchmark: {{name: taken, max_t: 2, {PLAIN}}}
first:
  index: 0
  image: no-such-image:9
  port: \"{first}:80\"
beside: {{index: 1, command: \"sleep 60\"}}
second:
  index: 2
  image: counter:10
  command: sleep 60
  port: [\"{second}:80\"]
"
    );
    let error = failure(&bench, &text);
    let why = "somebody on this machine listens there; stop them or publish another";
    let expected = format!(
        "test.yaml:5: first.port: {first} is taken, {why}\ntest.yaml:11: second.port: {second} is taken, {why}"
    );
    assert_eq!(error, expected);
    assert_eq!(names(&host), "", "no container was made");
    let made = own_cgroups().into_iter().find(|name| name.ends_with("-beside"));
    assert_eq!(made, None, "no process was made ready");
    let (dir, _) = bench.options.runs.find("last").unwrap();
    assert!(!dir.path().join("events.jsonl").exists(), "nothing began");
    // Once they have gone the same file runs.
    drop(listeners);
    let text = text.replace("no-such-image:9", "counter:10\n  command: sleep 60");
    let (_, record) = bench.run(&text).unwrap();
    assert_eq!(record.outcome, Some(Outcome::Completed));
}

#[test]
fn a_port_that_is_taken_while_the_experiment_runs_fails_it_and_leaves_nothing() {
    if !has_engine() {
        return;
    }
    let bridge = match Bridge::new() {
        Ok(bridge) => bridge,
        Err(error) => return skip(format!("no bridge can be made: {error}")),
    };
    let (daemon, host) = engine::docker_on(&bridge.name, "counter:11");
    let bench = bench(&daemon);
    // One that was free a moment ago.
    let port = TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "benchmark: {{name: race, max_t: 30, {PLAIN}}}
squatter: {{index: 0, command: \"busybox nc -l -p {port}\"}}
late: {{index: 1, image: \"counter:11\", command: \"sleep 60\", port: \"{port}:80\", start: 2}}
"
    );
    let error = failure(&bench, &text);
    assert!(error.starts_with("cannot run late: its engine cannot start it: "), "{error}");
    assert!(error.contains(&port.to_string()), "{error}");
    assert_eq!(names(&host), "", "no container is left");
    let left = own_cgroups().into_iter().find(|name| name.ends_with("-squatter"));
    assert_eq!(left, None, "the other is gone");
}
