//! The pods of one node, from an API server that falls silent. What else an API server can do is tested in the processor.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_inventory::{Config, Inventory, Kubernetes};
use crosstalk_model::Placement;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PODS: &str = r#"{"metadata": {"resourceVersion": "7"}, "items": [{
    "metadata": {"name": "train-0", "namespace": "ml", "uid": "u-1"},
    "spec": {"nodeName": "node-a"},
    "status": {"containerStatuses": [
        {"name": "main", "image": "trainer:3", "containerID": "containerd://4f1d"}]}}]}"#;

/// Answers a list, and every watch with its head and then nothing; the requests it got.
fn silent_server() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut lines =
                BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let Some(request) = lines.next() else { continue };
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            if request.contains("watch=true") {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n").unwrap();
                silent.push(stream);
            } else {
                let length = PODS.len();
                let head =
                    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}");
                stream.write_all(format!("{head}\r\n\r\n{PODS}").as_bytes()).unwrap();
            }
            seen.lock().unwrap().push(request);
        }
    });
    (address, requests)
}

/// The most that was seen of how long ago something came, until `done`.
fn longest_age(inventory: &Inventory, done: impl Fn() -> bool) -> Option<Duration> {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut longest = None;
    while !done() {
        assert!(Instant::now() < deadline, "{:?}", inventory.statuses());
        longest = longest.max(inventory.statuses().first().and_then(|status| status.age));
        support::pace(Duration::from_millis(20));
    }
    longest
}

#[test]
fn a_watch_that_falls_silent_is_begun_again_and_only_this_node_is_asked_for() {
    let (server, requests) = silent_server();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: ''}}}}]\n\
         clusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    let kubernetes = Kubernetes {
        kubeconfig: Some(kubeconfig),
        node: "node-a".into(),
        watch_timeout: Duration::from_secs(1),
        ..Kubernetes::default()
    };
    let config = Config {
        kubernetes: Some(kubernetes),
        refresh: Duration::from_millis(100),
        ..Config::default()
    };
    let inventory = Inventory::start(config);
    assert_eq!(inventory.statuses()[0].age, None, "never heard");
    let watches = || {
        let requests = requests.lock().unwrap();
        requests.iter().filter(|request| request.contains("watch=true")).count()
    };
    // What is known is told again and again meanwhile; how old it is goes by what came.
    let longest = longest_age(&inventory, || watches() >= 2);
    assert!(longest > Some(Duration::from_millis(900)), "{longest:?}");
    for request in requests.lock().unwrap().iter() {
        assert!(request.contains("fieldSelector=spec.nodeName%3Dnode-a"), "{request}");
    }
    let ids = Placement { container_id: Some("4f1d".into()), ..Placement::default() };
    let placement = inventory.snapshot().place(&ids);
    assert_eq!(placement.container_name.as_deref(), Some("main"));
    assert_eq!(placement.container_image.as_deref(), Some("trainer:3"));
    assert_eq!(placement.pod_name.as_deref(), Some("train-0"));
    assert_eq!(placement.workload.as_deref(), Some("train-0"));
}
