//! A kill -9 costs at most the last second, in either format.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::*;

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

fn slot_starts(path: &Path) -> Vec<u64> {
    if path.extension().is_some_and(|ending| ending == "csv") {
        let mut reader = csv::Reader::from_path(path).unwrap();
        return reader
            .deserialize::<Row>()
            .map(|row| number(&row.unwrap(), "slot_start_ns"))
            .collect();
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let host = reader.metadata().file_metadata().key_value_metadata().unwrap();
    assert!(host.iter().any(|kv| kv.key == "slot_ns" && kv.value.as_deref() == Some("1000000")));
    reader
        .build()
        .unwrap()
        .flat_map(|batch| batch.unwrap().column(0).as_primitive::<Int64Type>().values().to_vec())
        .map(i64::unsigned_abs)
        .collect()
}

#[test]
fn after_a_kill_everything_up_to_the_last_second_is_recovered() {
    for format in ["csv", "parquet"] {
        let out = tempfile::tempdir().unwrap();
        let ending = format!(".{format}");
        let mut first = record(out.path(), &["--format", format, "--duration", "1m"])
            .args(["--layout", "flat"])
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let began = unix_ns();
        #[allow(clippy::disallowed_methods)] // some seconds of recording are what is needed
        thread::sleep(Duration::from_secs(4));
        let killed = unix_ns();
        first.kill().unwrap();
        first.wait().unwrap();
        assert!(files(out.path(), "slots", &ending).is_empty(), "a part looks finished");

        // Without a new recording; and a new one finishes what is left as well.
        if format == "csv" {
            succeed(crosstalk().arg("recover").arg(out.path()));
        } else {
            let again = ["--format", format, "--duration", "300ms", "--append"];
            succeed(&mut record(out.path(), &again));
        }
        assert!(files(out.path(), "slots", ".part").is_empty());
        let finished = files(out.path(), "slots", &ending);
        assert_eq!(finished.len(), if format == "csv" { 1 } else { 2 }, "{finished:?}");
        let mut starts = slot_starts(&finished[0]);
        starts.sort_unstable();
        let last = *starts.last().unwrap();
        assert!(last + 1_000_000_000 >= killed, "lost {} ms", (killed - last) / 1_000_000);
        // Both cores, every slot from the first on.
        let first = starts[0];
        assert!(first < began + 1_500_000_000);
        let whole = (last - first) / SLOT_NS;
        assert!(starts.len() as u64 >= whole, "{} of {whole} slots", starts.len());
        if format == "csv" {
            assert_eq!(files(out.path(), "slots", ".json").len(), 1);
        }
    }
}

#[test]
fn a_recording_that_is_running_is_not_recovered_by_another() {
    let out = tempfile::tempdir().unwrap();
    let mut first =
        record(out.path(), &["--duration", "5s"]).stdout(Stdio::piped()).spawn().unwrap();
    let waited = Instant::now();
    while files(out.path(), "tasks", ".csv.part").is_empty() {
        assert!(waited.elapsed() < Duration::from_secs(30), "the first recording never started");
        thread::yield_now();
    }
    let refused = record(out.path(), &["--duration", "300ms"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--append"));
    succeed(&mut record(out.path(), &["--duration", "300ms", "--append"]));
    assert_eq!(files(out.path(), "tasks", ".csv").len(), 1);
    assert!(first.wait().unwrap().success());
    assert_eq!(files(out.path(), "tasks", ".csv").len(), 2);
    assert!(files(out.path(), "tasks", ".part").is_empty());
}
