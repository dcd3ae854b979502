use super::*;
use crosstalk_inventory::{Device, Pod, Workload};
use crosstalk_remote_write::Label;

fn pod(namespace: &str, name: &str, uid: &str, workload: &str) -> Pod {
    let workloads = vec![Workload {
        name: workload.into(),
        uid: format!("{workload}-uid").into(),
        ..Workload::default()
    }];
    Pod {
        name: name.into(),
        namespace: namespace.into(),
        uid: uid.into(),
        node: "n1".into(),
        workloads,
        ..Pod::default()
    }
}

fn gpu(number: &str, uid: &str) -> Device {
    Device {
        node: "n1".into(),
        label: "gpu_id".into(),
        device: number.into(),
        pod_uid: uid.into(),
        ..Default::default()
    }
}

fn cache(pods: Vec<Pod>, devices: Vec<Device>) -> Cache {
    cache_with_grace(Duration::from_secs(60), pods, devices)
}

fn cache_with_grace(grace: Duration, pods: Vec<Pod>, devices: Vec<Device>) -> Cache {
    let cache = Cache::new(LabelNames::default(), grace);
    cache.update("static", Facts { pods, devices, ..Facts::default() });
    cache
}

fn find(cache: &Cache, labels: &[(&str, &str)]) -> Result<String, Miss> {
    let mut labels: Vec<Label<'_>> =
        labels.iter().map(|&(name, value)| Label { name, value }).collect();
    labels.sort_unstable();
    cache.snapshot().find(&labels).map(|pod| pod.workloads[0].name.to_string())
}

#[test]
fn a_device_on_a_node_leads_to_its_pod_before_any_pod_label() {
    let cache =
        cache(vec![pod("a", "x", "u1", "w1"), pod("a", "y", "u2", "w2")], vec![gpu("0", "u1")]);
    assert_eq!(find(&cache, &[("node", "n1"), ("gpu_id", "0"), ("pod", "y")]).unwrap(), "w1");
    assert_eq!(find(&cache, &[("node", "n1"), ("gpu_id", "1"), ("pod", "y")]).unwrap(), "w2");
    assert_eq!(find(&cache, &[("node", "n1"), ("gpu_id", "1")]), Err(Miss::UnknownDevice));
    assert_eq!(find(&cache, &[("gpu_id", "0")]), Err(Miss::NoPodLabel));
}

#[test]
fn equal_names_in_two_namespaces_never_mix() {
    let cache = cache(vec![pod("a", "x", "u1", "w1"), pod("b", "x", "u2", "w2")], vec![]);
    assert_eq!(find(&cache, &[("pod", "x"), ("namespace", "a")]).unwrap(), "w1");
    assert_eq!(find(&cache, &[("pod", "x"), ("namespace", "b")]).unwrap(), "w2");
    assert_eq!(find(&cache, &[("pod", "x"), ("namespace", "c")]), Err(Miss::UnknownPod));
    assert_eq!(find(&cache, &[("pod", "x")]), Err(Miss::AmbiguousPod));
    assert_eq!(find(&cache, &[("pod", "x"), ("uid", "u2")]).unwrap(), "w2");
    let snapshot = cache.snapshot();
    let view = workload_view(&snapshot);
    assert_eq!(view.keys().collect::<Vec<_>>(), ["a/x", "b/x"]);
}

#[test]
fn a_uid_that_is_another_pods_is_not_taken_for_this_one() {
    let known = "11111111-2222-3333-4444-555555555555";
    let other = "99999999-2222-3333-4444-555555555555";
    let cache = cache(vec![pod("a", "x", known, "w1")], vec![]);
    assert_eq!(find(&cache, &[("pod", "x"), ("namespace", "a"), ("uid", known)]).unwrap(), "w1");
    assert_eq!(
        find(&cache, &[("pod", "x"), ("namespace", "a"), ("uid", other)]),
        Err(Miss::OtherUid)
    );
    // A user number is no pod's UID.
    assert_eq!(find(&cache, &[("pod", "x"), ("namespace", "a"), ("uid", "1000")]).unwrap(), "w1");
}

#[test]
fn an_exported_pod_goes_with_its_exported_namespace() {
    let cache = cache(vec![pod("a", "x", "u1", "w1"), pod("b", "x", "u2", "w2")], vec![]);
    let labels = [("exported_pod", "x"), ("exported_namespace", "b"), ("namespace", "a")];
    assert_eq!(find(&cache, &labels).unwrap(), "w2");
}

#[test]
fn a_deleted_pod_stays_known_for_the_grace_time() {
    let cache = cache(vec![pod("a", "x", "u1", "w1")], vec![gpu("0", "u1")]);
    cache.update("static", Facts::default());
    let by_device = [("node", "n1"), ("gpu_id", "0")];
    assert_eq!(find(&cache, &by_device).unwrap(), "w1");
    assert_eq!(find(&cache, &[("pod", "x"), ("namespace", "a")]).unwrap(), "w1");

    // Its successor takes name and device at once; the old one is still found by UID.
    let (pods, devices) = (vec![pod("a", "x", "u2", "w2")], vec![gpu("0", "u2")]);
    cache.update("static", Facts { pods, devices, ..Facts::default() });
    assert_eq!(find(&cache, &by_device).unwrap(), "w2");
    assert_eq!(find(&cache, &[("pod", "x")]).unwrap(), "w2");
    assert_eq!(find(&cache, &[("pod", "x"), ("uid", "u1")]).unwrap(), "w1");
}

#[test]
fn equal_names_do_not_mix_while_one_of_them_is_only_remembered() {
    let pods = vec![pod("a", "x", "u1", "w1"), pod("b", "x", "u2", "w2")];
    let one_left = Facts { pods: pods[1..].to_vec(), ..Facts::default() };
    let remembering = cache(pods.clone(), vec![]);
    remembering.update("static", one_left.clone());
    assert_eq!(find(&remembering, &[("pod", "x")]), Err(Miss::AmbiguousPod));
    assert_eq!(find(&remembering, &[("pod", "x"), ("namespace", "a")]).unwrap(), "w1");
    assert_eq!(find(&remembering, &[("pod", "x"), ("namespace", "b")]).unwrap(), "w2");
    // Once it is forgotten there is no doubt any more.
    let forgetting = cache_with_grace(Duration::ZERO, pods, vec![]);
    forgetting.update("static", one_left.clone());
    forgetting.update("static", one_left);
    assert_eq!(find(&forgetting, &[("pod", "x")]).unwrap(), "w2");
}

#[test]
fn what_two_sources_say_of_one_pod_is_put_together() {
    let cache = cache(vec![pod("a", "x", "u1", "w1")], vec![]);
    let without_workload = Pod { workloads: vec![], ..pod("a", "x", "u1", "") };
    cache.update(
        "database",
        Facts { pods: vec![without_workload], devices: vec![gpu("7", "u1")], ..Facts::default() },
    );
    assert_eq!(find(&cache, &[("node", "n1"), ("gpu_id", "7")]).unwrap(), "w1");
    let snapshot = cache.snapshot();
    let view = serde_json::to_value(device_view(&snapshot)).unwrap();
    assert_eq!(view, serde_json::json!({"n1": {"gpu_id": {"7": ["x", "u1"]}}}));
    let view = serde_json::to_value(workload_view(&snapshot)).unwrap();
    assert_eq!(view, serde_json::json!({"x": [["w1", "w1-uid"]]}));
}

#[test]
fn a_pod_without_a_workload_is_a_miss_of_its_own() {
    let cache = cache(vec![Pod { workloads: vec![], ..pod("a", "x", "u1", "") }], vec![]);
    assert_eq!(find(&cache, &[("pod", "x")]), Err(Miss::NoWorkload));
}

#[test]
fn what_the_exporter_said_goes_before_whoever_scraped_it() {
    let cache =
        cache(vec![pod("gpu", "exporter-x", "u1", "w1"), pod("ml", "train-0", "u2", "w2")], vec![]);
    let labels = [
        ("pod", "exporter-x"),
        ("namespace", "gpu"),
        ("exported_pod", "train-0"),
        ("exported_namespace", "ml"),
    ];
    assert_eq!(find(&cache, &labels).unwrap(), "w2");
    // As the configuration orders them.
    let names = LabelNames { pod: vec!["pod".into(), "exported_pod".into()], ..Default::default() };
    let other = Cache::new(names, Duration::from_secs(60));
    let pods = cache.snapshot().pods().cloned().collect();
    other.update("static", Facts { pods, ..Facts::default() });
    assert_eq!(find(&other, &labels).unwrap(), "w1");
}

#[test]
fn the_exporters_own_pod_is_never_billed_for_a_gpu() {
    let mut of_every_node = pod("gpu", "watcher-x", "u1", "w1");
    of_every_node.workloads[0].kind = "DaemonSet".into();
    let by_name = pod("gpu", "nvidia-dcgm-exporter-7x", "u2", "w2");
    let trainer = pod("ml", "train-0", "u3", "w3");
    let cache = cache(vec![of_every_node, by_name, trainer], vec![gpu("0", "u3")]);
    for exporter in ["watcher-x", "nvidia-dcgm-exporter-7x"] {
        // DCGM's labels where honor_labels is off: an idle GPU has no exported_pod.
        let idle = [
            ("Hostname", "n1"),
            ("gpu", "1"),
            ("UUID", "GPU-1"),
            ("pod", exporter),
            ("namespace", "gpu"),
        ];
        assert_eq!(find(&cache, &idle), Err(Miss::ExporterPod));
        let mut held = idle;
        held[1] = ("gpu", "0");
        assert_eq!(find(&cache, &held).unwrap(), "w3", "the mapping knows");
        // What is about the exporter itself is its own.
        assert!(find(&cache, &[("pod", exporter), ("namespace", "gpu")]).is_ok());
    }
    let honoured = [("Hostname", "n1"), ("gpu", "1"), ("pod", "train-0"), ("namespace", "ml")];
    assert_eq!(find(&cache, &honoured).unwrap(), "w3");
}

#[test]
fn a_device_is_whoevers_it_was_at_the_time() {
    let at = |cache: &Cache, ns: u64| {
        let labels = [Label { name: "gpu_id", value: "0" }, Label { name: "node", value: "n1" }];
        cache.snapshot().find_at(&labels, Some(ns)).map(|found| found.pod.uid.to_string())
    };
    let minute = 60_000_000_000;
    let held = |uid: &str, from: u64| {
        let mut device = gpu("0", uid);
        device.valid.valid_from_ns = from;
        device
    };
    let cache = Cache::remembering(LabelNames::default(), Duration::ZERO, Duration::from_secs(60));
    let pods = vec![pod("a", "x", "u1", "w1"), pod("a", "y", "u2", "w2")];
    let facts =
        |device: Device| Facts { pods: pods.clone(), devices: vec![device], ..Facts::default() };
    cache.update("static", facts(held("u1", 10 * minute)));
    assert_eq!(at(&cache, 5 * minute), Err(Miss::IdleDevice), "before anybody had it");
    assert_eq!(at(&cache, 20 * minute).as_deref(), Ok("u1"));
    let now = now_ns();
    cache.update("static", facts(held("u2", now)));
    assert_eq!(at(&cache, 20 * minute).as_deref(), Ok("u1"), "it was x then");
    assert_eq!(at(&cache, now + minute).as_deref(), Ok("u2"));
    cache.update("static", Facts { pods: pods.clone(), ..Facts::default() });
    assert_eq!(at(&cache, now + 2 * minute), Err(Miss::IdleDevice), "given back");
}

fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_nanos() as u64
}
