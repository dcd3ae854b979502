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
fn a_pod_that_was_missed_late_has_no_sample_of_the_one_that_came_after_it_under_its_name() {
    let since = |pod: Pod, valid_from_ns: u64| Pod {
        valid: crosstalk_inventory::Validity { valid_from_ns, valid_to_ns: None },
        ..pod
    };
    let cache = cache(vec![since(pod("a", "x", "u1", "w1"), 1_000)], vec![]);
    // The second came long before it was seen that the first is gone.
    let second = since(pod("a", "x", "u2", "w2"), 2_000);
    cache.update("static", Facts { pods: vec![second], ..Facts::default() });
    let labels = [Label { name: "namespace", value: "a" }, Label { name: "pod", value: "x" }];
    let snapshot = cache.snapshot();
    let found = |at: u64| {
        let found = snapshot.find_at(&labels, Some(at)).unwrap();
        (&*found.pod.uid, found.until_ns)
    };
    assert_eq!(found(1_999), ("u1", 2_000));
    assert_eq!(found(1_500), ("u1", 1_501), "and nothing is said of later ones");
    assert_eq!(found(2_000), ("u2", u64::MAX));
}

#[test]
fn however_many_kinds_of_devices_there_are_gpus_are_found() {
    let kinds =
        (0..40).map(|kind| Device { label: format!("a{kind:02}").into(), ..gpu("7", "u2") });
    let resources = (0..40)
        .map(|kind| Device { label: format!("example.com/a{kind}").into(), ..gpu("8", "u2") });
    let devices: Vec<Device> = kinds.chain(resources).chain([gpu("0", "u1")]).collect();
    let cache = cache(vec![pod("a", "x", "u1", "w1"), pod("a", "y", "u2", "w2")], devices);
    assert_eq!(find(&cache, &[("node", "n1"), ("gpu", "0")]).unwrap(), "w1");
    assert_eq!(find(&cache, &[("node", "n1"), ("a00", "7")]).unwrap(), "w2");
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
fn a_pod_that_the_exporter_named_and_nobody_knows_yet_is_not_whoever_was_scraped() {
    let watcher = "11111111-2222-3333-4444-555555555555";
    let pods = vec![
        pod("monitoring", "kube-state-metrics-x", watcher, "w1"),
        pod("ml", "train-0", "99999999-2222-3333-4444-555555555555", "w2"),
    ];
    let cache = cache(pods, vec![]);
    let of = |exported: &str, more: &[(&str, &str)]| {
        let scraped = [("pod", "kube-state-metrics-x"), ("namespace", "monitoring")];
        let said = [("exported_pod", exported), ("exported_namespace", "ml")];
        find(&cache, &[&scraped[..], &said, more].concat())
    };
    assert_eq!(of("new-0", &[]), Err(Miss::UnknownPod));
    assert_eq!(of("new-0", &[("uid", watcher)]), Err(Miss::UnknownPod));
    assert_eq!(of("train-0", &[]).unwrap(), "w2");
    // The UID of the pod that was scraped says nothing of the one that the exporter named, nor the other way round.
    assert_eq!(of("train-0", &[("uid", watcher)]).unwrap(), "w2");
    let other = "77777777-2222-3333-4444-555555555555";
    assert_eq!(of("train-0", &[("exported_uid", other)]), Err(Miss::OtherUid));
    assert_eq!(of("train-0", &[("uid", other)]), Err(Miss::OtherUid), "kube-state-metrics' own");
    let scraped = [("pod", "kube-state-metrics-x"), ("namespace", "monitoring")];
    assert_eq!(find(&cache, &[&scraped[..], &[("exported_uid", other)]].concat()).unwrap(), "w1");
}

#[test]
fn a_card_is_known_by_its_uuid_before_its_number() {
    let by_uuid = Device { label: "gpu_uuid".into(), ..gpu("GPU-1", "u1") };
    let slice = |name: &str, uid: &str| Device { label: Device::SLICE.into(), ..gpu(name, uid) };
    let devices = vec![gpu("0", "u2"), by_uuid, slice("0/7", "u2"), slice("GPU-1/7", "u1")];
    let cache = cache(vec![pod("ml", "a", "u1", "w1"), pod("ml", "b", "u2", "w2")], devices);
    let dcgm = [("Hostname", "n1"), ("gpu", "0"), ("UUID", "GPU-1")];
    assert_eq!(find(&cache, &dcgm).unwrap(), "w1");
    let part = [&dcgm[..], &[("GPU_I_ID", "7")]].concat();
    assert_eq!(find(&cache, &part).unwrap(), "w1");
    assert_eq!(find(&cache, &dcgm[..2]).unwrap(), "w2", "by its number alone");
}

#[test]
fn a_resource_that_no_label_is_known_for_gets_the_one_that_is_configured() {
    let fpga = Device { label: "xilinx.com/fpga".into(), ..gpu("0000:3b:00.0", "u1") };
    let facts = || Facts {
        pods: vec![pod("ml", "a", "u1", "w1")],
        devices: vec![fpga.clone()],
        ..Facts::default()
    };
    let labels = [("fpga_id", "0000:3b:00.0"), ("node", "n1")];
    let without = cache(facts().pods, facts().devices);
    assert_eq!(find(&without, &labels), Err(Miss::NoPodLabel));
    let resources = [("xilinx.com/fpga".to_owned(), "fpga_id".to_owned())].into();
    let with = LabelNames { resources, ..LabelNames::default() };
    let with = Cache::new(with, Duration::from_secs(60));
    with.update("static", facts());
    assert_eq!(find(&with, &labels).unwrap(), "w1");
}

#[test]
fn of_a_device_those_may_know_who_tell_of_its_kind_on_its_node() {
    let cache = cache(vec![pod("ml", "a", "u1", "w1")], vec![gpu("0", "u1")]);
    let unheard = |labels: &[(&str, &str)]| {
        let snapshot = cache.snapshot();
        let mut labels: Vec<Label<'_>> =
            labels.iter().map(|&(name, value)| Label { name, value }).collect();
        labels.sort_unstable();
        let known = snapshot.who_may_know(&labels, snapshot.find(&labels).unwrap_err(), u64::MAX);
        (known.pods, known.holder.map(|doubt| doubt.to_string()))
    };
    let gpu_1 = [("node", "n1"), ("gpu", "1")];
    assert_eq!(unheard(&gpu_1), (false, None), "who tells of them is heard");
    cache.inventory().expect("static", Duration::from_secs(60));
    let away = crosstalk_inventory::Failure::away("connection refused", "");
    cache.inventory().fail("static", away);
    assert_eq!(unheard(&gpu_1), (false, Some("static".to_owned())));
    let others = [("node", "n2"), ("gpu", "1")];
    assert_eq!(unheard(&others), (false, None), "nobody holds any there");
    assert_eq!(unheard(&[("node", "n1"), ("device", "eth0")]), (false, None));
    assert_eq!(unheard(&[("pod", "b"), ("namespace", "ml")]), (true, None));
    // Another source is heard, and does not tell of these.
    cache.inventory().expect("kubernetes", Duration::from_secs(60));
    cache.update("kubernetes", Facts::default());
    cache.update("static", Facts::default());
    assert_eq!(unheard(&gpu_1), (false, None), "given back");
    let away = crosstalk_inventory::Failure::away("connection refused", "");
    cache.inventory().fail("kubernetes", away);
    assert_eq!(unheard(&gpu_1), (false, None), "who is away never told of GPUs");
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
