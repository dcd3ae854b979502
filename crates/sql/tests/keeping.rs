//! Compaction and roll-ups keep every row, and every sum.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use crosstalk_recording::{Format, Patience, Reader};
use crosstalk_sql::compact::{Outcome, compact};
use crosstalk_sql::rollup::rollup;
use crosstalk_sql::{Options, Session};
use std::fs;
use support::*;
use tokio::runtime::Runtime;

const ALL: &str = "SELECT node, run, pid, comm, count(*), sum(on_cpu_ns), sum(runq_wait_ns), sum(cycles), \
    min(time), max(slot_start_ns) FROM tasks GROUP BY node, run, pid, comm ORDER BY node, pid";

#[test]
fn many_files_become_one_a_day_sorted_and_no_row_is_lost_or_doubled() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 2, 3, Format::Parquet);
    // Three seconds more of the same runs, in CSV, as if the recorder had begun a new file.
    let more = tempfile::tempdir().unwrap();
    simulate(more.path(), 2, 4, Format::Csv);
    for ending in [".csv", ".json"] {
        for file in files(more.path(), ending) {
            let name =
                file.file_name().unwrap().to_str().unwrap().replace("000000.000Z", "000001.000Z");
            let there = file.strip_prefix(more.path()).unwrap();
            fs::copy(&file, out.path().join(there).with_file_name(name)).unwrap();
        }
    }
    let runtime = Runtime::new().unwrap();
    let open = || runtime.block_on(Session::open(&place(out.path()), &Options::default())).unwrap();
    let before = ask(&runtime, &open(), ALL).unwrap();
    let left = out.path().join("tasks/node=sim-0000/.rubbish.compacting");
    fs::create_dir_all(&left).unwrap();
    let outcomes = runtime.block_on(compact(
        out.path().to_str().unwrap(),
        &Options::default(),
        Patience::default(),
    ));
    for outcome in outcomes.unwrap() {
        let Outcome::Merged { files, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(files, (2, 1));
    }
    assert_eq!(ask(&runtime, &open(), ALL).unwrap(), before);
    assert_eq!(files(&out.path().join("tasks"), ".csv").len(), 0);
    let reader = Reader::open(place(out.path())).unwrap();
    let file = reader.scan("tasks").chosen()[0].clone();
    assert!(file.metadata().unwrap().get("topology").is_some());
    let again = runtime
        .block_on(compact(out.path().to_str().unwrap(), &Options::default(), Patience::default()))
        .unwrap();
    assert!(again.iter().all(|one| matches!(one, Outcome::Left { .. })), "{again:?}");
}

#[test]
fn a_folder_that_is_being_written_or_holds_a_strangers_file_is_left_alone() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 1, 1, Format::Csv);
    let tasks = files(&out.path().join("tasks"), ".csv").remove(0);
    fs::write(tasks.with_file_name("notes.txt"), "mine").unwrap();
    let slots = files(&out.path().join("slots"), ".csv").remove(0);
    fs::rename(&slots, slots.with_extension("csv.part")).unwrap();
    fs::rename(slots.with_extension("json"), slots.with_extension("json.part")).unwrap();
    let runtime = Runtime::new().unwrap();
    let outcomes = runtime.block_on(compact(
        out.path().to_str().unwrap(),
        &Options::default(),
        Patience::default(),
    ));
    let left: Vec<String> = outcomes
        .unwrap()
        .into_iter()
        .filter_map(|one| match one {
            Outcome::Left { folder, because } => Some(format!("{}: {because}", folder.display())),
            Outcome::Merged { .. } => None,
        })
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[0].contains("slots") && left[0].contains("being recorded"), "{left:?}");
    assert!(left[1].contains("notes.txt"), "{left:?}");
    assert!(tasks.exists());
}

#[test]
fn sums_of_seconds_and_minutes_are_those_of_the_rows_and_nothing_is_summed_twice() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 2, 3, Format::Parquet);
    let at = out.path().to_str().unwrap();
    let done = rollup(at, None, None).unwrap();
    assert_eq!(done.len(), 2);
    assert!(done.iter().all(|one| one.unread.is_empty() && one.minutes.0 > 0), "{done:?}");
    let again = rollup(at, None, None).unwrap();
    assert!(again.iter().all(|one| one.files == 0), "{again:?}");
    let runtime = Runtime::new().unwrap();
    // Merged files are those that were summed up.
    runtime.block_on(compact(at, &Options::default(), Patience::default())).unwrap();
    assert!(rollup(at, None, None).unwrap().iter().all(|one| one.files == 0));
    let session = runtime.block_on(Session::open(&place(out.path()), &Options::default())).unwrap();
    let sums = |table: &str, count: &str| {
        let query = format!(
            "SELECT node, pid, max(comm), {count}, sum(on_cpu_ns), sum(runq_wait_ns), sum(instructions)
             FROM {table} GROUP BY node, pid ORDER BY node, pid"
        );
        ask(&runtime, &session, &query).unwrap()
    };
    let busy = "SELECT count(*) FROM (SELECT DISTINCT node, pid, date_trunc('second', time) AS s FROM tasks)";
    let seconds: u64 = done.iter().map(|one| one.seconds.0).sum();
    assert_eq!(ask(&runtime, &session, busy).unwrap(), [seconds.to_string()]);
    assert_eq!(sums("tasks", "count(*)"), sums("tasks_per_second", "sum(rows)"));
    assert_eq!(sums("tasks", "count(*)"), sums("tasks_per_minute", "sum(rows)"));
    let exact = "SELECT approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY on_cpu_ns) FROM tasks \
        WHERE comm = 'victim' AND node = 'sim-0000'";
    let sketched =
        "SELECT on_cpu_p50_ns FROM tasks_per_minute WHERE comm = 'victim' AND node = 'sim-0000'";
    let number = |query: &str| ask(&runtime, &session, query).unwrap()[0].parse::<f64>().unwrap();
    let (exact, sketched) = (number(exact), number(sketched));
    assert!((exact / sketched - 1.0).abs() < 0.05, "{exact} {sketched}");
    // Simulated time is long ago: everything is older than a day, and its sums stay.
    let removed = rollup(at, None, Some(u64::MAX / 4)).unwrap();
    assert_eq!(removed.iter().map(|one| one.removed.len()).sum::<usize>(), 2);
    assert!(files(&out.path().join("tasks"), ".parquet").is_empty());
    assert!(!files(&out.path().join("tasks_per_second"), ".parquet").is_empty());
}
