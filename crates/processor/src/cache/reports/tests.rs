use super::report::Given;
use super::*;
use crosstalk_inventory::{Doubt, Pod};

fn report(node: &str, devices: &[(&str, &str)]) -> Report {
    let given = |(device, pod): &(&str, &str)| Given {
        resource: "nvidia.com/gpu".to_owned(),
        device: (*device).into(),
        namespace: "ml".into(),
        pod: (*pod).into(),
        container: "main".into(),
    };
    Report { node: node.into(), devices: devices.iter().map(given).collect(), pods: Vec::new() }
}

fn known_by(report: &Report) -> Facts {
    facts_of(report, |_| true)
}

fn reports(inventory: &Inventory) -> Reports {
    inventory.announce(AGENTS);
    Reports::new(inventory.clone(), true)
}

fn inventory() -> Inventory {
    Inventory::new(Duration::from_secs(60))
}

#[test]
fn one_node_does_not_stand_for_those_that_were_known_before() {
    let before = inventory();
    let facts =
        [known_by(&report("n1", &[("GPU-1", "a")])), known_by(&report("n2", &[("GPU-2", "b")]))];
    let [mut all, more] = facts;
    all.devices.extend(more.devices);
    all.pods.extend(more.pods);
    before.update(AGENTS, all);
    let after = inventory();
    after.announce(AGENTS);
    after.restore(before.save());
    let (reports, mut published) = (reports(&after), None);
    let now = Instant::now();
    reports.take(&report("n1", &[("GPU-1", "c")])).unwrap();
    reports.tell(&mut published, now);
    assert_eq!(after.standing().remembered, [AGENTS], "n2 may have new pods");
    assert_eq!(after.facts_of(AGENTS).devices.len(), 2, "what n1 says now is known already");
    // Nothing new in it, and all the same it was heard.
    reports.take(&report("n2", &[("GPU-2", "b")])).unwrap();
    reports.tell(&mut published, now);
    assert!(after.standing().remembered.is_empty());
    let age = |inventory: &Inventory| inventory.statuses()[0].age.unwrap();
    assert!(age(&after) < Duration::from_secs(5));
}

#[test]
fn who_holds_what_on_a_node_that_is_silent_since_the_start_is_open_for_as_long_as_it_is_waited_for()
{
    let before = inventory();
    let mut all = known_by(&report("n1", &[("GPU-1", "a")]));
    all.devices.extend(known_by(&report("n2", &[("GPU-2", "b")])).devices);
    before.update(AGENTS, all);
    let after = inventory();
    after.announce(AGENTS);
    after.restore(before.save());
    let (reports, mut published) = (reports(&after), None);
    let now = Instant::now();
    let open = || -> Vec<String> {
        let devices = after.facts_of(AGENTS).devices.into_iter();
        let ended = devices.filter(|device| device.valid.valid_to_ns.is_some());
        let mut names: Vec<_> = ended.map(|device| device.device.to_string()).collect();
        names.sort();
        names
    };
    assert_eq!(open(), ["GPU-1", "GPU-2"]);
    reports.take(&report("n1", &[("GPU-1", "a")])).unwrap();
    reports.tell(&mut published, now);
    assert_eq!(open(), ["GPU-2"], "and a report is believed at once");
    // The others are not kept waiting for it.
    reports.tell(&mut published, now + SETTLED);
    assert!(after.standing().remembered.is_empty());
    assert_eq!(open(), ["GPU-2"]);
    let doubt = |node: &'static str| after.snapshot().doubt(0, node, u64::MAX);
    assert_eq!((doubt("n1"), doubt("n2")), (None, Some(Doubt::Node("n2"))));
    assert_eq!(after.snapshot().doubt(0, "n2", 1), None, "what was known then is known");
    reports.tell(&mut published, now + PATIENCE + SILENT);
    let devices = after.facts_of(AGENTS).devices;
    assert!(devices.is_empty(), "n1 was silent for as long: {devices:?}");
    assert_eq!(doubt("n2"), None);
}

/// A pod as Kubernetes tells of it, since a time.
fn pod(uid: &str, name: &str, from_ns: u64) -> Pod {
    let mut pod = Pod {
        name: name.into(),
        namespace: "ml".into(),
        uid: uid.into(),
        node: "n1".into(),
        asks_for_devices: true,
        started_ns: Some(from_ns),
        ..Pod::default()
    };
    pod.valid.valid_from_ns = from_ns;
    pod
}

#[test]
fn whoever_lives_on_keeps_its_devices_while_the_agent_is_silent_and_who_came_since_is_waited_for() {
    let inventory = inventory();
    let kubernetes = |pods: Vec<Pod>| {
        inventory.update(KUBERNETES, Facts { pods, ..Facts::default() });
    };
    let (reports, mut published) = (reports(&inventory), None);
    let second = 1_000_000_000;
    let now = unix_ns(SystemTime::now());
    let [a, b] = [pod("u1", "a", now - 900 * second), pod("u2", "b", now - 800 * second)];
    kubernetes(vec![a.clone(), b]);
    reports.take(&report("n1", &[("GPU-1", "a"), ("GPU-2", "b")])).unwrap();
    let start = Instant::now();
    reports.tell(&mut published, start);
    let holder = |device: &str, at: u64| {
        let known = inventory.snapshot();
        known.holder_at(0, "n1", device, at).map(|(pod, _)| pod.uid.to_string())
    };
    let later = now + 20 * second;
    assert_eq!(holder("GPU-1", later).as_deref(), Some("u1"));
    assert!(!inventory.snapshot().awaits_devices("n1", later), "they were told");

    // Silent for longer than it is waited for anybody; one pod has gone meanwhile, and another came.
    let c = pod("u3", "c", now + 5 * second);
    kubernetes(vec![a, c]);
    for after in [SILENT, PATIENCE, PATIENCE * 3] {
        reports.tell(&mut published, start + after);
        assert_eq!(holder("GPU-1", later).as_deref(), Some("u1"), "after {after:?}");
        // As far as the agent knows, its pod is still there; nobody else knows such a pod.
        assert_ne!(holder("GPU-2", later).as_deref(), Some("u2"));
        let known = inventory.snapshot();
        assert_eq!(known.doubt(0, "n1", later), None, "who lives is known");
        assert!(known.awaits_devices("n1", later), "GPU-2 may be c's");
        assert!(!known.awaits_devices("n1", now), "it had not come yet");
        assert!(!known.awaits_devices("n2", later), "whose agent never reported");
    }
    // Who tells who lives is away too.
    inventory.expect(KUBERNETES, Duration::from_secs(600));
    inventory.fail(KUBERNETES, crosstalk_inventory::Failure::away("connection refused", ""));
    reports.tell(&mut published, start + PATIENCE * 3);
    assert_eq!(holder("GPU-1", later), None);
    assert_eq!(inventory.snapshot().doubt(0, "n1", later), Some(Doubt::Node("n1")));
    reports.take(&report("n1", &[("GPU-1", "a"), ("GPU-2", "c")])).unwrap();
    reports.tell(&mut published, Instant::now());
    assert_eq!(holder("GPU-2", later).as_deref(), Some("u3"));
    assert_eq!(inventory.snapshot().doubt(0, "n1", later), None);
    assert!(!inventory.snapshot().awaits_devices("n1", later));
}

#[test]
fn a_pod_that_its_kubelet_lists_without_devices_has_none_and_is_not_waited_for() {
    let inventory = inventory();
    let (reports, mut published) = (reports(&inventory), None);
    let now = unix_ns(SystemTime::now());
    // What it asks for is counted by some controller, and no plugin hands it out.
    let quiet = Pod { asks_for_devices: false, ..pod("u2", "quiet", now) };
    let pods = vec![pod("u1", "a", now), quiet];
    inventory.update(KUBERNETES, Facts { pods, ..Facts::default() });
    let mut listed = report("n1", &[]);
    reports.take(&listed).unwrap();
    reports.tell(&mut published, Instant::now());
    assert!(inventory.snapshot().awaits_devices("n1", now + 1));
    let named = |pod: &str| Named { namespace: "ml".into(), pod: pod.into() };
    listed.pods = vec![named("a"), named("quiet"), named("unknown")];
    reports.take(&listed).unwrap();
    reports.tell(&mut published, Instant::now());
    assert!(!inventory.snapshot().awaits_devices("n1", now + 1));
    let kept = inventory.facts_of(AGENTS).pods;
    assert_eq!(kept.len(), 1, "of the others there is nothing to tell: {kept:?}");
}

#[test]
fn an_agent_that_falls_silent_leaves_its_node_in_doubt_where_nobody_else_tells_who_lives() {
    let inventory = inventory();
    let (reports, mut published) = (reports(&inventory), None);
    reports.take(&report("n1", &[("GPU-1", "a")])).unwrap();
    let start = Instant::now();
    let doubt = |reports: &Reports, published: &mut Option<Instant>, after| {
        reports.tell(published, start + after);
        inventory.snapshot().doubt(0, "n1", u64::MAX)
    };
    assert_eq!(doubt(&reports, &mut published, SILENT / 2), None);
    assert_eq!(doubt(&reports, &mut published, SILENT * 2), Some(Doubt::Node("n1")));
    assert_eq!(reports.silent_nodes(), 1);
    assert_eq!(
        doubt(&reports, &mut published, PATIENCE * 2),
        None,
        "it is not waited for for ever"
    );
    assert_eq!(reports.silent_nodes(), 0);
}

#[test]
fn agents_that_nobody_announced_are_remembered_and_not_waited_for_for_ever() {
    let before = inventory();
    before.update(AGENTS, known_by(&report("n1", &[("GPU-1", "a")])));
    let after = inventory();
    let saved = tempfile::NamedTempFile::new().unwrap();
    before.save().write(saved.path()).unwrap();
    crate::cache::saved::restore(&after, saved.path(), &[AGENTS]);
    let (reports, mut published) = (Reports::new(after.clone(), false), None);
    let now = Instant::now();
    reports.tell(&mut published, now);
    assert_eq!(after.standing().remembered, [AGENTS]);
    assert_eq!(after.facts_of(AGENTS).devices.len(), 1);
    reports.tell(&mut published, now + PATIENCE);
    assert!(after.standing().doubtful().is_empty());
    assert!(after.facts_of(AGENTS).devices.is_empty());
    reports.take(&report("n2", &[("GPU-2", "b")])).unwrap();
    reports.tell(&mut published, now + PATIENCE);
    assert_eq!(after.facts_of(AGENTS).devices.len(), 1, "one that comes late is heard");
}

#[test]
fn a_node_that_will_not_report_again_is_waited_for_only_so_long() {
    let after = inventory();
    let (reports, mut published) = (reports(&after), None);
    reports.take(&report("n1", &[("GPU-1", "a")])).unwrap();
    reports.tell(&mut published, Instant::now());
    assert_eq!(after.standing().waiting, [AGENTS], "others may come");
    reports.tell(&mut published, Instant::now() + SETTLED);
    assert!(after.standing().waiting.is_empty());
}

#[test]
fn a_device_that_is_shared_has_its_own_name_and_is_nobodys_where_several_have_it() {
    let facts = known_by(&report(
        "n1",
        &[("GPU-1::0", "a"), ("GPU-1::1", "a"), ("GPU-2::0", "a"), ("GPU-2::1", "b")],
    ));
    let held: Vec<_> = facts.devices.iter().map(|d| (&*d.device, &*d.pod_name)).collect();
    assert_eq!(held, [("GPU-1", "a")]);
}

#[test]
fn what_agents_may_say_is_bounded() {
    let (mut state, now) = (State::default(), Instant::now());
    let many: Vec<String> = (0..MAX_DEVICES).map(|number| format!("GPU-{number}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (&**name, "a")).collect();
    let facts = known_by(&report("n", &many));
    let mut nodes = 0..;
    let mut add = |state: &mut State| {
        let node = nodes.next().map_or_else(String::new, |node: usize| node.to_string());
        state.take(&node.into(), facts.clone(), now, 1)
    };
    for _ in 0..MAX_ALL_DEVICES / MAX_DEVICES {
        add(&mut state).unwrap();
    }
    assert!(matches!(add(&mut state), Err(Untaken::Full { .. })));
    state.take(&"0".into(), facts.clone(), now, 1).unwrap();
    let known = inventory().snapshot();
    let alive = Alive { heard: None, known: &known };
    let news = state.news(now + PATIENCE, &alive);
    assert!(news.is_some_and(|(facts, _)| facts.devices.is_empty()));
    assert_eq!(add(&mut state), Ok(()));
    let long = report("n", &[(&"x".repeat(MAX_NAME_BYTES + 1), "a")]);
    assert_eq!(long.check(), Err(Untaken::Name));
}
