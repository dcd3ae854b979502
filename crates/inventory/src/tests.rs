use super::*;
use crate::merge::Now;
use crosstalk_model::Placement;
use std::time::{Duration, Instant};

const GRACE: Duration = Duration::from_secs(60);

fn pod(uid: &str, name: &str) -> Pod {
    let workload = Workload { name: format!("{name}-job").into(), ..Workload::default() };
    Pod {
        name: name.into(),
        namespace: "ml".into(),
        uid: uid.into(),
        workloads: vec![workload],
        ..Pod::default()
    }
}

fn container(id: &str, pod_uid: &str) -> Container {
    let (name, image) = ("main".into(), "trainer:3".into());
    Container { id: id.into(), pod_uid: pod_uid.into(), name, image, ..Container::default() }
}

fn gpu(device: &str, pod_uid: &str) -> Device {
    let (label, device) = ("gpu_id".into(), device.into());
    Device { label, device, pod_uid: pod_uid.into(), ..Device::default() }
}

fn at(start: Instant, seconds: u64) -> Now {
    Now { unix_ns: 1_000 + seconds, instant: start + Duration::from_secs(seconds) }
}

#[test]
fn ids_lead_to_names_image_and_workload() {
    let inventory = Inventory::new(GRACE);
    let pods = vec![pod("u1", "train-0")];
    inventory.update("kubernetes", Facts { pods, ..Facts::default() });
    let containers = vec![container("c1", "u1")];
    inventory.update("engine", Facts { containers, ..Facts::default() });
    let snapshot = inventory.snapshot();
    let ids = Placement { container_id: Some("c1".into()), ..Placement::default() };
    let placed = snapshot.place(&ids);
    assert_eq!(placed.container_name.as_deref(), Some("main"));
    assert_eq!(placed.container_image.as_deref(), Some("trainer:3"));
    assert_eq!(placed.pod_name.as_deref(), Some("train-0"));
    assert_eq!(placed.pod_namespace.as_deref(), Some("ml"));
    assert_eq!(placed.pod_uid.as_deref(), Some("u1"));
    assert_eq!(placed.workload.as_deref(), Some("train-0-job"));
    let unknown = Placement { container_id: Some("c2".into()), ..Placement::default() };
    assert_eq!(snapshot.place(&unknown), unknown, "what is not known stays absent");
}

#[test]
fn a_container_whose_id_is_not_in_its_path_is_found_by_its_cgroup() {
    let inventory = Inventory::new(GRACE);
    let demo = Container { cgroup: Some("/default/demo".into()), ..container("demo", "") };
    inventory.update("engine", Facts { containers: vec![demo], ..Facts::default() });
    let snapshot = inventory.snapshot();
    let name = |path: &str| {
        let cgroup = Cgroup { path: Some(path.to_owned()), ..Cgroup::default() };
        snapshot.place_cgroup(&cgroup).container_name.map(|name| name.to_string())
    };
    assert_eq!(name("/default/demo").as_deref(), Some("main"));
    assert_eq!(name("/default/demo/inner").as_deref(), Some("main"));
    assert_eq!(name("/default"), None);
    assert_eq!(name("/"), None);
}

#[test]
fn every_fact_says_when_it_was_valid() {
    let inventory = Inventory::new(GRACE);
    let start = Instant::now();
    let facts =
        |pods: Vec<Pod>, containers: Vec<Container>| Facts { pods, containers, ..Facts::default() };
    let mut dated = pod("u2", "known");
    dated.valid.valid_from_ns = 7;
    let both = facts(vec![pod("u1", "train-0"), dated.clone()], vec![container("c1", "u1")]);
    inventory.update_at("engine", both.clone(), at(start, 0), start);
    let again =
        facts(both.pods.clone(), [both.containers.clone(), vec![container("c2", "u1")]].concat());
    inventory.update_at("engine", again, at(start, 5), start);
    let snapshot = inventory.snapshot();
    let open = |from| Validity { valid_from_ns: from, valid_to_ns: None };
    assert_eq!(snapshot.pod("u1").unwrap().valid, open(1_000), "since it was first heard");
    assert_eq!(snapshot.pod("u2").unwrap().valid, open(7), "since when the source says");
    assert_eq!(snapshot.container("c1").unwrap().valid, open(1_000));
    assert_eq!(snapshot.container("c2").unwrap().valid, open(1_005));

    inventory.update_at("engine", facts(vec![dated], vec![]), at(start, 10), start);
    let snapshot = inventory.snapshot();
    let over = Validity { valid_from_ns: 1_000, valid_to_ns: Some(1_010) };
    assert_eq!(snapshot.pod("u1").unwrap().valid, over);
    assert_eq!(snapshot.container("c1").unwrap().valid, over);
    inventory.update_at("engine", Facts::default(), at(start, 70), start);
    let snapshot = inventory.snapshot();
    assert!(snapshot.pod("u1").is_none() && snapshot.container("c1").is_none(), "grace is over");
    assert!(snapshot.pod("u2").is_some());
}

#[test]
fn a_device_goes_with_its_pod_but_not_when_the_pod_gave_it_back() {
    let inventory = Inventory::new(GRACE);
    let start = Instant::now();
    let facts = |pods: &[Pod], devices: &[Device]| Facts {
        pods: pods.to_vec(),
        devices: devices.to_vec(),
        ..Facts::default()
    };
    let pods = [pod("u1", "a"), pod("u2", "b")];
    let devices = [gpu("0", "u1"), gpu("1", "u2")];
    inventory.update_at("static", facts(&pods, &devices), at(start, 0), start);
    inventory.update_at("static", facts(&pods[..1], &[]), at(start, 1), start);
    let snapshot = inventory.snapshot();
    assert!(snapshot.holder(0, "", "0").is_none(), "given back");
    assert_eq!(&*snapshot.holder(0, "", "1").unwrap().uid, "u2", "gone with its pod");
}

#[test]
fn what_is_remembered_of_a_device_ends_when_its_source_was_last_heard_until_it_is_heard_again() {
    let facts = |pods: &[Pod], devices: &[Device]| Facts {
        pods: pods.to_vec(),
        devices: devices.to_vec(),
        ..Facts::default()
    };
    let (a, b) = (pod("u1", "a"), pod("u2", "b"));
    let before = Inventory::new(GRACE);
    before.update("kubernetes", facts(std::slice::from_ref(&a), &[gpu("0", "u1")]));
    let saved = before.save();
    let heard = saved.sources["kubernetes"].heard_ns;
    let after = || {
        let after = Inventory::new(GRACE);
        after.announce("kubernetes");
        after.restore(saved.clone());
        after
    };
    let holder = |inventory: &Inventory, at: u64| {
        let snapshot = inventory.snapshot();
        snapshot.holder_at(0, "", "0", at).map(|(pod, _)| pod.name.to_string())
    };
    let restarted = after();
    assert_eq!(holder(&restarted, heard - 1).as_deref(), Some("a"));
    assert_eq!(holder(&restarted, heard + 1), None, "it may be another's by now");
    assert_eq!(restarted.save().sources["kubernetes"].heard_ns, heard, "also for the next");
    restarted.update("kubernetes", facts(std::slice::from_ref(&a), &[gpu("0", "u1")]));
    assert_eq!(holder(&restarted, heard + 1).as_deref(), Some("a"), "it was not");

    let restarted = after();
    let since = |from: u64, device: Device| Device {
        valid: Validity { valid_from_ns: from, valid_to_ns: None },
        ..device
    };
    let given = since(heard + 10, gpu("0", "u2"));
    restarted.update("kubernetes", facts(&[a, b], &[given]));
    assert_eq!(holder(&restarted, heard + 9).as_deref(), Some("a"));
    let snapshot = restarted.snapshot();
    let (_, valid) = snapshot.holder_at(0, "", "0", heard + 9).unwrap();
    assert_eq!(valid.valid_to_ns, Some(heard + 10), "and no longer, though it was missed later");
    assert_eq!(holder(&restarted, heard + 10).as_deref(), Some("b"));

    // One that nobody waits for any more is believed.
    let restarted = Inventory::new(GRACE);
    restarted.announce_optional("kubernetes");
    restarted.restore(saved.clone());
    assert_eq!(holder(&restarted, heard + 1), None);
    restarted.fail("kubernetes", Failure::away("away", ""));
    assert_eq!(holder(&restarted, heard + 1).as_deref(), Some("a"));
}

#[test]
fn whoever_is_named_late_as_the_holder_of_a_device_has_it_since_its_node_took_it_on() {
    let inventory = Inventory::new(GRACE);
    let second = 1_000_000_000;
    let start = Instant::now();
    let at = |seconds: u64| Now {
        unix_ns: seconds * second,
        instant: start + Duration::from_secs(seconds),
    };
    let started = |uid: &str, name: &str, seconds: u64| Pod {
        started_ns: Some(seconds * second),
        ..pod(uid, name)
    };
    let (a, b) = (started("u1", "a", 1_000), started("u2", "b", 2_000));
    let pods =
        |pods: &[&Pod]| Facts { pods: pods.iter().copied().cloned().collect(), ..Facts::default() };
    let held_by = |pod: &str| {
        let (pod_namespace, pod_name) = ("ml".into(), pod.into());
        let devices = vec![Device { pod_namespace, pod_name, ..gpu("0", "") }];
        Facts { devices, ..Facts::default() }
    };
    let holder = |seconds: u64| {
        let snapshot = inventory.snapshot();
        snapshot.holder_at(0, "", "0", seconds * second).map(|(pod, _)| pod.name.to_string())
    };
    inventory.update_at("kubernetes", pods(&[&a]), at(1_001), start);
    inventory.update_at("kubelet", held_by("a"), at(1_010), start);
    assert_eq!(holder(1_002).as_deref(), Some("a"), "before the kubelet said so");
    inventory.update_at("kubernetes", pods(&[&b]), at(2_001), start);
    assert_eq!(holder(2_002), None, "whose it is now is not known yet");
    inventory.update_at("kubelet", held_by("b"), at(2_010), start);
    assert_eq!(holder(1_999).as_deref(), Some("a"));
    assert_eq!(holder(2_000).as_deref(), Some("b"), "the first is gone");
    // Between two that live a device changes hands when that is said.
    let c = started("u3", "c", 2_000);
    inventory.update_at("kubernetes", pods(&[&b, &c]), at(2_020), start);
    inventory.update_at("kubelet", held_by("c"), at(2_030), start);
    assert_eq!(holder(2_029).as_deref(), Some("b"));
    assert_eq!(holder(2_030).as_deref(), Some("c"));
}

#[test]
fn a_source_without_uids_speaks_of_the_pod_another_knows() {
    let inventory = Inventory::new(GRACE);
    let known = Pod { workloads: vec![], ..pod("u1", "train-0") };
    inventory.update("engine", Facts { pods: vec![known], ..Facts::default() });
    let device =
        Device { pod_namespace: "ml".into(), pod_name: "train-0".into(), ..gpu("GPU-1", "") };
    let facts = Facts { pods: vec![pod("", "train-0")], devices: vec![device], ..Facts::default() };
    inventory.update("kubelet", facts);
    let snapshot = inventory.snapshot();
    let pods: Vec<&Pod> = snapshot.pods().collect();
    assert_eq!((pods.len(), pods[0].workloads.len()), (1, 1));
    assert_eq!(&*snapshot.holder(0, "", "GPU-1").unwrap().uid, "u1");
}

#[test]
fn a_source_that_fails_says_why_and_what_it_said_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pods.yaml");
    std::fs::write(&path, "pods: [{name: a}]").unwrap();
    let refresh = Duration::from_millis(20);
    let config = Config { static_file: Some(path.clone()), refresh, ..Config::default() };
    let inventory = Inventory::start(config);
    let status = || inventory.statuses().remove(0);
    let until = |what: &str, done: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < deadline, "waited in vain: {what}");
            std::thread::yield_now();
        }
    };
    until("the first reading", &|| inventory.snapshot().pod_in("", "a").is_some());
    assert_eq!((status().name, status().error), ("static", None));
    std::fs::write(&path, "pods: [{nam: a}]").unwrap();
    until("the mistake", &|| status().error.is_some());
    let error = status().error.unwrap();
    assert!(error.found.contains("pods.yaml") && error.found.contains("nam"), "{error}");
    assert!(status().heard_at.is_some() && inventory.snapshot().pod_in("", "a").is_some());
    std::fs::write(&path, "pods: [{name: b}]").unwrap();
    until("the correction", &|| inventory.snapshot().pod_in("", "b").is_some());
    assert_eq!(status().error, None);
}

/// Pods with a GPU each on a hundred nodes.
fn many(count: usize) -> Facts {
    let mut facts = Facts::default();
    for number in 0..count {
        let (uid, node) = (format!("u{number}"), format!("node-{}", number % 100));
        let device = Device { node: node.as_str().into(), ..gpu(&number.to_string(), &uid) };
        facts.devices.push(device);
        facts.pods.push(Pod { node: node.into(), ..pod(&uid, &format!("train-{number}")) });
    }
    facts
}

#[test]
fn a_change_of_one_pod_among_ten_thousand_costs_its_parts_alone() {
    let inventory = Inventory::new(GRACE);
    let facts = many(10_000);
    inventory.update("kubernetes", facts.clone());
    let before = inventory.snapshot();
    let one = |uid: &str| {
        let pods = facts.pods.iter().filter(|pod| &*pod.uid == uid).cloned().collect();
        let devices = facts.devices.iter().filter(|held| &*held.pod_uid == uid).cloned().collect();
        Facts { pods, devices, ..Facts::default() }
    };
    let tell = |uid: &str, facts: Facts| {
        inventory.update_pods("kubernetes", &[uid.into()], facts, Instant::now());
        inventory.snapshot()
    };
    // Another owner.
    let mut changed = one("u77");
    changed.pods[0].workloads[0].name = "other".into();
    let after = tell("u77", changed);
    assert_eq!(&*after.pod("u77").unwrap().workloads[0].name, "other");
    assert_eq!(&*after.holder(0, "node-77", "77").unwrap().workloads[0].name, "other");
    assert_eq!(&*before.pod("u77").unwrap().workloads[0].name, "train-77-job", "as it was");
    let parts = after.parts_not_of(&before);
    assert!(parts <= 2, "{parts} of 193 parts are new");
    // Gone, with its device; and another that comes.
    let gone = tell("u78", Facts::default());
    assert!(gone.pod("u78").unwrap().valid.valid_to_ns.is_some());
    assert!(gone.pod("u79").is_some());
    let parts = gone.parts_not_of(&after);
    assert!(parts <= 2, "{parts} of 193 parts are new");
    let mut new = one("u79");
    (new.pods[0].uid, new.pods[0].name) = ("new".into(), "new-0".into());
    new.devices.clear();
    let came = tell("new", new);
    assert_eq!(came.pod_named_at("new-0", None), came.pod("new").map(Named::One));
    assert!(came.pod("new").is_some());
    let parts = came.parts_not_of(&gone);
    assert!(parts <= 2, "{parts} of 193 parts are new");
    // Nothing but these is to be asked for anew.
    let since = before.version() as u32;
    assert!(came.unchanged_since(since, [Snapshot::key("train-80"), Snapshot::key("node-80")]));
    assert!(!came.unchanged_since(since, [Snapshot::key("train-77"), 0]));
    assert!(!came.unchanged_since(since, [0, Snapshot::key("node-77")]), "who holds its device");
}

#[test]
fn changes_one_by_one_come_to_the_same_as_a_whole_list() {
    let start = Instant::now();
    let (mut random, facts) = (fastrand::Rng::with_seed(7), many(300));
    let (stepwise, whole) = (Inventory::new(GRACE), Inventory::new(GRACE));
    let mut there: Vec<bool> = vec![false; 300];
    for _ in 0..40 {
        let mut uids: Vec<std::sync::Arc<str>> = Vec::new();
        let mut told = Facts::default();
        for number in (0..300).filter(|_| random.u32(..8) == 0).collect::<Vec<_>>() {
            there[number] = !there[number];
            uids.push(std::sync::Arc::clone(&facts.pods[number].uid));
            if there[number] {
                told.pods.push(facts.pods[number].clone());
                told.devices.push(facts.devices[number].clone());
            }
        }
        stepwise.update_pods("kubernetes", &uids, told, start);
        let mut all = Facts::default();
        for number in (0..300).filter(|number| there[*number]) {
            all.pods.push(facts.pods[number].clone());
            all.devices.push(facts.devices[number].clone());
        }
        whole.update("kubernetes", all);
    }
    let shown = |inventory: &Inventory| {
        let snapshot = inventory.snapshot();
        let mut lines: Vec<String> = (0..300)
            .map(|number| {
                let (uid, node) = (format!("u{number}"), format!("node-{}", number % 100));
                let pod = snapshot.pod(&uid).map(|pod| pod.valid.valid_to_ns.is_some());
                let holder = snapshot.holder(0, &node, &number.to_string());
                format!("{uid} {pod:?} {:?}", holder.map(|pod| pod.uid.to_string()))
            })
            .collect();
        lines.push(snapshot.devices().count().to_string());
        lines
    };
    assert_eq!(shown(&stepwise), shown(&whole));
    assert_eq!(stepwise.save().pods(), whole.save().pods());
}

#[test]
fn a_device_goes_with_its_pod_also_where_another_source_names_another_node() {
    let inventory = Inventory::new(GRACE);
    let on = |node: &str| vec![Pod { node: node.into(), ..pod("u1", "train-0") }];
    inventory.update("database", Facts { pods: on("old"), ..Facts::default() });
    let devices = vec![Device { node: "new".into(), ..gpu("0", "u1") }];
    inventory.update("kubernetes", Facts { pods: on("new"), devices, ..Facts::default() });
    assert!(inventory.snapshot().holder(0, "new", "0").is_some());
    let without = Facts { pods: on("new"), ..Facts::default() };
    inventory.update_pods("kubernetes", &["u1".into()], without, Instant::now());
    assert!(inventory.facts_of("kubernetes").devices.is_empty());
    assert!(inventory.snapshot().holder(0, "new", "0").is_none());
}

#[test]
fn a_source_that_knew_nothing_is_in_doubt_after_a_restart_unless_others_know_as_much() {
    let before = Inventory::new(GRACE);
    before.update("kubernetes", Facts::default());
    before.update("database", Facts::default());
    let after = Inventory::new(GRACE);
    after.announce("kubernetes");
    after.announce_optional("database");
    after.restore(before.save());
    assert!(after.standing().is_ready());
    assert_eq!(after.standing().doubtful(), ["kubernetes"], "its first pod may be there by now");
    after.update("kubernetes", Facts::default());
    assert!(after.standing().doubtful().is_empty());
}

#[test]
fn a_source_that_fails_or_falls_silent_is_in_doubt_until_it_is_heard_again() {
    let inventory = Inventory::new(GRACE);
    let minute = Duration::from_secs(60);
    inventory.expect("kubernetes", minute);
    inventory.update("kubernetes", Facts::default());
    inventory.update("static", Facts::default());
    let (now, doubtful) = (Instant::now(), |at| inventory.standing().doubtful_at(at));
    assert!(doubtful(now).is_empty());
    assert_eq!(doubtful(now + 2 * minute), ["kubernetes"]);
    inventory.fail("kubernetes", Failure::away("connection refused", ""));
    inventory.fail("static", Failure::away("line 3 is no pod", ""));
    assert_eq!(doubtful(now), ["kubernetes"], "nobody waits for a file to be corrected");
    // What was heard before it failed, and is told late, says nothing.
    inventory.hear("kubernetes", now);
    assert_eq!(doubtful(now), ["kubernetes"]);
    inventory.hear("kubernetes", Instant::now());
    assert!(doubtful(Instant::now()).is_empty());
}
