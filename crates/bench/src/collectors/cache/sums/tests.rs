use super::*;
use crate::experiment::ContainerData;
use crate::roster::Allocation;
use crosstalk_host::{ControlGroup, HostRoot};
use crosstalk_model::{Comm, Placement, TaskReading};

const MS: u64 = 1_000_000;
const PERIOD: u64 = 50 * MS;

fn member(index: u32, rdt: bool) -> Member {
    Member {
        index,
        name: format!("c{index}").into(),
        round: 0,
        group: ControlGroup::named(&HostRoot::new("/nonexistent"), "none"),
        group_id: Some(100 + u64::from(index)),
        network_of: None,
        id: None,
        data: ContainerData { rdt, ..ContainerData::default() },
        allocation: Allocation::default(),
    }
}

fn process(pid: u32) -> ProcessId {
    ProcessId { pid, start_ns: 7 }
}

fn ran(pid: u32, cgroup_id: u64, slot_start_ns: u64) -> TaskRow {
    let task = TaskReading {
        slot_start_ns,
        process: process(pid),
        parent: None,
        comm: Comm::from_text("x"),
        core: 0,
        freq_mhz: None,
        cycles: None,
        instructions: None,
        llc_misses: None,
        on_cpu_ns: 1,
        runq_wait_ns: None,
        switches: 0,
        voluntary_switches: 0,
        page_faults: 0,
        migrations: None,
        multiplexed: None,
        cgroup_id,
    };
    TaskRow::new(task, Arc::new(Placement::default()))
}

/// A reading of its own group, which has the number of the process.
fn reading(pid: u32, slot_start_ns: u64, held: Option<u64>, moved: Option<u64>) -> CacheReading {
    CacheReading {
        slot_start_ns,
        read_at_ns: slot_start_ns + 5,
        process: process(pid),
        comm: Comm::from_text("x"),
        l3_domain: 0,
        llc_occupancy_bytes: held,
        mbm_total_bytes: moved,
        mbm_local_bytes: None,
        scope: CacheScope::Process,
        state: CacheState::Ok,
        group_id: pid,
        place: Default::default(),
    }
}

fn sums(members: Vec<Member>) -> Sums {
    let mut sums = Sums::new(Duration::from_nanos(PERIOD));
    sums.know(members);
    sums
}

#[test]
fn a_container_has_the_sum_of_its_processes_and_of_no_other() {
    let mut sums = sums(vec![member(0, true), member(1, false)]);
    for (pid, cgroup) in [(1, 100), (2, 100), (3, 101), (4, 999)] {
        sums.ran(&ran(pid, cgroup, 0));
        sums.read(&reading(pid, MS, Some(1_000), Some(10)));
        sums.read(&reading(pid, 2 * MS, Some(2_000), Some(20)));
    }
    let rows = sums.rest();
    assert_eq!(rows.len(), 1, "the second is not collected, the fourth nobody's: {rows:?}");
    let row = &rows[0];
    assert_eq!((row.index, &*row.container, row.processes, row.left_out), (0, "c0", 2, 0));
    assert_eq!((row.llc_occupancy_bytes, row.mbm_total_bytes), (Some(4_000), Some(60)));
    assert_eq!(row.mbm_local_bytes, None, "what was not read is absent");
    assert_eq!((row.slot_start_ns, row.covers_ns), (49 * MS, PERIOD));
}

#[test]
fn a_value_told_of_several_processes_counts_once_and_one_shared_with_strangers_not_at_all() {
    let mut sums = sums(vec![member(0, true)]);
    for pid in 1..=4 {
        sums.ran(&ran(pid, 100, 0));
    }
    for pid in 1..=2 {
        let row = reading(pid, MS, Some(1_000), Some(10));
        sums.read(&CacheReading { group_id: 50, scope: CacheScope::Container, ..row });
    }
    let other = CacheReading { l3_domain: 1, group_id: 50, ..reading(1, MS, Some(500), Some(5)) };
    sums.read(&CacheReading { scope: CacheScope::Container, ..other });
    for pid in 3..=4 {
        let row = reading(pid, MS, Some(9_000_000), Some(90_000));
        sums.read(&CacheReading { group_id: 60, scope: CacheScope::Shared, ..row });
    }
    let row = sums.rest().remove(0);
    assert_eq!((row.llc_occupancy_bytes, row.mbm_total_bytes), (Some(1_500), Some(15)));
    assert_eq!((row.processes, row.left_out), (2, 2));
}

#[test]
fn who_is_only_measured_with_others_has_no_value_but_is_told_of() {
    let mut sums = sums(vec![member(0, true)]);
    sums.ran(&ran(1, 100, 0));
    let row = reading(1, MS, Some(9), Some(9));
    sums.read(&CacheReading { scope: CacheScope::Shared, ..row });
    let row = sums.rest().remove(0);
    assert_eq!((row.processes, row.left_out), (0, 1));
    assert_eq!((row.llc_occupancy_bytes, row.mbm_total_bytes), (None, None));
}

#[test]
fn an_occupancy_counts_until_it_is_a_second_old() {
    let mut sums = sums(vec![member(0, true)]);
    for pid in 1..=2 {
        sums.ran(&ran(pid, 100, 0));
    }
    sums.read(&reading(2, MS, Some(7), None));
    for at in [10, 500, 1_040, 1_060] {
        sums.read(&reading(1, at * MS, Some(100), None));
    }
    let held: Vec<Option<u64>> = sums.rest().iter().map(|row| row.llc_occupancy_bytes).collect();
    assert_eq!(held, [Some(107), Some(107), Some(100), Some(100)]);
}

#[test]
fn a_period_is_told_when_it_is_over_and_what_comes_later_is_in_the_next() {
    let mut sums = sums(vec![member(0, true)]);
    sums.ran(&ran(1, 100, 0));
    sums.read(&reading(1, MS, None, Some(1)));
    assert_eq!(sums.ready(), [], "more may come");
    sums.ran(&ran(9, 999, 1_100 * MS));
    let moved = |rows: Vec<ContainerCacheRow>| -> Vec<(u64, Option<u64>)> {
        rows.iter().map(|row| (row.slot_start_ns / MS, row.mbm_total_bytes)).collect()
    };
    assert_eq!(moved(sums.ready()), [(49, Some(1))]);
    // It has ended and is on nobody's list any more.
    sums.know(Vec::new());
    sums.read(&reading(1, 2 * MS, None, Some(2)));
    sums.read(&reading(1, 60 * MS, None, Some(4)));
    assert_eq!(moved(sums.rest()), [(99, Some(6))]);
}

#[test]
fn processes_that_are_remembered_are_bounded_and_the_resting_make_room() {
    let mut sums = sums(vec![member(0, true)]);
    for pid in 0..MOST_PROCESSES as u32 + 10 {
        sums.ran(&ran(pid, 100, 0));
    }
    assert_eq!(sums.processes.len(), MOST_PROCESSES);
    sums.ran(&ran(u32::MAX, 100, FORGET_NS));
    assert_eq!(sums.processes.len(), 1);
}
