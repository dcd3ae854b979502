use super::*;
use serde_json::json;

fn pod(node: &str, phase: &str) -> Object {
    let pod = json!({
        "metadata": {
            "name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z",
            "annotations": {"crosstalk.dev/devices": "{\"gpu\": [\"1\"]}"},
            "labels": {"koordinator.sh/qosClass": "LSE"},
        },
        "spec": {"nodeName": node, "priority": 7_500},
        "status": {"phase": phase, "qosClass": "Burstable", "containerStatuses": [
            {"name": "main", "image": "trainer:3", "containerID": "containerd://4f1d"},
            {"name": "waiting", "image": "trainer:3"},
        ]},
    });
    serde_json::from_value(pod).unwrap()
}

fn itself(owner: &OwnerReference) -> Chain<'_> {
    Chain { nearest: owner, top: owner, learnt: true, awaited: false }
}

#[test]
fn only_changes_that_matter_count() {
    let mut pods = Pods::default();
    assert!(pods.apply(pod("n1", "Pending")));
    assert!(!pods.apply(pod("n1", "Running")));
    assert!(pods.apply(pod("n2", "Running")));
    let facts = pods.facts(itself);
    assert_eq!(&*facts.devices[0].label, "gpu_id");
    assert_eq!(&*facts.pods[0].workloads[0].kind, "Pod");
    assert_eq!((&*facts.pods[0].priority, &*facts.pods[0].qos), ("koord-mid", "LSE"));
    assert_eq!(facts.pods[0].valid.valid_from_ns, 1_767_323_045_000_000_000);
    assert_eq!(facts.containers.len(), 1, "one that is not created yet has no id");
    assert_eq!(&*facts.containers[0].id, "4f1d");
    assert!(pods.apply(pod("n2", "Failed")), "gives its devices back");
    assert!(pods.facts(itself).devices.is_empty());
    assert!(pods.delete(&pod("n2", "Failed")));
    assert!(pods.facts(itself).pods.is_empty());
}

#[test]
fn a_pod_that_goes_before_its_owners_were_heard_of_is_kept_until_it_is_known_whose_it_was() {
    let mut owned = pod("n1", "Running");
    let references =
        json!([{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "o", "controller": true}]);
    owned.metadata.owner_references = serde_json::from_value(references).unwrap();
    fn sought(owner: &OwnerReference) -> Chain<'_> {
        Chain { learnt: false, awaited: true, ..itself(owner) }
    }
    let mut pods = Pods::default();
    pods.apply(owned.clone());
    let known = pods.facts(sought).pods;
    assert!(known[0].owners_awaited && known[0].workloads.is_empty(), "nobody's on a guess");
    assert!(!pods.note_published(&known));
    assert!(pods.delete(&owned));
    assert!(!pods.has_waited(|_| true));
    let known = pods.facts(sought).pods;
    assert!(known[0].owners_awaited && known[0].valid.valid_to_ns.is_some());
    assert!(!pods.note_published(&known));

    // The same as if it was missing in a new list.
    pods.replace(Vec::new());
    assert_eq!(pods.owners().count(), 1, "still asked for");
    assert!(pods.has_waited(|_| false));
    assert_eq!(pods.take_waited(|_| false).len(), 1);
    let known = pods.facts(itself).pods;
    assert_eq!(&*known[0].workloads[0].uid, "o");
    assert!(pods.note_published(&known), "now it can be forgotten");
    assert!(pods.facts(itself).pods.is_empty());
    assert_eq!(pods.take_unpublished().len(), 1, "which is published too");
}

#[test]
fn a_pod_holds_its_devices_from_when_its_node_took_it_on() {
    let held_from = |pods: &Pods| pods.facts(itself).devices[0].valid.valid_from_ns;
    let mut pods = Pods::default();
    pods.apply(pod("n1", "Pending"));
    assert_eq!(held_from(&pods), 1_767_323_045_000_000_000, "as far as anybody knows");
    let mut started = pod("n1", "Running");
    let time = serde_json::from_value(json!("2026-01-02T03:04:35Z")).unwrap();
    started.status.as_mut().unwrap().start_time = Some(time);
    assert!(pods.apply(started));
    assert_eq!(held_from(&pods), 1_767_323_075_000_000_000);
    assert_eq!(pods.facts(itself).pods[0].valid.valid_from_ns, 1_767_323_045_000_000_000);
}

#[test]
fn a_pod_asks_for_devices_by_resources_that_are_not_kubernetes_own_or_by_claims() {
    let asks = |spec: serde_json::Value| {
        let mut object = pod("n1", "Running");
        object.spec = serde_json::from_value(spec).unwrap();
        Known::of(object).pod.asks_for_devices
    };
    let limits = |limits: serde_json::Value| {
        asks(json!({"containers": [{"resources": {"limits": limits}}]}))
    };
    assert!(limits(json!({"cpu": "4", "nvidia.com/gpu": "1"})));
    assert!(limits(json!({"rdma/hca": 1})));
    assert!(!limits(json!({"cpu": 4, "memory": "1Gi", "hugepages-2Mi": "1Gi"})));
    assert!(!limits(json!({"nvidia.com/gpu": "0", "attachable.kubernetes.io/x": "1"})));
    assert!(!asks(json!({"containers": [{}], "nodeName": "n1"})));
    assert!(asks(json!({"containers": [{}], "resourceClaims": [{"name": "gpu"}]})));
}

#[test]
fn a_single_reference_without_a_mark_is_the_controller() {
    let of = |references: serde_json::Value| {
        let metadata = serde_json::from_value(json!({"ownerReferences": references})).unwrap();
        controller(metadata).map(|owner| owner.name)
    };
    let owner = |name: &str, mark: serde_json::Value| json!({"apiVersion": "v1", "kind": "K", "name": name, "uid": name, "controller": mark});
    assert_eq!(of(json!([owner("a", json!(null))])).as_deref(), Some("a"));
    assert_eq!(of(json!([owner("a", json!(false))])), None);
    assert_eq!(of(json!([owner("a", json!(null)), owner("b", json!(true))])).as_deref(), Some("b"));
    assert_eq!(of(json!([owner("a", json!(null)), owner("b", json!(null))])), None);
}
