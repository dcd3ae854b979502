//! Priorities into control groups, on the simulator.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_bench::PREFIX;
use crosstalk_bench::plan::RoundKind;
use crosstalk_bench::scheduler::Decision;
use crosstalk_bench::store::EventKind;
use crosstalk_host::Clock;
use crosstalk_resctrl::{Resctrl, Schemata};
use crosstalk_resctrl_sim::{Profile, mount};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use support::{Bench, PLAIN, can_make_cgroups, own_cgroups, skip};

/// What every control group was limited to and held, at its fullest.
fn watch(root: &Path, stop: &AtomicBool) -> BTreeMap<String, (Schemata, usize)> {
    let resctrl = Resctrl::open(root).unwrap();
    let mut seen: BTreeMap<String, (Schemata, usize)> = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        for group in resctrl.control_groups().unwrap_or_default() {
            let class = group.name().rsplit('-').next().unwrap_or_default().to_owned();
            if let (true, Ok(schemata), Ok(tasks)) =
                (group.name().starts_with(PREFIX), group.schemata(), group.tasks())
            {
                let most = seen.get(&class).map_or(0, |(_, most)| *most);
                seen.insert(class, (schemata, most.max(tasks.len())));
            }
        }
        #[allow(clippy::disallowed_methods)] // a file system tells nobody what changes in it
        std::thread::sleep(Duration::from_millis(20));
    }
    seen
}

/// When a group of ours was there, Unix nanoseconds.
fn sightings(root: &Path, stop: &AtomicBool) -> Vec<u64> {
    let (resctrl, clock) = (Resctrl::open(root).unwrap(), Clock::measure());
    let mut seen = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let all = resctrl.control_groups().unwrap_or_default();
        if all.iter().any(|group| group.name().starts_with(PREFIX)) {
            seen.push(clock.now_unix_ns());
        }
        #[allow(clippy::disallowed_methods)] // a file system tells nobody what changes in it
        std::thread::sleep(Duration::from_millis(20));
    }
    seen
}

/// One test at a time looks at what this process has left.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn without_priorities_the_index_ranks_and_who_runs_alone_has_all_there_is() {
    if !can_make_cgroups() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let simulator = match mount(Profile::small(), folder.path()) {
        Ok(simulator) => simulator,
        Err(error) => return skip(error),
    };
    let text = format!(
        "benchmark: {{name: equals, max_t: 1, solo: true, scheduler: {{implementation: rdt}}, {PLAIN}}}
a: {{index: 0, command: sleep 30}}
b: {{index: 1, command: sleep 30}}
"
    );
    let stop = Arc::new(AtomicBool::new(false));
    let (path, is_over) = (folder.path().to_owned(), Arc::clone(&stop));
    let watcher = std::thread::spawn(move || sightings(&path, &is_over));
    let bench = Bench::new().resctrl(folder.path());
    let (dir, record) = bench.run(&text).unwrap();
    stop.store(true, Ordering::Relaxed);
    let seen = watcher.join().unwrap();

    for round in &record.rounds {
        let during = round.zero_ns..round.end_ns.unwrap();
        let there = seen.iter().any(|at_ns| during.contains(at_ns));
        assert_eq!(there, round.kind == RoundKind::Together, "{round:?}");
    }
    let events = dir.events().unwrap();
    let placed: Vec<(&str, &Decision)> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Decision(decision) => Some((event.container.as_deref()?, decision)),
            _ => None,
        })
        .collect();
    let [("a", a), ("b", b)] = &placed[..] else { panic!("{placed:#?}") };
    assert!(a.message.contains("class 0 of 2 by its index") && b.message.contains("class 1 of 2"));
    assert_ne!(a.evidence["schemata"], b.evidence["schemata"]);
    simulator.unmount().unwrap();
}

#[test]
fn the_important_get_most_of_the_cache_and_whatever_they_start_is_theirs_too() {
    if !can_make_cgroups() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let simulator = match mount(Profile::small(), folder.path()) {
        Ok(simulator) => simulator,
        Err(error) => return skip(error),
    };
    // Three processes besides the first, one of them started by exec in the middle.
    let family = "sh -c 'sleep 30 & sleep 0.3; sh -c \"sleep 30 & exec sleep 31\" & wait'";
    let text = format!(
        "benchmark: {{name: classes, max_t: 1.5, scheduler: {{implementation: rdt}}, {PLAIN}}}
a: {{index: 0, command: {family:?}, critical: true}}
b: {{index: 1, command: {family:?}}}
"
    );
    let bench = Bench::new().resctrl(folder.path());
    let stop = Arc::new(AtomicBool::new(false));
    let (path, is_over) = (folder.path().to_owned(), Arc::clone(&stop));
    let watcher = std::thread::spawn(move || watch(&path, &is_over));
    let (dir, record) = bench.run(&text).unwrap();
    stop.store(true, Ordering::Relaxed);
    let seen = watcher.join().unwrap();

    let (first, second) = (&seen["class0"], &seen["class1"]);
    let mask = |schemata: &Schemata| schemata.cache("L3", 0).unwrap();
    assert_eq!(mask(&first.0).ways() + mask(&second.0).ways(), 8, "{seen:?}");
    assert!(mask(&first.0).ways() > mask(&second.0).ways());
    assert!(!mask(&first.0).overlaps(mask(&second.0)));
    assert!(first.0.bandwidth("MB", 0) > second.0.bandwidth("MB", 0), "{seen:?}");
    assert!(first.1 >= 4 && second.1 >= 4, "everything they start is in their group: {seen:?}");

    let left: Vec<String> = Resctrl::open(folder.path())
        .unwrap()
        .control_groups()
        .unwrap()
        .iter()
        .map(|group| group.name())
        .filter(|name| name.starts_with(PREFIX))
        .collect();
    assert!(left.is_empty() && own_cgroups().is_empty(), "{left:?}");
    let events = dir.events().unwrap();
    let placed: Vec<&str> = events
        .iter()
        .filter(|event| matches!(&event.kind, EventKind::Decision(d) if d.what == "placed"))
        .filter_map(|event| event.container.as_deref())
        .collect();
    assert_eq!((placed, record.scheduler.as_str()), (vec!["a", "b"], "rdt"));
    simulator.unmount().unwrap();
}

#[test]
fn where_bandwidth_is_limited_in_bytes_it_is_left_as_it_is_and_that_is_said() {
    if !can_make_cgroups() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let simulator = match mount(Profile::amd_genoa(), folder.path()) {
        Ok(simulator) => simulator,
        Err(error) => return skip(error),
    };
    let text = format!(
        "benchmark: {{name: amd, max_t: 0.5, scheduler: {{implementation: rdt}}, {PLAIN}}}
a: {{index: 0, command: sleep 30, critical: true}}
b: {{index: 1, command: sleep 30}}
"
    );
    let bench = Bench::new().resctrl(folder.path());
    let (dir, _) = bench.run(&text).unwrap();
    simulator.unmount().unwrap();
    let events = dir.events().unwrap();
    let decisions = events.iter().filter_map(|event| match &event.kind {
        EventKind::Decision(decision) => Some(decision),
        _ => None,
    });
    let placed: Vec<&Decision> = decisions.collect();
    assert_eq!(placed.len(), 2, "{placed:#?}");
    for decision in placed {
        let limits = decision.evidence["schemata"].as_str().unwrap();
        assert!(limits.contains("L3:") && !limits.contains("MB:"), "{limits}");
        assert_eq!(decision.evidence["left_out"], serde_json::json!(["MB", "SMBA"]));
        assert!(decision.message.contains("MB and SMBA is left as it is"), "{}", decision.message);
    }
}
