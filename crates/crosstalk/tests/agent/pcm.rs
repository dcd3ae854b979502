//! PCM played by a script that misbehaves in every way a child can.

use crate::process::{Agent, source, until};
use crate::support::install_script;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

/// Prints two good rows at each start, then does what `ending` says. PCM of a machine with one
/// socket: two header rows, repeated names, `N/A`, local time.
fn script(ending: &str) -> String {
    format!(
        "#!/bin/sh\n\
         echo ',,SKT0,System,System,System,'\n\
         echo 'Date,Time,Ch0Read,Read,Write,Memory,'\n\
         for i in 1 2; do\n\
         echo \"2026-11-02,09:30:0$i.120,N/A,1000,500,1500,\"\n\
         sleep 0.2\n\
         done\n\
         {ending}\n"
    )
}

fn agent(ending: &str) -> Agent {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pcm-memory");
    install_script(&script(ending), &path);
    let config = format!(
        "[sampling]\nperiod = \"100ms\"\n[sources.pcm]\nmode = \"on\"\ncommand = \"{}\"\n\
         args = [\"1\"]\ninterval = \"200ms\"\n",
        path.display()
    );
    Agent::start_in(dir, &config)
}

#[test]
fn a_child_that_dies_is_started_anew_and_its_values_are_in_the_answer() {
    let agent = agent("echo 'no access to the MSR' >&2; exit 3");
    let answer = agent.until("window_seconds=30", |answer| {
        let pcm = source(answer, "pcm");
        pcm["restarts"].as_u64() >= Some(2) && pcm["samples_count"].as_u64() >= Some(4)
    });
    assert_eq!(answer["metrics"]["mean_mem_bw_read"], json!(1e9));
    assert_eq!(answer["metrics"]["last_mem_bw_total"], json!(1.5e9));
    let pcm = source(&answer, "pcm");
    assert!(pcm["errors"].as_u64() >= Some(2), "{pcm:#}");
    assert!(pcm["metrics"].as_array().unwrap().contains(&json!("mem_bw_read")));
    // What it did not print is absent, and the other sources never noticed.
    assert!(answer["absent"]["cache_miss"].as_str().unwrap().contains("pcm"), "{answer:#}");
    assert_eq!(source(&answer, "proc")["errors"], json!(0));
}

#[test]
fn a_child_that_hangs_ends_with_an_agent_that_was_killed() {
    // The pid that the shell leaves is that of the program it becomes.
    let dir = tempfile::tempdir().unwrap();
    let left = dir.path().join("pid");
    let agent = agent(&format!("echo $$ > {}; exec sleep 600", left.display()));
    let mut pid = String::new();
    until(|| {
        pid = fs::read_to_string(&left).unwrap_or_default().trim().to_owned();
        !pid.is_empty()
    })
    .unwrap();
    let is_ours = || {
        let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        text.starts_with(b"sleep") || text.starts_with(b"/bin/sh")
    };
    until(is_ours).unwrap();
    drop(agent); // SIGKILL
    until(|| !is_ours()).unwrap();
}

#[test]
fn a_child_that_prints_garbage_is_counted_and_the_rest_goes_on() {
    let agent = agent("while :; do echo 'garbage,\u{fffd},,'; sleep 0.05; done");
    let answer = agent
        .until("window_seconds=30", |answer| source(answer, "pcm")["errors"].as_u64() >= Some(3));
    assert!(!answer["metrics"]["mean_cpu_util"].is_null());
    assert_ne!(answer["metrics"]["mean_mem_bw_read"], Value::Null);
}

#[test]
fn a_program_that_is_not_there_is_a_verdict_with_the_reason() {
    let agent = Agent::start(
        "[sampling]\nperiod = \"100ms\"\n[sources.pcm]\nmode = \"on\"\ncommand = \"/nowhere/pcm\"\n",
    );
    let answer = agent.until("window_seconds=5", |answer| {
        source(answer, "pcm")["verdict"] == json!("failing")
            && answer["samples_count"].as_u64() > Some(3)
    });
    let found = source(&answer, "pcm")["found"].as_str().unwrap();
    assert!(found.contains("/nowhere/pcm"), "{found}");
    assert!(answer["absent"]["mem_bw_total"].as_str().unwrap().contains("/nowhere/pcm"));
}

#[test]
fn a_sensor_server_is_asked_and_its_leaving_is_a_verdict_not_an_end() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        // Two answers, then nobody is there any more.
        for stream in server.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).unwrap();
            assert!(request[..length].starts_with(b"GET /persecond"));
            let body = r#"{"Interval us": 1000000,
                "Core Aggregate": {"Core Counters": {
                    "Instructions Retired Any": 3000, "Clock Unhalted Thread": 2000}},
                "Uncore Aggregate": {"Uncore Counters": {"DRAM Reads": 64, "DRAM Writes": 32}}}"#;
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}")
                .unwrap();
        }
    });
    let agent = Agent::start(&format!(
        "[sampling]\nperiod = \"100ms\"\n[sources.pcm]\nsensor_server = \"{address}\"\n\
         interval = \"200ms\"\n"
    ));
    let answer = agent
        .until("window_seconds=30", |answer| source(answer, "pcm")["verdict"] == json!("failing"));
    serving.join().unwrap();
    assert_eq!(answer["metrics"]["mean_mem_bw_total"], json!(96.0));
    assert_eq!(source(&answer, "pcm")["samples_count"], json!(2));
    let found = source(&answer, "pcm")["found"].as_str().unwrap();
    assert!(found.contains(&address.to_string()), "{found}");
}
