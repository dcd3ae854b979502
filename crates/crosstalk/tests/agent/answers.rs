//! What a scheduler, an operator or a script gets.

use crate::client::{get, get_as};
use crate::process::{Agent, source};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

const FAST: &str = "[sampling]\nperiod = \"100ms\"\n[subjects]\nperiod = \"200ms\"\n";

#[test]
fn a_window_has_the_documented_keys_and_says_what_is_absent_and_why() {
    let agent = Agent::start(FAST);
    let answer = agent.until("window_seconds=2", |answer| {
        answer["samples_count"].as_u64() > Some(10) && !answer["metrics"]["mean_mem_used"].is_null()
    });
    assert_eq!(answer["window_seconds"], json!(2));
    assert!(answer["timestamp"].as_f64() > Some(1.7e9));
    let coverage = answer["coverage"].as_f64().unwrap();
    assert!(coverage > 0.0 && coverage <= 1.0);
    assert!(answer["newest_seconds"].as_f64() >= Some(0.0));
    let metrics = answer["metrics"].as_object().unwrap();
    for statistic in ["mean", "std", "min", "max", "p50", "p95", "p99", "last"] {
        let value = metrics[&format!("{statistic}_cpu_util")].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&value), "{statistic}: {value}");
    }
    assert!(metrics["min_cpu_util"].as_f64() <= metrics["p50_cpu_util"].as_f64());
    assert!(metrics["p50_cpu_util"].as_f64() <= metrics["max_cpu_util"].as_f64());
    // Every metric is either measured or absent with a reason, never both.
    let absent = answer["absent"].as_object().unwrap();
    for name in ["cpu_util", "ipc", "freq_mhz", "mem_bw_total", "cache_miss", "llc_mpki"] {
        let measured = metrics.contains_key(&format!("mean_{name}"));
        let why = absent.get(name).and_then(Value::as_str);
        assert!(measured != why.is_some(), "{name}: {answer:#}");
        assert!(measured || !why.unwrap_or_default().is_empty(), "{name}");
    }
    assert!(answer["sources"].as_array().unwrap().len() >= 5);
}

#[test]
fn the_window_is_exact_in_time() {
    let agent =
        Agent::start("[sampling]\nperiod = \"100ms\"\n[sources.counters]\nmode = \"off\"\n");
    agent.until("window_seconds=3", |answer| answer["coverage"].as_f64() > Some(0.9));
    // Samples of 100 ms: a window of 1 s cannot hold more than 11 that overlap it, whenever asked.
    for _ in 0..20 {
        let answer = agent.window("window_seconds=1");
        assert!(answer["samples_count"].as_u64() <= Some(11), "{answer:#}");
        assert!(answer["coverage"].as_f64() <= Some(1.0), "{answer:#}");
    }
}

#[test]
fn a_busy_process_is_named_by_pid_and_leads_the_list() {
    let agent = Agent::start(FAST);
    let busy = Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let busy = Busy(busy);
    let pid = busy.0.id();
    let mine = |answer: &Value| {
        let subjects = answer["subjects"].as_array().cloned().unwrap_or_default();
        subjects.into_iter().find(|subject| subject["pid"] == json!(pid))
    };
    let found = agent.until("window_seconds=2&subject=process&top=1000", |answer| {
        // Time comes from one source and memory from another.
        let metrics = mine(answer).map(|subject| subject["metrics"].clone()).unwrap_or_default();
        metrics["mean_cpu_util"].as_f64() > Some(0.02)
            && metrics["mean_mem_rss"].as_f64() > Some(0.0)
    });
    let order: Vec<f64> = found["subjects"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|subject| {
            let mean = subject["metrics"]["mean_cpu_util"].as_f64()?;
            Some(mean * subject["coverage"].as_f64()?)
        })
        .collect();
    // The first sample of /proc has no use yet, so the coverage of use can be a little less.
    assert!(order.is_sorted_by(|a, b| a + 0.01 >= *b), "{order:?}");
    let top = agent.window("window_seconds=2&subject=process&top=2");
    assert_eq!(top["subjects"].as_array().unwrap().len(), 2);
    assert!(top["subjects_count"].as_u64() > Some(2));
}

/// Ends with the test, however that ends.
struct Busy(std::process::Child);

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_selection_answers_with_nothing_else() {
    let agent = Agent::start(FAST);
    agent.until("window_seconds=2", |answer| !answer["metrics"]["mean_mem_util"].is_null());
    let answer = agent.window("window_sec=2&metrics=p95_cpu_util,mem_util");
    let keys: Vec<&String> = answer["metrics"].as_object().unwrap().keys().collect();
    assert_eq!(keys.len(), 9, "{keys:?}");
    assert!(!answer["metrics"]["p95_cpu_util"].is_null());
    assert!(answer["metrics"]["mean_cpu_util"].is_null());
}

#[test]
fn bad_values_are_told_the_allowed_range_as_a_problem() {
    let agent = Agent::start(FAST);
    for query in ["window_seconds=-1", "window_seconds=abc", "window_sec=31", "window_seconds="] {
        let response = get(agent.address, &format!("/metrics?{query}"));
        assert_eq!(response.status, 400, "{query}");
        assert!(response.head.contains("application/problem+json"), "{}", response.head);
        let problem = response.json();
        assert_eq!(problem["allowed"], json!({ "minimum": 0.001, "maximum": 30.0 }), "{query}");
        assert_eq!(problem["status"], json!(400));
    }
    for target in [
        "/metrics?window_seconds=1&top=0",
        "/metrics?window_seconds=1&subject=moon",
        "/metrics?window_seconds=1&metrics=nope",
        "/metrics?wndow=1",
        "/metrics?window_seconds=%FF",
    ] {
        assert_eq!(get(agent.address, target).status, 400, "{target}");
    }
    assert_eq!(get(agent.address, "/nowhere").status, 404);
    assert_eq!(get(agent.address, "/nowhere").json()["status"], json!(404));
}

#[test]
fn it_lives_is_ready_once_there_is_data_and_describes_itself() {
    let agent = Agent::start(FAST);
    assert_eq!(get(agent.address, "/health").json()["status"], json!("ok"));
    crate::process::until(|| get(agent.address, "/ready").status == 200).unwrap();
    let ready = get(agent.address, "/ready").json();
    assert_eq!(ready["ready"], json!(true));
    let proc = source(&ready, "proc");
    assert_eq!(proc["verdict"], json!("ok"), "{ready:#}");
    for source in ready["sources"].as_array().unwrap() {
        assert!(!source["found"].as_str().unwrap().is_empty(), "{source:#}");
    }
    let document = get(agent.address, "/openapi.json").json();
    for path in ["/metrics", "/memory", "/health", "/ready", "/openapi.json"] {
        assert!(document["paths"][path]["get"]["responses"].is_object(), "{path}");
    }
}

#[test]
fn with_every_source_off_it_says_so_and_is_not_ready() {
    let off = ["counters", "proc", "cgroup", "pcm", "probe", "coldmem"]
        .map(|name| format!("[sources.{name}]\nmode = \"off\"\n"))
        .concat();
    let agent = Agent::start(&off);
    assert_eq!(get(agent.address, "/ready").status, 503);
    let answer = agent.window("window_seconds=20");
    assert_eq!((&answer["samples_count"], &answer["coverage"]), (&json!(0), &json!(0.0)));
    assert_eq!(answer["metrics"], json!({}));
    assert!(answer["absent"]["cpu_util"].as_str().unwrap().contains("switched off"));
    let text = get_as(agent.address, "/metrics", "*/*");
    assert!(!text.body.contains("crosstalk_node_"), "nothing measured is nothing shown");
}
