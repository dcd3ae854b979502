//! Compaction and roll-ups keep every row, and every sum.

use crate::support::*;
use crosstalk_model::{CacheReading, CacheScope, CacheState, Comm};
use crosstalk_recording::{Format, Patience, Reader, RecordedFile};
use crosstalk_sql::compact::{Outcome, compact};
use crosstalk_sql::rollup::{Keep, RolledUp, rollup};
use crosstalk_sql::{Options, Session};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use rustix::fs::{FlockOperation, flock};
use std::fs;
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;

const ALL: &str = "SELECT node, run, pid, comm, count(*), sum(on_cpu_ns), sum(runq_wait_ns), sum(cycles), \
    min(time), max(slot_start_ns) FROM tasks GROUP BY node, run, pid, comm ORDER BY node, pid";

/// Of what was recorded.
const NOTHING: Keep = Keep { rows_from_ns: Some(u64::MAX / 4), seconds_from_ns: None };

fn tasks_removed(one: &RolledUp) -> usize {
    one.removed.iter().filter(|path| path.to_str().unwrap().contains("/tasks/")).count()
}

#[test]
fn many_files_become_one_a_day_sorted_and_no_row_is_lost_or_doubled() {
    let out = tempfile::tempdir().unwrap();
    of_two_files_each(out.path());
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
    reader.scan("tasks").chosen().iter().for_each(|file| is_sorted(file));
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
    let done = rollup(at, None, Keep::default(), Patience::default()).unwrap();
    let of: Vec<&str> = done.iter().map(|one| one.dataset.as_str()).collect();
    assert_eq!(of, ["tasks", "tasks", "slots", "slots"]);
    assert!(done.iter().all(|one| one.unread.is_empty() && one.minutes.0 > 0), "{done:?}");
    let again = rollup(at, None, Keep::default(), Patience::default()).unwrap();
    assert!(again.iter().all(|one| one.files == 0), "{again:?}");
    let runtime = Runtime::new().unwrap();
    // Merged files are those that were summed up.
    runtime.block_on(compact(at, &Options::default(), Patience::default())).unwrap();
    assert!(
        rollup(at, None, Keep::default(), Patience::default())
            .unwrap()
            .iter()
            .all(|one| one.files == 0)
    );
    let session = runtime.block_on(Session::open(&place(out.path()), &Options::default())).unwrap();
    let sums = |table: &str, count: &str| {
        let query = format!(
            "SELECT node, pid, max(comm), {count}, sum(on_cpu_ns), sum(runq_wait_ns), sum(instructions)
             FROM {table} GROUP BY node, pid ORDER BY node, pid"
        );
        ask(&runtime, &session, &query).unwrap()
    };
    let busy = "SELECT count(*) FROM (SELECT DISTINCT node, pid, date_trunc('second', time) AS s FROM tasks)";
    let seconds: u64 = done[..2].iter().map(|one| one.seconds.0).sum();
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
    let removed = rollup(at, None, NOTHING, Patience::default()).unwrap();
    assert_eq!(removed.iter().map(tasks_removed).sum::<usize>(), 2);
    for dataset in ["tasks", "slots", "probe", "steal"] {
        assert!(files(&out.path().join(dataset), "").is_empty(), "{dataset}");
    }
    assert!(!files(&out.path().join("tasks_per_second"), ".parquet").is_empty());
}

#[test]
fn what_is_being_merged_is_not_removed_and_the_next_call_removes_it() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 2, 1, Format::Parquet);
    let at = out.path().to_str().unwrap();
    // As a compact of this node's tasks does.
    let merging = fs::File::open(out.path().join("tasks/node=sim-0000")).unwrap();
    flock(&merging, FlockOperation::NonBlockingLockExclusive).unwrap();
    let done = rollup(at, None, NOTHING, Patience::default()).unwrap();
    assert_eq!(done.iter().map(tasks_removed).collect::<Vec<_>>(), [0, 1, 0, 0], "{done:?}");
    assert!(done[0].unread[0].contains("node=sim-0000: a compact is at work"), "{done:?}");
    drop(merging);
    let done = rollup(at, None, NOTHING, Patience::default()).unwrap();
    assert_eq!(done.iter().map(tasks_removed).sum::<usize>(), 1, "{done:?}");
    assert!(files(&out.path().join("tasks"), "").is_empty());
}

#[test]
fn a_run_over_midnight_is_merged_once() {
    let out = tempfile::tempdir().unwrap();
    simulate_from(START - 1_000_000_000, out.path(), 1, 2, Format::Csv);
    let at = out.path().to_str().unwrap();
    let runtime = Runtime::new().unwrap();
    let compacted =
        || runtime.block_on(compact(at, &Options::default(), Patience::default())).unwrap();
    for outcome in compacted() {
        let Outcome::Merged { files, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(files, (1, 2));
    }
    for outcome in compacted() {
        let Outcome::Left { because, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(because, "it is one file a day already");
    }
}

/// Two seconds of a run in a file of Parquet, and two more in one of CSV elsewhere, with where it would have been written.
struct InTwoFiles {
    out: tempfile::TempDir,
    _more: tempfile::TempDir,
    later: Vec<(PathBuf, PathBuf)>,
}

impl InTwoFiles {
    fn new() -> Self {
        let (out, more) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        simulate(out.path(), 1, 2, Format::Parquet);
        simulate_from(START + 2_000_000_000, more.path(), 1, 2, Format::Csv);
        let run = files(&out.path().join("tasks"), ".parquet").remove(0);
        let later = ["csv", "json"].map(|ending| {
            let file = files(&more.path().join("tasks"), ending).remove(0);
            let there = run.with_file_name(file.file_name().unwrap());
            (file, there)
        });
        Self { out, _more: more, later: later.to_vec() }
    }

    fn add_later(&self) {
        for (from, to) in &self.later {
            fs::copy(from, to).unwrap();
        }
    }
}

const SUMS: &str = "sum(on_cpu_ns), sum(runq_wait_ns) FROM";

fn sums(out: &Path) -> [Vec<String>; 3] {
    let runtime = Runtime::new().unwrap();
    let session = runtime.block_on(Session::open(&place(out), &Options::default())).unwrap();
    let sum = |rows: &str, table: &str| {
        ask(&runtime, &session, &format!("SELECT {rows}, {SUMS} {table}")).unwrap()
    };
    [
        sum("count(*)", "tasks"),
        sum("sum(rows)", "tasks_per_second"),
        sum("sum(rows)", "tasks_per_minute"),
    ]
}

#[test]
fn what_was_merged_with_summed_files_is_summed_again_and_counted_once() {
    let two = InTwoFiles::new();
    let (out, at) = (&two.out, two.out.path().to_str().unwrap());
    rollup(at, None, Keep::default(), Patience::default()).unwrap();
    two.add_later();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(compact(at, &Options::default(), Patience::default())).unwrap();
    let done = rollup(at, None, Keep::default(), Patience::default()).unwrap();
    assert_eq!((done[0].files, &done[0].unread), (1, &Vec::new()));
    let [rows, seconds, minutes] = sums(out.path());
    assert_eq!((&rows, &rows), (&seconds, &minutes));
    assert_eq!(rollup(at, None, Keep::default(), Patience::default()).unwrap()[0].files, 0);
    // Merged sums know what all of them are of.
    runtime.block_on(compact(at, &Options::default(), Patience::default())).unwrap();
    assert_eq!(rollup(at, None, Keep::default(), Patience::default()).unwrap()[0].files, 0);
    assert_eq!(sums(out.path()), [rows, seconds, minutes]);
}

#[test]
fn a_file_that_cannot_be_read_is_neither_summed_nor_removed_until_it_can() {
    let two = InTwoFiles::new();
    let (out, at) = (&two.out, two.out.path().to_str().unwrap());
    two.add_later();
    let csv = &two.later[0].1;
    let whole = fs::read_to_string(csv).unwrap();
    // Well begun, and then no number where one should be.
    let (begun, rest) = whole.split_at(whole.len() / 2);
    fs::write(csv, format!("{begun}\nnot,a,row\n{rest}")).unwrap();
    let done = rollup(at, None, NOTHING, Patience::default()).unwrap();
    assert_eq!((done[0].files, tasks_removed(&done[0])), (1, 1), "{done:?}");
    assert!(done[0].unread[0].contains(csv.to_str().unwrap()), "{done:?}");
    assert!(csv.exists());
    let [_, before, _] = sums(out.path());
    fs::write(csv, whole).unwrap();
    assert_eq!(rollup(at, None, Keep::default(), Patience::default()).unwrap()[0].files, 1);
    let [later, seconds, minutes] = sums(out.path());
    let number = |text: &[String]| text[0].split(',').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(number(&seconds), number(&before) + number(&later));
    assert_eq!(seconds, minutes);
    assert!(files(out.path(), ".new").is_empty());
}

#[test]
fn two_merges_of_the_same_folders_at_once_lose_and_double_no_row() {
    for _ in 0..3 {
        let out = tempfile::tempdir().unwrap();
        of_two_files_each(out.path());
        let at = out.path().to_str().unwrap();
        let runtime = Runtime::new().unwrap();
        let all = || {
            let session = runtime.block_on(Session::open(&place(out.path()), &Options::default()));
            ask(&runtime, &session.unwrap(), ALL).unwrap()
        };
        let before = all();
        std::thread::scope(|scope| {
            let both = [(); 2].map(|()| {
                scope.spawn(|| {
                    let own = Runtime::new().unwrap();
                    own.block_on(compact(at, &Options::default(), Patience::default()))
                })
            });
            for one in both {
                one.join().unwrap().unwrap();
            }
        });
        assert_eq!(all(), before);
        runtime.block_on(compact(at, &Options::default(), Patience::default())).unwrap();
        assert_eq!(all(), before);
        assert_eq!(files(&out.path().join("tasks"), "").len(), 2, "one of each node");
    }
}

#[test]
fn minutes_whose_seconds_were_never_written_are_summed_up_again_and_counted_once() {
    let two = InTwoFiles::new();
    let (out, at) = (&two.out, two.out.path().to_str().unwrap());
    rollup(at, None, Keep::default(), Patience::default()).unwrap();
    // As a full disk or a kill leaves it: minutes are whole, seconds are not.
    let seconds = files(&out.path().join("tasks_per_second"), ".parquet").remove(0);
    fs::rename(&seconds, seconds.with_extension("parquet.new")).unwrap();
    two.add_later();
    assert_eq!(rollup(at, None, Keep::default(), Patience::default()).unwrap()[0].files, 2);
    let [rows, seconds, minutes] = sums(out.path());
    assert_eq!((&rows, &rows), (&seconds, &minutes));
    assert!(files(out.path(), ".new").is_empty());
}

const HOUR: u64 = 3_600_000_000_000;

/// A second of tasks; how many rows it has.
fn record_hour(out: &Path, hour: u64) -> u64 {
    let file = simulate_hour(out, hour);
    let reader = Reader::open([file.to_str().unwrap()]).unwrap();
    reader.files()[0].rows().unwrap().unwrap()
}

fn run_folder(out: &Path, day: u64) -> PathBuf {
    out.join(format!("tasks/node=a/run=r/date=2026-01-{:02}", day + 1))
}

#[test]
fn night_after_night_a_day_is_summed_up_at_most_twice_and_every_row_once() {
    let out = tempfile::tempdir().unwrap();
    let at = out.path().to_str().unwrap();
    let runtime = Runtime::new().unwrap();
    let (mut rows, mut removed) = (record_hour(out.path(), 0), 0);
    for night in 1..=10 {
        rows += record_hour(out.path(), 24 * night - 12);
        rows += record_hour(out.path(), 24 * night);
        // What is being recorded: the day is not merged yet.
        let open = run_folder(out.path(), night).join("hour=01/tasks-later.csv.part");
        fs::create_dir_all(open.parent().unwrap()).unwrap();
        fs::write(&open, "").unwrap();
        runtime.block_on(compact(at, &Options::default(), Patience::default())).unwrap();
        let keep_from = START + (24 * night).saturating_sub(24 * 3) * HOUR;
        let done = rollup(
            at,
            None,
            Keep { rows_from_ns: Some(keep_from), ..Keep::default() },
            Patience::default(),
        )
        .unwrap();
        assert!(done[0].unread.is_empty(), "night {night}: {done:?}");
        assert!(done[0].files <= 2, "night {night}: {done:?}");
        removed += tasks_removed(&done[0]);
        fs::remove_file(&open).unwrap();
    }
    assert_eq!(removed, 7, "every day older than three");
    let [_, seconds, minutes] = sums(out.path());
    assert_eq!(seconds[0].split(',').next().unwrap(), rows.to_string());
    assert_eq!(seconds, minutes);
}

#[test]
fn seconds_that_are_not_kept_leave_minutes_and_what_is_summed_up() {
    let two = InTwoFiles::new();
    let (out, at) = (&two.out, two.out.path().to_str().unwrap());
    rollup(at, None, Keep::default(), Patience::default()).unwrap();
    let [rows, _, _] = sums(out.path());
    let keep = Keep { seconds_from_ns: Some(u64::MAX / 4), ..NOTHING };
    let done = rollup(at, None, keep, Patience::default()).unwrap();
    assert!(done[0].removed.iter().any(|path| path.to_str().unwrap().contains("per_second")));
    let all = || {
        let runtime = Runtime::new().unwrap();
        let session = runtime.block_on(Session::open(&place(out.path()), &Options::default()));
        let session = session.unwrap();
        ["second", "minute"].map(|period| {
            let query = format!("SELECT coalesce(sum(rows), 0) FROM tasks_per_{period}");
            ask(&runtime, &session, &query).unwrap().remove(0)
        })
    };
    let rows = rows[0].split(',').next().unwrap().to_owned();
    assert_eq!(all(), ["0".to_owned(), rows.clone()]);
    // Nothing counts as cut off, or as new.
    assert_eq!(
        rollup(at, None, keep, Patience::default())
            .unwrap()
            .iter()
            .map(|one| one.files)
            .sum::<usize>(),
        0
    );
    assert_eq!(all(), ["0".to_owned(), rows]);
}

#[test]
fn a_quantile_over_sketches_is_that_of_the_rows_within_a_hundredth() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 2, 3, Format::Parquet);
    rollup(out.path().to_str().unwrap(), None, Keep::default(), Patience::default()).unwrap();
    let runtime = Runtime::new().unwrap();
    let session = runtime.block_on(Session::open(&place(out.path()), &Options::default())).unwrap();
    let numbers = |query: &str| -> Vec<f64> {
        let rows = ask(&runtime, &session, query).unwrap();
        rows.iter().map(|row| row.parse().unwrap()).collect()
    };
    // Slots in which no wait ended are in no sketch of waits.
    for (of, column, least) in [("on_cpu", "on_cpu_ns", 0), ("wait", "runq_wait_ns", 1)] {
        let exact = numbers(&format!(
            "SELECT {column} FROM tasks WHERE {column} >= {least} AND comm IN ('redis', 'cc1') ORDER BY {column}"
        ));
        assert!(exact.len() > 100, "{of}: {}", exact.len());
        for at in [0.1, 0.5, 0.9, 0.99] {
            for table in ["tasks_per_second", "tasks_per_minute"] {
                let merged = numbers(&format!(
                    "SELECT sketch_quantile({of}_sketch, {at}) FROM {table} WHERE comm IN ('redis', 'cc1')"
                ))[0];
                let true_one = exact[((exact.len() - 1) as f64 * at) as usize];
                assert!(
                    (merged / true_one - 1.0).abs() < 0.011,
                    "{of} {at} {table}: {merged} {true_one}"
                );
            }
        }
    }
    let none =
        "SELECT sketch_quantile(wait_sketch, 0.5) IS NULL FROM tasks_per_minute WHERE pid < 0";
    assert_eq!(ask(&runtime, &session, none).unwrap(), ["true"]);
    let wrong = "SELECT sketch_quantile(wait_sketch, 99) FROM tasks_per_minute";
    let error = ask(&runtime, &session, wrong).unwrap_err().to_string();
    assert!(error.contains("99 is no quantile"), "{error}");
}

/// Whether a merged file has its rows by second, and those of one by process and core.
fn is_sorted(file: &RecordedFile) {
    let columns = ["slot_start_ns", "pid", "process_start_ns", "cgroup_id", "core"];
    let (mut last, mut rows) = ([i64::MIN; 6], 0);
    for piece in file.scan().columns(columns).pieces() {
        let batch = piece.unwrap().batch;
        let number = |name: &str, row: usize| {
            batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().value(row)
        };
        for row in 0..batch.num_rows() {
            let slot = number("slot_start_ns", row);
            let [_, pid, start, cgroup, core] = columns.map(|name| number(name, row));
            let key = [slot / 1_000_000_000, pid, start, cgroup, core, slot];
            assert!(last <= key, "{}: {last:?} before {key:?}", file.path);
            (last, rows) = (key, rows + 1);
        }
    }
    assert!(rows > 1_000, "{}: {rows}", file.path);
}

#[test]
fn what_is_more_than_can_be_sorted_at_once_is_merged_in_stretches_and_sorted_all_the_same() {
    let out = tempfile::tempdir().unwrap();
    record_long(out.path());
    // More of the run, from its middle on, as a recorder that was late leaves it.
    let more = tempfile::tempdir().unwrap();
    simulate_from(START + 120_000_000_000, more.path(), 1, 10, Format::Parquet);
    let run = files(&out.path().join("tasks"), ".parquet").remove(0);
    let late = files(&more.path().join("tasks"), ".parquet").remove(0);
    fs::copy(&late, run.with_file_name(late.file_name().unwrap())).unwrap();
    let runtime = Runtime::new().unwrap();
    let tight = Options { memory: 48 << 20, ..Options::default() };
    let all = || {
        let session = runtime.block_on(Session::open(&place(out.path()), &tight)).unwrap();
        ask(&runtime, &session, ALL).unwrap()
    };
    let before = all();
    let at = out.path().join("tasks");
    let outcomes = runtime.block_on(compact(at.to_str().unwrap(), &tight, Patience::default()));
    let [Outcome::Merged { files, rows, .. }] = &outcomes.unwrap()[..] else { panic!() };
    // Half a million rows at once with 512 MiB.
    assert!(*files == (2, 1) && *rows > 4 * 500_000 * 48 / 512, "{files:?} {rows}");
    assert_eq!(all(), before);
    let reader = Reader::open(place(&at)).unwrap();
    assert_eq!(reader.files().len(), 1);
    is_sorted(&reader.files()[0]);
}

#[test]
fn what_was_lost_and_what_was_held_of_the_cache_is_known_when_the_rows_are_gone() {
    let out = tempfile::tempdir().unwrap();
    record_lossy(out.path(), 3);
    record_cache(out.path());
    let at = out.path().to_str().unwrap();
    let runtime = Runtime::new().unwrap();
    let ask = |query: &str| {
        let session = runtime.block_on(Session::open(&place(out.path()), &Options::default()));
        ask(&runtime, &session.unwrap(), query).unwrap()
    };
    let slots = |table: &str, rows: &str| {
        ask(&format!(
            "SELECT node, core, {rows}, sum(idle_ns), sum(events), sum(lost) FROM {table} GROUP BY node, core ORDER BY core"
        ))
    };
    let cache = |table: &str, rows: &str| {
        ask(&format!(
            "SELECT pid, l3_domain, group_id, {rows}, sum(mbm_total_bytes), sum(mbm_local_bytes) FROM {table} GROUP BY pid, l3_domain, group_id ORDER BY pid"
        ))
    };
    let (lost, held) = (slots("slots", "count(*)"), cache("cache", "count(*)"));
    assert!(lost.iter().any(|row| !row.ends_with(",0")), "{lost:?}");
    assert_eq!(held, ["1,0,11,100,409600,", "2,0,12,100,,"]);
    let greatest = "SELECT max(llc_occupancy_bytes), min(llc_occupancy_bytes) FROM cache";
    assert_eq!(ask(greatest), ["100000,1000"]);
    let done = rollup(at, None, NOTHING, Patience::default()).unwrap();
    assert!(done.iter().all(|one| one.unread.is_empty()), "{done:?}");
    for dataset in ["tasks", "slots", "cache", "probe", "steal"] {
        assert!(files(&out.path().join(dataset), ".parquet").is_empty(), "{dataset}");
    }
    for period in ["second", "minute"] {
        assert_eq!(slots(&format!("slots_per_{period}"), "sum(rows)"), lost);
        assert_eq!(cache(&format!("cache_per_{period}"), "sum(rows)"), held);
    }
    let sketched = "SELECT round(llc_occupancy_p50_bytes / 50500, 1), llc_occupancy_max_bytes, comm, scope FROM cache_per_minute WHERE pid = 1";
    assert_eq!(ask(sketched), ["1.0,100000.0,nginx,process"]);
    // Of whom nothing was measured nothing is said.
    let absent = "SELECT llc_occupancy_max_bytes IS NULL, llc_occupancy_sketch IS NULL FROM cache_per_minute WHERE pid = 2";
    assert_eq!(ask(absent), ["true,true"]);
    assert!(rollup(at, None, NOTHING, Patience::default()).is_ok());
}

/// What two processes held of the cache, 100 times; of the second nothing was measured.
fn record_cache(out: &Path) {
    let mut recording = RowByRow::create(out, "cached", 1_000_000);
    let row = |pid: u32, slot: u64| CacheReading {
        slot_start_ns: START + slot * 1_000_000,
        read_at_ns: START + slot * 1_000_000 + 900_000,
        process: process(pid),
        comm: Comm::from_text("nginx"),
        l3_domain: 0,
        llc_occupancy_bytes: (pid == 1).then_some(1_000 * (slot + 1)),
        mbm_total_bytes: (pid == 1).then_some(4_096),
        mbm_local_bytes: None,
        scope: CacheScope::Process,
        state: CacheState::Ok,
        group_id: 10 + pid,
        place: Default::default(),
    };
    for pid in [1, 2] {
        recording.put(&(0..100).map(|slot| row(pid, slot)).collect::<Vec<_>>());
    }
    recording.finish();
}
