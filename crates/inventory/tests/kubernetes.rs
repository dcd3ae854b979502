//! The pods of one node, from an API server that falls silent. What else an API server can do is tested in the processor.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_inventory::{Config, Inventory, Kubernetes};
use crosstalk_model::Placement;
use std::time::{Duration, Instant};
use support::api::{kubeconfig, silent_server};

const PODS: &str = r#"{"metadata": {"resourceVersion": "7"}, "items": [{
    "metadata": {"name": "train-0", "namespace": "ml", "uid": "u-1"},
    "spec": {"nodeName": "node-a"},
    "status": {"containerStatuses": [
        {"name": "main", "image": "trainer:3", "containerID": "containerd://4f1d"}]}}]}"#;

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
    let (server, requests) = silent_server(PODS);
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = kubeconfig(folder.path(), &server);
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
