//! A recording that goes to a bucket by way of the command line.

mod support;

use std::path::Path;
use support::moto::Moto;
use support::*;

#[test]
fn every_row_that_record_reports_is_in_the_bucket_and_nothing_waits_here() {
    let store = Moto::start();
    let spool = tempfile::tempdir().unwrap();
    let to = Path::new("s3://cluster/rec");
    let waits = spool.path().to_str().unwrap();
    let args = ["--duration", "2s", "--format", "parquet", "--spool", waits];
    let output = succeed(record(to, &args).envs(store.keys()));
    let (_, report) = split_report(&output);
    let objects = store.objects("rec/");
    let tasks = objects.iter().filter(|(name, _)| name.starts_with("rec/tasks/node="));
    let rows: u64 = tasks.map(|(_, rows)| rows).sum();
    assert!(rows > 100, "{objects:?}");
    assert_eq!(report["rows"], rows, "{report:#}");
    assert!(objects.iter().any(|(name, rows)| name.starts_with("rec/slots/") && *rows > 0));
    assert!(files(spool.path(), "", "").is_empty(), "{:?}", files(spool.path(), "", ""));

    // A second run is not mixed with the first unasked, and nothing is recorded for it.
    let refused = record(to, &args).envs(store.keys()).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("--append"), "{told}");
    assert_eq!(store.objects("rec/"), objects);
}
