//! Spark gathers what leads to the same verdicts: pyspark from PyPI, on the same files.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use crosstalk_analysis::{Question, analyze};
use crosstalk_recording::Format;
use crosstalk_sql::{MEMORY, spark};
use std::process::Command;
use support::*;

#[test]
#[ignore = "needs pyspark and Java: make test-spark"]
fn spark_gathers_what_leads_to_the_same_verdicts() {
    let (out, job) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    simulate(out.path(), 2, 40, Format::Parquet);
    let question = Question::default();
    let told = spark::emit(&place(out.path()), &question, job.path()).unwrap();
    assert!(told.starts_with("2 runs; now:\n  spark-submit "), "{told}");
    let ran = Command::new(tool("python"))
        .arg(job.path().join("job.py"))
        .env("SPARK_LOCAL_IP", "127.0.0.1")
        .env("PYSPARK_SUBMIT_ARGS", "--master local[2] --conf spark.sql.shuffle.partitions=2 --conf spark.ui.enabled=false pyspark-shell")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let judged = spark::judge(&place(out.path()), &question, job.path(), MEMORY).unwrap();
    assert_eq!(judged.unread, Vec::<String>::new());
    let streamed = analyze(&place(out.path()), &question, |_| {}).unwrap();
    assert!(!streamed.verdicts().is_empty());
    same(&streamed, &judged);
}
