use super::round::{COLD, HOT};
use super::*;
use crosstalk_coldmem::{Backend, Kind};
use crosstalk_model::Placement;

const SECOND: u64 = 1_000_000_000;
const ID: &str = "c0";

/// A cgroup that uses `without` and as much again for page cache.
fn row(path: &str, without: u64, cold: Option<u64>) -> UsageRow {
    let part = |mark: &str| path.rsplit('/').find_map(|part| part.strip_prefix(mark));
    let place = Placement {
        container_id: part("container-").map(Into::into),
        pod_uid: part("pod-").map(Into::into),
        ..Placement::default()
    };
    UsageRow {
        slot_start_ns: 5,
        cgroup_id: if path == "/" { 0 } else { path.len() as u64 },
        cgroup: path.into(),
        place: Arc::new(place),
        backend: Backend::Kidled,
        without_page_cache: Some(without),
        with_page_cache: Some(2 * without),
        cold_bytes: cold,
        at_most_bytes: Some(without),
        refaults: None,
        stalled_ns: None,
        problem: None,
    }
}

fn tree(cold_of_pod: Option<u64>) -> Vec<UsageRow> {
    vec![
        row("/", 1_000, Some(500)),
        row("/kubepods", 300, Some(60)),
        row("/kubepods/pod-a", 100, cold_of_pod),
        row(&format!("/kubepods/pod-a/container-{ID}"), 90, cold_of_pod),
        row(&format!("/kubepods/pod-a/container-{ID}/init.scope"), 80, cold_of_pod),
        row("/kubepods/pod-bb", 200, Some(20)),
        row("/docker/container-d", 50, Some(10)),
        row("/docker/container-d/container-inner", 40, Some(10)),
        row("/system.slice", 70, Some(1)),
    ]
}

fn names(round: &Round, which: Which) -> Vec<String> {
    round.of(which).map(|held| held.key.1.to_string()).collect()
}

#[test]
fn cgroups_are_told_apart_and_what_lies_in_a_container_belongs_to_it() {
    let round = Round::new(&tree(Some(40)), Vec::new(), SECOND).unwrap();
    assert_eq!(names(&round, Which::Pod), ["a", "bb"]);
    assert_eq!(names(&round, Which::Container), [ID, "d", "inner"]);
    assert_eq!(names(&round, Which::Cgroup), ["/kubepods", "/system.slice"]);
    assert_eq!(round.of(Which::Container).next().unwrap().row.without_page_cache, Some(90));
    assert!(Round::new(&tree(None)[1..], Vec::new(), SECOND).is_none(), "without a node");
}

#[test]
fn the_system_is_the_node_less_pods_and_outermost_containers_under_every_policy() {
    let round = Round::new(&tree(Some(40)), Vec::new(), SECOND).unwrap();
    let of = |policy| {
        let usage = round.system(policy).unwrap();
        assert_eq!(usage.fallback(), None);
        usage.bytes
    };
    assert_eq!(of(Policy::UsageWithoutPageCache), 1_000 - 100 - 200 - 50);
    assert_eq!(of(Policy::UsageWithPageCache), 2_000 - 200 - 400 - 100);
    assert_eq!(of(Policy::UsageWithHotPageCache), 1_500 - 160 - 380 - 90);
    assert_eq!(round.system_cold(), Some(500 - 40 - 20 - 10));
    // One pod without ages: no difference of unlike things is taken.
    let round = Round::new(&tree(None), Vec::new(), SECOND).unwrap();
    let usage = round.system(Policy::UsageWithHotPageCache).unwrap();
    assert_eq!((usage.bytes, usage.policy), (650, Policy::UsageWithoutPageCache));
    assert!(usage.fallback().is_some());
    assert_eq!(round.system_cold(), None);
}

#[test]
fn histories_have_what_was_measured_and_are_bounded() {
    let memory = Memory::new(vec![Duration::from_secs(300)], Policy::default(), 1);
    for minute in 1..=3u64 {
        let cold = (minute > 1).then_some(minute);
        memory.take_usage(&tree(cold), minute * 60 * SECOND);
    }
    let published = memory.newest().unwrap();
    let mut kept: Vec<_> = published.histories.keys().map(|(which, _)| which.name()).collect();
    kept.sort_unstable();
    assert_eq!(kept, ["container", "node", "pod", "system"], "one of each kind");
    let system = &published.histories[&(Which::System, "".into())];
    let over = |value| system.over(value, 180 * SECOND, Duration::from_secs(300)).unwrap();
    assert_eq!((over(COLD).samples, over(COLD).aggregate.avg), (2, 467.5));
    assert_eq!(over(HOT).samples, 2);
    assert_eq!(over(place_of(Policy::UsageWithoutPageCache)).samples, 3);
    // Who is gone makes room.
    let newcomer = [row("/", 1_000, None), row("/kubepods/pod-new", 1, None)];
    memory.take_usage(&newcomer, 240 * SECOND);
    assert!(memory.newest().unwrap().histories.contains_key(&(Which::Pod, "new".into())));
}

#[test]
fn a_round_of_a_source_that_has_gone_silent_is_not_what_is_now() {
    let memory = Memory::new(Vec::new(), Policy::default(), 8);
    let is_current = |at_s: u64| memory.current(at_s * SECOND).is_some();
    memory.take_usage(&tree(None), 100 * SECOND);
    assert!(is_current(280) && !is_current(281), "three periods of a minute");
    // One that looks every five minutes, because looking is dear, is not silent after three.
    memory.take_usage(&tree(None), 400 * SECOND);
    assert!(is_current(1_300) && !is_current(1_301));
    // A source that came back after an hour is due within minutes again.
    memory.take_usage(&tree(None), 4_000 * SECOND);
    assert!(!is_current(5_801));
    assert!(memory.newest().is_some(), "what it said, and how old that is, is still known");
}

fn age(slot_start_ns: u64, cold: u64) -> ColdRow {
    ColdRow {
        slot_start_ns,
        cgroup_id: 0,
        cgroup: "/".into(),
        place: Arc::default(),
        backend: Backend::Kidled,
        kind: Kind::File,
        age_from_ms: 300_000,
        age_to_ms: None,
        bytes: Some(9),
        cold_bytes: Some(cold),
        at_most_bytes: None,
    }
}

#[test]
fn ages_of_a_round_whose_usage_got_lost_are_not_taken_for_those_of_the_next() {
    let memory = Memory::new(Vec::new(), Policy::default(), 8);
    let ages = || memory.newest().unwrap().round.node.ages.len();
    memory.take_ages(&[age(4, 9)]);
    memory.take_usage(&tree(None), SECOND);
    assert_eq!(ages(), 0);
    memory.take_ages(&[age(5, 9), age(5, 9)]);
    memory.take_usage(&tree(None), 2 * SECOND);
    assert_eq!(ages(), 2);
}

#[test]
fn where_usage_alone_was_looked_at_what_is_cold_is_as_it_was_less_what_is_gone() {
    let memory = Memory::new(Vec::new(), Policy::UsageWithHotPageCache, 8);
    memory.take_ages(&[age(5, 500)]);
    memory.take_usage(&[row("/", 1_000, Some(500))], 60 * SECOND);
    let node = || {
        let published = memory.newest().unwrap();
        let (round, node) = (&published.round, &published.round.node);
        let ages: u64 = node.ages.iter().filter_map(|row| row.cold_bytes).sum();
        (node.row.cold_bytes, node.row.with_hot_page_cache(), ages, round.ages_age(600 * SECOND))
    };
    assert_eq!(node(), (Some(500), Some(1_500), 500, Some(540.0)));
    // It uses 200 less, page cache included: that may all have been cold.
    memory.take_usage(&[row("/", 900, None)], 120 * SECOND);
    assert_eq!(node(), (Some(300), Some(1_500), 300, Some(540.0)));
    // What came since is not cold, and brings nothing back.
    memory.take_usage(&[row("/", 1_000, None)], 180 * SECOND);
    assert_eq!(node(), (Some(300), Some(1_700), 300, Some(540.0)));
    let elsewhere = UsageRow { backend: Backend::Bounds, ..row("/", 1_000, None) };
    memory.take_usage(&[elsewhere], 240 * SECOND);
    assert_eq!(node(), (None, None, 0, None), "another back end knows nothing of it");
    // Nor is what was seen an hour ago.
    memory.take_ages(&[age(5, 500)]);
    memory.take_usage(&[row("/", 1_000, Some(500))], 300 * SECOND);
    memory.take_usage(&[row("/", 1_000, None)], 4_000 * SECOND);
    assert_eq!(node().0, None);
}

#[test]
fn ages_of_the_system_are_what_is_left_of_the_nodes_where_all_are_known() {
    let ages = |cold_of_pod: Option<u64>| {
        let pod = ColdRow { cgroup_id: 15, cold_bytes: cold_of_pod, ..age(5, 0) };
        let rows = [row("/", 1_000, Some(500)), row("/kubepods/pod-a", 100, cold_of_pod)];
        let round = Round::new(&rows, vec![age(5, 500), pod], SECOND).unwrap();
        round.system_ages(|from_ms| from_ms / 1_000).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(ages(Some(40)), [((Kind::File, 300), 460)]);
    assert_eq!(ages(None), []);
}
