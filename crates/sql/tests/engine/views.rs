//! Views over recordings that say what the simulator does not: other slots, pods, caches and losses.

use crate::support::*;
use crosstalk_model::{CacheReading, CacheScope, CacheState, Comm, Placement, SlotCoverage};
use crosstalk_recording::Format;
use crosstalk_sql::views::VIEWS;
use crosstalk_sql::{Options, Session};
use std::path::Path;
use tokio::runtime::Runtime;

const MS: u64 = 1_000_000;

fn answer(out: &Path, query: &str) -> Vec<String> {
    let runtime = Runtime::new().unwrap();
    let session = runtime.block_on(Session::open(&place(out), &Options::default())).unwrap();
    ask(&runtime, &session, query).unwrap()
}

/// In each of ten slots one runs on core 1; on core 0 two take turns of a slot, and wait for as long.
fn take_turns(out: &Path, node: &str, slot_ns: u64) {
    let mut recording = RowByRow::create(out, node, slot_ns);
    let nowhere = Placement::default();
    let mut rows = Vec::new();
    for slot in 0..10 {
        let at = START + slot * slot_ns;
        let (turn, waited_ns) = (slot % 2, if slot == 0 { 0 } else { slot_ns });
        let who = [(1, "one"), (2, "two")][turn as usize];
        rows.push(ran(at, 0, who, slot_ns, waited_ns, &nowhere));
        rows.push(ran(at, 1, (3, "beside"), slot_ns, 0, &nowhere));
    }
    recording.put(&rows);
    recording.finish();
}

#[test]
fn slots_are_as_long_as_each_recording_says() {
    let out = tempfile::tempdir().unwrap();
    take_turns(out.path(), "slow", 10 * MS);
    let waited = "SELECT node, comm, holder, waited_ms FROM waited_for ORDER BY node, comm";
    assert_eq!(answer(out.path(), waited), ["slow,one,two,40.0", "slow,two,one,50.0"]);
    let beside =
        "SELECT node, comm, neighbour, beside_ms FROM neighbours ORDER BY node, comm, neighbour";
    assert_eq!(
        answer(out.path(), beside),
        [
            "slow,beside,one,50.0",
            "slow,beside,two,50.0",
            "slow,one,beside,50.0",
            "slow,two,beside,50.0"
        ]
    );
    // Others of another length in the same folder do not change it, nor are they changed.
    take_turns(out.path(), "fast", 100_000);
    take_turns(out.path(), "usual", MS);
    assert_eq!(
        answer(out.path(), waited),
        [
            "fast,one,two,0.4",
            "fast,two,one,0.5",
            "slow,one,two,40.0",
            "slow,two,one,50.0",
            "usual,one,two,4.0",
            "usual,two,one,5.0"
        ]
    );
    let sums = "SELECT node, round(sum(beside_ms), 6) FROM neighbours GROUP BY node ORDER BY node";
    assert_eq!(answer(out.path(), sums), ["fast,2.0", "slow,200.0", "usual,20.0"]);
}

#[test]
fn containers_of_one_name_in_two_pods_are_two() {
    let out = tempfile::tempdir().unwrap();
    let mut recording = RowByRow::create(out.path(), "a", MS);
    let app = |pod: &str| Placement {
        container_id: Some(format!("{pod}0123456789abcdef").into()),
        container_name: Some("app".into()),
        pod_namespace: Some("shop".into()),
        pod_name: Some(pod.into()),
        ..Placement::default()
    };
    // A container without a pod, and one that was started anew under its name.
    let alone = |id: &str| Placement {
        container_id: Some(id.into()),
        container_name: Some("db".into()),
        ..Placement::default()
    };
    recording.put(&[
        ran(START, 0, (1, "app"), 200_000, 0, &app("cart-1")),
        ran(START, 1, (2, "app"), 300_000, 0, &app("cart-2")),
        ran(START, 2, (3, "db"), 400_000, 0, &alone("first")),
        ran(START, 3, (4, "db"), 500_000, 0, &alone("second")),
        ran(START, 3, (5, "sh"), 100_000, 0, &Placement::default()),
        ran(START, 2, (6, "ps"), 100_000, 0, &Placement::default()),
    ]);
    recording.finish();
    let query = "SELECT container, pod_name, substr(container_id, 1, 6), processes, round(cores * 1e9) FROM per_container
        ORDER BY container, pod_name, container_id";
    assert_eq!(
        answer(out.path(), query),
        [
            "app,cart-1,cart-1,1,200000.0",
            "app,cart-2,cart-2,1,300000.0",
            "db,,first,1,400000.0",
            "db,,second,1,500000.0",
            ",,,2,200000.0"
        ]
    );
}

#[test]
fn what_a_process_held_of_the_cache_stands_beside_what_it_did() {
    let out = tempfile::tempdir().unwrap();
    let mut recording = RowByRow::create(out.path(), "a", MS);
    let nowhere = Placement::default();
    recording.put(&[
        ran(START, 0, (1, "nginx"), 300_000, 0, &nowhere),
        ran(START, 1, (1, "nginx"), 400_000, 0, &nowhere),
        ran(START + MS, 0, (1, "nginx"), 500_000, 0, &nowhere),
    ]);
    let held = |pid, comm, slot_start_ns, bytes| CacheReading {
        slot_start_ns,
        read_at_ns: slot_start_ns + MS,
        process: process(pid),
        comm: Comm::from_text(comm),
        l3_domain: 0,
        llc_occupancy_bytes: bytes,
        mbm_total_bytes: Some(4096),
        mbm_local_bytes: None,
        scope: CacheScope::Process,
        state: if bytes.is_some() { CacheState::Ok } else { CacheState::Unavailable },
        group_id: pid,
        place: Default::default(),
    };
    recording.put(&[
        held(1, "nginx", START, Some(1 << 20)),
        held(1, "nginx", START + MS, None),
        held(2, "idle", START, Some(4096)),
    ]);
    recording.finish();
    let query = "SELECT comm, state, llc_occupancy_bytes, mbm_total_bytes, mbm_local_bytes, on_cpu_ns FROM task_cache
        ORDER BY comm, slot_start_ns";
    assert_eq!(
        answer(out.path(), query),
        [
            "idle,ok,4096,4096,,0",
            "nginx,ok,1048576,4096,,700000",
            "nginx,unavailable,,4096,,500000"
        ]
    );
}

#[test]
fn losses_are_told_by_the_second_and_so_are_late_ticks() {
    let out = tempfile::tempdir().unwrap();
    let mut recording = RowByRow::create(out.path(), "a", MS);
    let good = |at, late| SlotCoverage {
        slot_start_ns: at,
        core: 0,
        idle_ns: Some(MS),
        events: 1,
        lost: 0,
        tick_late_ns: Some(late),
    };
    let second = 1_000 * MS;
    recording.put(&[
        good(START, 1_000),
        SlotCoverage::lost(START + second, 0, 3),
        SlotCoverage::lost(START + second + MS, 1, 4),
        good(START + 2 * second, 2_500_000),
    ]);
    recording.finish();
    let query = "SELECT second, lost_rows, latest_tick_ms FROM losses ORDER BY second";
    assert_eq!(
        answer(out.path(), query),
        ["2026-01-01T00:00:01Z,7,", "2026-01-01T00:00:02Z,0,2.5"]
    );
}

#[test]
fn every_view_is_asked_by_a_test() {
    let asked = [include_str!("views.rs"), include_str!("tables.rs")].concat();
    for view in VIEWS {
        assert!(asked.contains(&format!("FROM {}", view.name)), "{}", view.name);
    }
}

#[test]
fn a_pid_that_was_used_again_is_another_process_in_every_view() {
    let out = tempfile::tempdir().unwrap();
    let mut recording = RowByRow::create(out.path(), "a", MS);
    let web = Placement { container_name: Some("web".into()), ..Placement::default() };
    let again = |at, core, who, on_cpu_ns, waited_ns| {
        let mut row = ran(at, core, who, on_cpu_ns, waited_ns, &web);
        row.task.process.start_ns += 5_000 * MS;
        row
    };
    // Core 0: the first of the pid, then the one that follows it, which waited for it. Core 1: somebody beside both.
    recording.put(&[
        ran(START, 0, (7, "old"), MS, 0, &web),
        again(START + MS, 0, (7, "new"), MS, MS),
        ran(START, 1, (8, "beside"), MS, 0, &web),
        ran(START + MS, 1, (8, "beside"), MS, 0, &web),
    ]);
    recording.finish();
    let starts = "process_start_ns % 10000000000 / 1000000000";
    assert_eq!(
        answer(
            out.path(),
            &format!(
                "SELECT comm, {starts}, neighbour, beside_ms FROM neighbours ORDER BY comm, neighbour"
            )
        ),
        ["beside,0,new,1.0", "beside,0,old,1.0", "new,5,beside,1.0", "old,0,beside,1.0"]
    );
    let waited = "SELECT comm, pid, holder, holder_pid, waited_ms FROM waited_for";
    assert_eq!(answer(out.path(), waited), ["new,7,old,7,1.0"]);
    assert_eq!(answer(out.path(), "SELECT processes FROM per_container"), ["3"]);
}

#[test]
fn of_a_stretch_that_is_asked_of_a_view_only_those_rows_are_read_that_can_lie_in_it() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 1, 3, Format::Parquet);
    let runtime = Runtime::new().unwrap();
    let session = runtime.block_on(Session::open(&place(out.path()), &Options::default())).unwrap();
    let ask = |query: &str| ask(&runtime, &session, query).unwrap();
    let within = "WHERE second >= '2026-01-01T00:00:01Z' AND second < '2026-01-01T00:00:02Z'";
    for view in ["per_second", "per_container", "neighbours", "waited_for"] {
        let plan = ask(&format!("EXPLAIN SELECT * FROM {view} {within}")).join("\n");
        // Least and greatest times of files and groups of rows are asked for.
        for bound in ["time_max@", "time_min@"] {
            assert!(plan.contains(bound), "{view}: {plan}");
        }
    }
    let of = |query: &str| ask(&format!("SELECT count(*), round(sum(cores), 6) FROM ({query})"));
    let cut = "SELECT * FROM per_second";
    let rows = of(&format!("{cut} {within}"));
    let by_hand = "WHERE to_char(second, '%S') = '01'";
    assert_eq!(rows, of(&format!("{cut} {by_hand}")), "none is left out");
}
