//! Containers have their names in recordings and answers, as a real Docker Engine, containerd or the Kubernetes API knows them.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

#[path = "../../inventory/tests/support/mod.rs"]
mod engine;
mod support;

use engine::api::{kubeconfig, silent_server};
use engine::containerd::{IMAGE, containerd, ctr, import};
use engine::{docker, run};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::simulator::Simulator;
use support::*;

/// An agent that is ended with the test.
struct Agent(Child);

impl Agent {
    /// One that listens, and its address.
    fn start(environment: &[(&str, &str)]) -> (Self, String) {
        let mut child = crosstalk()
            .args(["agent", "--listen", "127.0.0.1:0"])
            .env_remove("DOCKER_HOST")
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut hello = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut hello).unwrap();
        (Self(child), hello.trim().rsplit_once("http://").unwrap().1.to_owned())
    }
}

/// What an agent answers about a container, once it knows its name.
fn container_of(address: &str, name: &str) -> Value {
    let began = Instant::now();
    loop {
        let answer = ask(address, "/metrics?window_seconds=5&subject=container");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let found = answer["subjects"].as_array().cloned().unwrap_or_default();
        if let Some(found) = found.into_iter().find(|one| one["container_name"] == name) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{answer:#}");
        std::thread::yield_now();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\nAccept: */*\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Something in the data set is called so.
#[track_caller]
fn assert_named(out: &Path, dataset: &str, column: &str, name: &str) {
    let rows = csv_rows(out, dataset);
    assert!(rows.iter().any(|row| row[column] == name), "{dataset}: {} rows", rows.len());
}

#[test]
fn a_container_is_called_by_its_name_and_image_in_recordings_answers_and_for_prometheus() {
    let (_daemon, host) = docker("busy-image:1");
    let busy = ["/bin/sh", "-c", "while :; do :; done"];
    let labels =
        ["--label=io.kubernetes.pod.name=train-0", "--label=io.kubernetes.pod.namespace=ml"];
    let labels = [&labels[..], &["--label=io.kubernetes.pod.uid=u-1"]].concat();
    let start = ["-H", &host, "run", "-d", "--network=none", "--cpu-shares=64", "--name=busy-one"];
    let id = run("docker", &[&start[..], &labels, &["busy-image:1"], &busy].concat()).unwrap();

    let out = tempfile::tempdir().unwrap();
    let simulator = Simulator::start();
    let options = ["--duration", "3s", "--resctrl-root", simulator.root()];
    let output = succeed(record(out.path(), &options).env("DOCKER_HOST", &host));
    let rows = csv_rows(out.path(), "tasks");
    let mine: Vec<&Row> = rows.iter().filter(|row| row["container_id"] == id).collect();
    assert!(mine.len() > 50, "{} rows", mine.len());
    for (column, value) in [
        ("container_name", "busy-one"),
        ("container_image", "busy-image:1"),
        ("pod_name", "train-0"),
        ("pod_namespace", "ml"),
        ("pod_uid", "u-1"),
    ] {
        assert!(mine.iter().all(|row| row[column] == value), "{column}: {:?}", mine[0]);
    }
    assert_named(out.path(), "memory", "container_name", "busy-one");
    assert_named(out.path(), "coldmem", "pod_name", "train-0");
    assert_named(out.path(), "cache", "container_image", "busy-image:1");
    let (_, report) = split_report(&output);
    let busiest = report["busiest"].as_array().unwrap();
    assert!(busiest.iter().any(|process| process["container"] == "busy-one"), "{report:#}");

    let (agent, address) = Agent::start(&[("DOCKER_HOST", &host)]);
    let began = Instant::now();
    let container = container_of(&address, "busy-one");
    assert_eq!(container["container_id"], Value::from(id.as_str()));
    assert_eq!(container["pod_name"], "train-0");
    // The first sample of a container has no use of time in it yet.
    let wanted = "container=\"busy-one\",pod_uid=\"u-1\",namespace=\"ml\",pod=\"train-0\"";
    loop {
        let text = ask(&address, "/metrics");
        if text.contains(wanted) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "{text}");
        std::thread::yield_now();
    }
    let ready: Value = serde_json::from_str(&ask(&address, "/readyz")).unwrap();
    assert_eq!(ready["inventory"][0]["name"], "docker", "{ready:#}");
    drop(agent);
}

#[test]
fn a_container_that_containerd_runs_is_called_by_its_name_and_image_in_a_recording() {
    let daemon = containerd();
    import(&daemon, "default");
    // Nothing of it is to stay outside the daemon's folder.
    let runc = daemon.path("runc").display().to_string();
    let cgroup = format!("{}/by-hand", daemon.cgroup);
    let options = ["run", "-d", "--null-io", "--runc-root", &runc];
    let options = [&options[..], &["--snapshotter", "native", "--cgroup", &cgroup]].concat();
    let busy = ["/bin/sh", "-c", "while :; do :; done"];
    ctr(&daemon, "default", &[&options[..], &[IMAGE, "by-hand"], &busy].concat()).unwrap();

    let out = tempfile::tempdir().unwrap();
    let socket = daemon.path("containerd.sock");
    let mut record = record(out.path(), &["--duration", "2s"]);
    succeed(record.env("CONTAINERD_ADDRESS", socket).env_remove("DOCKER_HOST"));
    let rows = csv_rows(out.path(), "tasks");
    let mine: Vec<&Row> = rows.iter().filter(|row| row["container_name"] == "by-hand").collect();
    assert!(mine.len() > 50, "{} rows of {}", mine.len(), rows.len());
    assert!(mine.iter().all(|row| row["container_image"] == IMAGE), "{:?}", mine[0]);
    assert_named(out.path(), "memory", "container_name", "by-hand");
    ctr(&daemon, "default", &["tasks", "kill", "-s", "SIGKILL", "by-hand"]).unwrap();
}

#[test]
fn a_pod_that_only_the_kubernetes_api_knows_is_called_by_its_name_in_a_recording() {
    let (_daemon, host) = docker("busy-image:1");
    let start = ["-H", &host, "run", "-d", "--network=none", "--cpu-shares=64", "busy-image:1"];
    let busy = ["/bin/sh", "-c", "while :; do :; done"];
    let id = run("docker", &[&start[..], &busy].concat()).unwrap();
    let pods = json!({ "metadata": { "resourceVersion": "7" }, "items": [{
        "metadata": { "name": "train-1", "namespace": "ml", "uid": "u-7" },
        "spec": { "nodeName": "node-a" },
        "status": { "containerStatuses": [
            { "name": "main", "image": "trainer:3", "containerID": format!("docker://{id}") }] } }] });
    let (server, requests) = silent_server(&pods.to_string());

    let out = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig(out.path(), &server);
    let rec = out.path().join("rec");
    let named = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--node", "node-a"];
    let mut record = record(&rec, &[&["--duration", "2s"][..], &named].concat());
    succeed(record.env_remove("DOCKER_HOST"));
    let rows = csv_rows(&rec, "tasks");
    let mine: Vec<&Row> = rows.iter().filter(|row| row["container_id"] == id).collect();
    assert!(mine.len() > 50, "{} rows of {}", mine.len(), rows.len());
    for (column, value) in [
        ("container_name", "main"),
        ("container_image", "trainer:3"),
        ("pod_name", "train-1"),
        ("pod_namespace", "ml"),
        ("pod_uid", "u-7"),
        ("workload", "train-1"),
    ] {
        assert!(mine.iter().all(|row| row[column] == value), "{column}: {:?}", mine[0]);
    }
    assert_named(&rec, "memory", "pod_name", "train-1");
    for request in requests.lock().unwrap().iter() {
        assert!(request.contains("fieldSelector=spec.nodeName%3Dnode-a"), "{request}");
    }

    let (_agent, address) = Agent::start(&[
        ("CROSSTALK_AGENT_NODE", "node-a"),
        ("CROSSTALK_AGENT_INVENTORY_KUBERNETES", "true"),
        ("CROSSTALK_AGENT_INVENTORY_KUBECONFIG", kubeconfig.to_str().unwrap()),
    ]);
    let container = container_of(&address, "main");
    assert_eq!(
        (&container["pod_name"], &container["pod_namespace"]),
        (&json!("train-1"), &json!("ml"))
    );
    assert_eq!(container["workload"], "train-1", "{container:#}");
}
