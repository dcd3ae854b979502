//! The processor's own metrics as Prometheus' linter sees them.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use support::Service;
use support::http::{get, send};

/// Names that existing dashboards ask for, which the linter would have otherwise.
const FIXED: [&str; 7] = [
    "log_analysis_consume_count",
    "log_consume_latency_histogram_seconds",
    "log_consume_latency_seconds",
    "event_stream_create_count",
    "event_stream_create_error_count",
    "workload_event_create_count",
    "workload_event_create_error_count",
];

#[test]
fn the_linter_has_nothing_to_say_but_of_names_that_are_fixed() {
    if Command::new("promtool").arg("--version").output().is_err() {
        let lacking = "promtool (package prometheus) is not installed";
        assert!(std::env::var_os("CROSSTALK_NO_SKIP").is_none(), "{lacking}");
        eprintln!("skipped: {lacking}");
        return;
    }
    let service = Service::start(|config| {
        config.endpoints =
            vec![crosstalk_processor::config::Endpoint::new("a", "http://127.0.0.1:9/write")];
    });
    let lines = b"training ...\nstep: 1 loss: 2.5\nhello\n";
    assert_eq!(send(service.address, "POST", "/logs?workload=w&node=n1", &[], lines).status, 200);
    support::write::write(service.address, &[(&[("__name__", "up")], &[(1.0, 5)])]);
    support::eventually("a try to deliver failed", || {
        (service.metric("crosstalk_processor_forward_retries_total") > 0.0).then_some(())
    });
    let text = get(service.address, "/metrics").text();
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let others: Vec<&str> = said
        .lines()
        .filter(|line| !FIXED.iter().any(|name| line.starts_with(&format!("{name} "))))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    assert!(said.contains(FIXED[0]), "the linter said nothing at all: {said}");
}
