//! The probe data set: what memory felt like, in files that join with the coverage.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::*;

fn about(out: &Path, dataset: &str) -> Value {
    let text = fs::read_to_string(&files(out, dataset, ".json")[0]).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn float(row: &Row, column: &str) -> Option<f64> {
    let text = &row[column];
    (!text.is_empty()).then(|| text.parse().unwrap_or_else(|_| panic!("{column} is {text:?}")))
}

#[test]
fn the_probe_is_recorded_unasked_and_joins_the_coverage_on_slot_and_core() {
    // Where every core is busy bursts are few; a recording is as long as some take.
    let recorded = [5.0, 30.0].into_iter().map(|seconds| {
        let out = tempfile::tempdir().unwrap();
        let output = succeed(&mut record(out.path(), &["--duration", &format!("{seconds}s")]));
        let rows = csv_rows(out.path(), "probe");
        (out, seconds, output, rows)
    });
    let enough = |(_, _, _, rows): &(_, _, _, Vec<Row>)| rows.len() > 5;
    let (out, seconds, output, rows) = recorded.into_iter().find(enough).expect("five bursts");
    let key = |row: &Row| (number(row, "slot_start_ns"), row["core"].clone());
    let slots: HashSet<(u64, String)> = csv_rows(out.path(), "slots").iter().map(key).collect();
    for row in &rows {
        assert_eq!(number(row, "slot_start_ns") % SLOT_NS, 0);
        assert!(row["core"].is_empty() || slots.contains(&key(row)), "{row:?} joins no slot");
        let known = ["quiet", "contended", "unknown"].contains(&row["state"].as_str());
        assert!(known && (row["state"] == "unknown") != row["blind"].is_empty(), "{row:?}");
        assert_eq!(row["confidence"].is_empty(), row["state"] == "unknown", "{row:?}");
        assert!(["true", "false"].contains(&row["alone"].as_str()), "{row:?}");
        // A burst that was interrupted measured nothing, and says so.
        assert_eq!(
            float(row, "latency_ns").is_some(),
            float(row, "bandwidth_bytes_per_s").is_some()
        );
    }
    let measured: Vec<f64> = rows.iter().filter_map(|row| float(row, "latency_ns")).collect();
    assert!(measured.iter().all(|ns| (1.0..1e6).contains(ns)), "{measured:?}");
    assert!(rows.iter().any(|row| !row["core"].is_empty()));

    let (_, report) = split_report(&output);
    assert_eq!(report["probe"]["rows"].as_u64(), Some(rows.len() as u64));
    assert_eq!(report["probe"]["dropped_rows"], 0);
    let cpu_s = report["probe"]["cpu_seconds"].as_f64().unwrap();
    assert!(cpu_s <= 0.005 * seconds * 1.2, "the probe cost {cpu_s} s in {seconds} s");
    let about = about(out.path(), "probe");
    assert_eq!(about["dataset"], "probe");
    assert_eq!(about["probe"]["cpu_share"], 0.005);
    assert!(about["probe"]["domains"][0]["cores"][0].is_u64(), "{about}");
    assert!(about["probe_absent_because"].is_null());
    assert!(about["columns"]["inflation"]["doc"].is_string());
}

/// Keeps every core busy, several times over, while `what` runs.
fn on_a_busy_machine<T>(what: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let workers = 3 * std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = what();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn on_a_busy_machine_it_gets_its_bursts_and_calls_nothing_quiet_that_it_never_saw_at_rest() {
    let (out, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let state = state.path().to_str().unwrap();
    let args = ["--duration", "4s", "--state", state];
    let output = on_a_busy_machine(|| succeed(&mut record(out.path(), &args)));
    let rows = csv_rows(out.path(), "probe");
    let whole = rows.iter().filter(|row| !row["latency_ns"].is_empty()).count();
    // Some fifteen a second; of idle priority it were three in all.
    assert!(whole >= 12, "{whole} of {} bursts were whole", rows.len());
    assert!(rows.iter().all(|row| row["state"] != "quiet"), "nobody knows what quiet is");
    let (_, report) = split_report(&output);
    let insisted = report["probe"]["normal_priority_bursts"].as_u64().unwrap();
    assert!(insisted as usize >= whole / 2, "{insisted} at normal priority");
    let unknown = &report["probe"]["unknown_rows"];
    let says_why = ["unseen", "starved"].iter().any(|why| unknown[why].as_u64() > Some(0));
    assert!(says_why, "{}", report["probe"]);
}

#[test]
fn a_baseline_of_another_machine_is_told_and_not_used() {
    let (out, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(state.path().join("probe-baseline.json"), "{\"version\": 1}").unwrap();
    let state = state.path().to_str().unwrap();
    let args = ["--duration", "2s", "--state", state];
    let output = succeed(&mut record(out.path(), &args));
    let (_, report) = split_report(&output);
    let told = report["probe"]["baseline"].as_str().unwrap_or_default();
    // Where the machine rested for long enough it is replaced by then.
    let is_told = told.contains("is no baseline of the probe") || told.contains("is kept in");
    assert!(is_told && told.contains("probe-baseline.json"), "{}", report["probe"]);
}

#[test]
fn without_the_probe_there_is_no_such_data_set_and_the_rest_says_why() {
    let out = tempfile::tempdir().unwrap();
    let output = succeed(&mut record(out.path(), &["--duration", "300ms", "--no-probe"]));
    assert!(!out.path().join("probe").exists(), "an absent data set has a folder");
    let about = about(out.path(), "tasks");
    assert_eq!(about["probe_absent_because"], "switched off");
    assert!(about["probe"].is_null());
    let (_, report) = split_report(&output);
    assert!(report["probe"].is_null());
    assert!(!csv_rows(out.path(), "slots").is_empty());
}

#[test]
fn parquet_holds_the_same_columns_and_a_kill_costs_no_more_than_of_the_others() {
    let out = tempfile::tempdir().unwrap();
    let args = ["--format", "parquet", "--layout", "flat", "--rotate-time", "1s"];
    let mut first =
        record(out.path(), &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let waited = Instant::now();
    // A second file: the first was cut by time, as those of the other data sets are.
    while files(out.path(), "probe", ".parquet").is_empty() {
        assert!(waited.elapsed() < Duration::from_secs(60), "no file of the probe was finished");
        std::thread::yield_now();
    }
    first.kill().unwrap();
    first.wait().unwrap();
    succeed(&mut record(out.path(), &["--format", "parquet", "--duration", "300ms", "--append"]));
    assert!(files(out.path(), "probe", ".part").is_empty(), "a part was not recovered");
    let finished = files(out.path(), "probe", ".parquet");
    assert!(finished.len() >= 3, "{finished:?}");
    let (mut starts, mut latencies) = (Vec::new(), 0);
    for path in &finished {
        let reader =
            ParquetRecordBatchReaderBuilder::try_new(fs::File::open(path).unwrap()).unwrap();
        let names: Vec<&str> =
            reader.schema().fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names[..3], ["slot_start_ns", "time", "read_at_ns"]);
        for batch in reader.build().unwrap() {
            let batch = batch.unwrap();
            starts.extend(batch.column(0).as_primitive::<Int64Type>().values().to_vec());
            let latency = batch.column_by_name("latency_ns").unwrap();
            latencies += latency.as_primitive::<Float64Type>().iter().flatten().count();
        }
    }
    assert!(starts.len() > 2 && latencies > 0, "{} rows, {latencies} measured", starts.len());
    assert!(starts.iter().all(|start| start % SLOT_NS as i64 == 0));
}
