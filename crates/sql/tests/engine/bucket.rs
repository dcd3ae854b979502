//! Compaction in an object store: every row is read once at every step, whoever is killed.

use crate::support::front::{Denied, Front, GONE};
use crate::support::*;
use crosstalk_recording::{Format, ParquetFile, Reader};
use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch, TimestampMicrosecondArray};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::Int64Type;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const ALL: &str = "SELECT node, run, pid, comm, count(*), sum(on_cpu_ns), sum(runq_wait_ns), sum(cycles), \
    min(time), max(slot_start_ns) FROM tasks GROUP BY node, run, pid, comm ORDER BY node, pid";

fn all(address: &str) -> String {
    printed(program().args(["sql", "s3://cluster/rec", ALL, "--format", "csv"]).envs(keys(address)))
}

fn compact(address: &str, more: &[&str]) -> Command {
    let mut command = program();
    command.args(["compact", "s3://cluster/rec"]).args(more).envs(keys(address));
    command
}

/// One Parquet object in each folder, and nothing else.
fn is_merged(address: &str) -> bool {
    let names = names(address);
    let mut folders: Vec<_> = names.iter().filter_map(|name| Path::new(name).parent()).collect();
    folders.dedup();
    names.iter().all(|name| name.ends_with(".parquet")) && folders.len() == names.len()
}

#[test]
fn every_row_is_read_once_before_between_and_after() {
    let (_server, address) = bucket();
    let (before, old) = (all(&address), names(&address));
    let merged = printed(&mut compact(&address, &[]));
    assert_eq!(merged.matches(": 2 files are 1 now").count(), merged.lines().count(), "{merged}");
    let between = names(&address);
    assert!(old.iter().all(|name| between.contains(name)), "{between:?}");
    assert!(between.len() > old.len(), "{between:?}");
    assert_eq!(all(&address), before);
    let left = printed(&mut compact(&address, &[]));
    assert!(left.lines().all(|line| line.contains("left: it is merged; readers")), "{left}");
    assert_eq!(names(&address), between);
    let done = printed(&mut compact(&address, &["--grace", "0s"]));
    assert!(done.lines().all(|line| line.contains("left: it is one file already")), "{done}");
    assert!(is_merged(&address), "{:?}", names(&address));
    assert_eq!(all(&address), before);
}

const DAMAGE: &str = r#"
import boto3, os, sys
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
s3.put_object(Bucket="cluster", Key=sys.argv[1] + "/~exchange.json", Body=b"half of a no")
"#;

#[test]
fn a_note_that_cannot_be_read_leaves_its_own_folder_alone() {
    let (_server, address) = bucket();
    let is_tasks = |name: &&String| name.contains("/tasks/node=sim-0001/");
    let name = names(&address).iter().find(is_tasks).cloned().unwrap();
    let folder = Path::new(&name).parent().unwrap();
    let python = || Command::new(tool("python"));
    printed(python().args(["-c", DAMAGE]).arg(folder).envs(keys(&address)));
    let outcome = printed(&mut compact(&address, &[]));
    let (left, merged): (Vec<&str>, Vec<&str>) =
        outcome.lines().partition(|line| line.contains(folder.to_str().unwrap()));
    assert!(left.len() == 1 && left[0].contains("left: "), "{outcome}");
    assert!(!merged.is_empty(), "{outcome}");
    assert!(merged.iter().all(|line| line.contains(": 2 files are 1 now")), "{outcome}");
}

#[test]
fn killed_at_any_moment_no_row_is_lost_or_doubled_and_the_next_call_goes_on() {
    let (_server, address) = bucket();
    let before = all(&address);
    let mut began = 0;
    for moment in (0..12).map(|step| Duration::from_millis(150 * step)) {
        let mut child: Child = compact(&address, &["--grace", "0s", "--unfinished", "0s"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        #[allow(clippy::disallowed_methods)] // the moment is what is tried
        std::thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
        began += usize::from(names(&address).iter().any(|name| name.ends_with("~exchange.json")));
        assert_eq!(all(&address), before, "killed after {moment:?}");
    }
    assert!(began > 0, "it was never killed in the middle of an exchange");
    printed(&mut compact(&address, &["--grace", "0s", "--unfinished", "0s"]));
    assert!(is_merged(&address), "{:?}", names(&address));
    assert_eq!(all(&address), before);
}

#[test]
fn of_two_at_once_one_merges_each_folder() {
    let (_server, address) = bucket();
    let before = all(&address);
    let start = || compact(&address, &[]).stdout(Stdio::piped()).spawn().unwrap();
    let both = [start(), start()].map(|child| child.wait_with_output().unwrap());
    for one in &both {
        assert!(one.status.success(), "{one:?}");
    }
    assert_eq!(all(&address), before);
    printed(&mut compact(&address, &["--grace", "0s"]));
    assert!(is_merged(&address), "{:?}", names(&address));
    assert_eq!(all(&address), before);
}

/// The names of objects of tasks that a query reads.
fn read(front: &Front, query: &str) -> BTreeSet<String> {
    front.read();
    printed(program().args(["sql", "s3://cluster/rec", query]).envs(keys(&front.address)));
    front.read().into_iter().filter(|name| name.contains("/tasks/")).collect()
}

#[test]
fn objects_of_other_days_and_hours_than_a_query_asks_for_are_not_read() {
    let out = tempfile::tempdir().unwrap();
    let hours = 72;
    for hour in 0..hours {
        simulate_hour(out.path(), hour);
    }
    let (_server, address) = moto();
    upload(out.path(), &address);
    let front = Front::of(&address, None);
    assert_eq!(read(&front, "SELECT sum(on_cpu_ns) FROM tasks").len(), hours as usize);
    // At most nine are looked at for their columns.
    let columns = read(&front, "SELECT 1 FROM tasks LIMIT 0");
    assert!(columns.len() <= 9, "{columns:?}");
    for when in [
        "time >= '2026-01-02T05:00:00Z' AND time < '2026-01-02T06:00:00Z'",
        "slot_start_ns BETWEEN 1767330000000000000 AND 1767333599999999999",
    ] {
        let query = format!("SELECT sum(on_cpu_ns) FROM tasks WHERE {when}");
        let hour = read(&front, &query);
        let others: Vec<&String> = hour.difference(&columns).collect();
        // With the one before it, whose last rows may be of it, and a day of those behind it, for rows may come as late.
        let near = |name: &&&String| {
            let number = |key: &str| name.split_once(key)?.1.get(..2)?.parse::<u32>().ok();
            let at = number("date=2026-01-").zip(number("hour="));
            at.is_some_and(|at| ((2, 4)..=(3, 5)).contains(&at))
        };
        assert!(hour.iter().any(|name| name.contains("02/hour=05/")), "{hour:?}");
        assert!(others.iter().all(|name| near(&name)), "{others:?}");
    }
}

#[test]
fn an_object_that_is_denied_or_gone_while_it_is_read_is_named_and_the_rest_is_used() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 2, 2, Format::Parquet);
    let (_server, address) = moto();
    upload(out.path(), &address);
    let query = "SELECT node, sum(on_cpu_ns) FROM tasks GROUP BY node";
    let ask = |address: &str| {
        let mut command = program();
        command.args(["sql", "s3://cluster/rec", query, "--format", "csv"]).envs(keys(address));
        command.output().unwrap()
    };
    let whole = String::from_utf8(ask(&address).stdout).unwrap();
    assert!(whole.contains("sim-0000,") && whole.contains("sim-0001,"), "{whole}");
    for status in ["403 Forbidden", "404 Not Found"] {
        // Its end could be read: what is denied are its rows, or its end the second time.
        for after in [1, 2] {
            let object = "/tasks/node=sim-0001/".to_owned();
            let front = Front::of(&address, Some(Denied { object, after, status }));
            let answer = ask(&front.address);
            let told = String::from_utf8_lossy(&answer.stderr).into_owned();
            assert!(answer.status.success(), "{status} after {after}: {told}");
            assert!(told.contains("s3://cluster/rec/tasks/node=sim-0001/"), "{told}");
            let rows = String::from_utf8(answer.stdout).unwrap();
            let first = whole.lines().find(|line| line.starts_with("sim-0000,")).unwrap();
            assert!(rows.contains(first) && !rows.contains("sim-0001"), "{rows}");
        }
    }
}

#[test]
fn a_store_that_vanishes_while_it_is_read_ends_the_query_with_the_object() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 2, 2, Format::Parquet);
    let (_server, address) = moto();
    upload(out.path(), &address);
    let object = "/tasks/node=sim-0001/".to_owned();
    let front = Front::of(&address, Some(Denied { object, after: 1, status: GONE }));
    let mut command = program();
    command.args([
        "sql",
        "s3://cluster/rec",
        "SELECT node, sum(on_cpu_ns) FROM tasks GROUP BY node",
    ]);
    let answer = command.envs(keys(&front.address)).output().unwrap();
    let told = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert_eq!(answer.status.code(), Some(1), "{told}");
    let error = told.lines().last().unwrap();
    assert!(error.contains("s3://cluster/rec/tasks/node="), "{told}");
}

const MINUTES: i64 = 12;

/// Minutes of rows in one file, which is more than one row group: a second of them again and again, with other times and counts.
fn large_file(out: &Path) {
    let second = tempfile::tempdir().unwrap();
    simulate(second.path(), 1, 1, Format::Parquet);
    let reader = Reader::open(place(second.path())).unwrap();
    let pieces = reader.scan("tasks").pieces().map(|piece| piece.unwrap().batch);
    let pieces: Vec<RecordBatch> = pieces.collect();
    let (schema, batch) =
        (pieces[0].schema(), concat_batches(&pieces[0].schema(), &pieces).unwrap());
    let from = files(&second.path().join("tasks"), ".parquet").remove(0);
    let to = out.join(from.strip_prefix(second.path()).unwrap());
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    let mut file = ParquetFile::create(&to, &schema, &Default::default()).unwrap();
    let place = |name: &str| schema.index_of(name).unwrap();
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as i64
    };
    let slots = batch.column(place("slot_start_ns")).as_primitive::<Int64Type>();
    for second in 0..MINUTES * 60 {
        let mut columns = batch.columns().to_vec();
        let slots: Int64Array = slots.unary(|ns| ns + second * 1_000_000_000);
        let times: TimestampMicrosecondArray =
            slots.values().iter().map(|ns| Some(ns / 1_000)).collect();
        let kind = schema.field(place("time")).data_type();
        columns[place("time")] = cast(&times.with_timezone("UTC"), kind).unwrap();
        columns[place("slot_start_ns")] = Arc::new(slots);
        // What repeats itself takes no room, and is fetched with its neighbours.
        for name in ["on_cpu_ns", "cycles", "instructions"] {
            let values: Int64Array = (0..batch.num_rows()).map(|_| Some(random())).collect();
            columns[place(name)] = Arc::new(values);
        }
        file.write(&RecordBatch::try_new(schema.clone(), columns).unwrap()).unwrap();
    }
    assert!(file.finish().unwrap().rows > 1 << 20);
}

#[test]
fn of_a_large_object_only_the_columns_and_the_row_groups_of_a_query_are_fetched() {
    let out = tempfile::tempdir().unwrap();
    large_file(out.path());
    let object = files(out.path(), ".parquet").remove(0).metadata().unwrap().len();
    let (_server, address) = moto();
    upload(out.path(), &address);
    let front = Front::of(&address, None);
    let fetched = |query: &str| {
        front.bytes();
        printed(program().args(["sql", "s3://cluster/rec", query]).envs(keys(&front.address)));
        front.bytes()
    };
    let of_a_minute = format!(
        "WHERE slot_start_ns >= {} AND slot_start_ns < {}",
        START + 660_000_000_000,
        START + 720_000_000_000
    );
    let whole = fetched(
        "SELECT sum(on_cpu_ns % 2), sum(cycles % 2), sum(instructions % 2), count(DISTINCT comm), max(slot_start_ns + 1) FROM tasks",
    );
    let column = fetched("SELECT sum(on_cpu_ns % 2) FROM tasks");
    let stretch = fetched(&format!("SELECT sum(on_cpu_ns % 2) FROM tasks {of_a_minute}"));
    assert!(whole > object * 9 / 10, "{whole} of {object}");
    assert!(column < whole / 2, "{column} of {whole}");
    // Of two row groups the second, which is the smaller one: its times, too, but nothing of the first.
    assert!(stretch < column / 2, "{stretch} of {column}");
}
