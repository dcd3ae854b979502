//! Spark gathers what leads to the same verdicts: pyspark from PyPI, on the same files.

use crate::support::*;
use crosstalk_analysis::{Question, SubjectKind, analyze};
use crosstalk_recording::Format;
use crosstalk_sql::views::VIEWS;
use crosstalk_sql::{MEMORY, Options, Session, spark};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tokio::runtime::Runtime;

#[test]
#[ignore = "needs pyspark and Java: make test-spark"]
fn spark_gathers_what_leads_to_the_same_verdicts() {
    for subject in [SubjectKind::Process, SubjectKind::Container] {
        let (out, job) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        simulate(out.path(), 2, 40, Format::Parquet);
        let question = Question { subject, ..Question::default() };
        let told = spark::emit(&place(out.path()), &question, job.path()).unwrap();
        assert!(told.starts_with("2 runs; now:\n  spark-submit "), "{told}");
        submit(job.path());
        judged_as_streamed(out.path(), &question, job.path());
    }
}

#[test]
#[ignore = "needs pyspark and Java: make test-spark"]
fn spark_judges_a_build_a_run_longer_than_its_sample_quotas_and_losses_as_the_streaming_pass_does()
{
    let records: [fn(&Path); 4] = [
        |out| record_build(out, 8),
        record_long,
        |out| record_quotas(out, 40),
        |out| record_lossy(out, 60),
    ];
    for record in records {
        let (out, job) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        record(out.path());
        spark::emit(&place(out.path()), &Question::default(), job.path()).unwrap();
        submit(job.path());
        judged_as_streamed(out.path(), &Question::default(), job.path());
    }
}

#[test]
#[ignore = "needs pyspark and Java: make test-spark"]
fn spark_tells_nothing_of_one_node_under_the_name_of_another() {
    let (out, job) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    mixed(out.path());
    let question = Question::default();
    spark::emit(&place(out.path()), &question, job.path()).unwrap();
    submit(job.path());
    let judged = spark::judge(&place(out.path()), &question, job.path(), MEMORY).unwrap();
    let nodes: Vec<&str> = judged.runs.iter().map(|run| run.node.as_str()).collect();
    assert_eq!(nodes, ["sim-0000"]);
    assert!(judged.has_failed && judged.unread[0].starts_with("node sim-0001, "), "{judged:?}");
    let mut streamed = analyze(&place(out.path()), &question, |_| {}).unwrap();
    streamed.runs.retain(|run| run.node == "sim-0000");
    assert!(!streamed.verdicts().is_empty());
    same(&streamed, &judged);
}

#[test]
#[ignore = "needs pyspark and Java: make test-spark"]
fn a_run_that_spark_cannot_read_is_named_with_its_file_and_the_others_are_judged() {
    let (out, job) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    simulate(out.path(), 2, 40, Format::Parquet);
    // Of the first, so that others follow.
    let damaged = files(&out.path().join("tasks/node=sim-0000"), ".parquet").remove(0);
    let whole = fs::read(&damaged).unwrap();
    fs::write(&damaged, &whole[..whole.len() / 2]).unwrap();
    let question = Question::default();
    spark::emit(&place(out.path()), &question, job.path()).unwrap();
    let ran = spark_submit(job.path());
    let told = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{told}");
    let left_out = told.lines().find(|line| line.contains(": left out: ")).expect(&told);
    assert!(left_out.starts_with("node sim-0000, run "), "{left_out}");
    assert!(left_out.contains(damaged.to_str().unwrap()), "{left_out}");
    let judged = spark::judge(&place(out.path()), &question, job.path(), MEMORY).unwrap();
    assert!(judged.has_failed, "{:?}", judged.unread);
    let mut streamed = analyze(&place(out.path()), &question, |_| {}).unwrap();
    streamed.runs.retain(|run| run.node == "sim-0001");
    assert!(!streamed.verdicts().is_empty());
    same(&streamed, &judged);
}

#[test]
fn a_run_that_is_not_all_parquet_is_left_out_of_the_job_and_named() {
    let (out, job) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    mixed(out.path());
    let told = spark::emit(&place(out.path()), &Question::default(), job.path()).unwrap();
    assert!(told.contains("not for Spark: node sim-0001, run "), "{told}");
    assert!(told.contains("\n1 runs; now:\n"), "{told}");
    let list = fs::read_to_string(job.path().join("runs.json")).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let runs = list["runs"].as_array().unwrap();
    let nodes: Vec<&Value> = runs.iter().map(|run| &run["node"]).collect();
    assert_eq!(nodes, ["sim-0000"]);
    // The probe of this node is CSV: no view stands on what the job does not read.
    assert!(!runs[0]["files"].as_object().unwrap().contains_key("probe"));
    let bursts = runs[0]["views"].as_array().unwrap().iter().find(|view| view[0] == "bursts");
    assert!(bursts.unwrap()[1].is_null());
    // What the job does not read is not missed when it is judged.
    let judged =
        spark::judge(&place(out.path()), &Question::default(), job.path(), MEMORY).unwrap();
    let unread = judged.unread.join("\n");
    assert!(unread.contains("the job has not written it yet"), "{unread}");
    assert!(unread.contains("it was not in the job"), "{unread}");
}

#[test]
fn what_was_gathered_for_one_question_is_not_judged_as_the_answer_to_another() {
    let (out, job) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    simulate(out.path(), 1, 1, Format::Parquet);
    let pods = Question { subject: SubjectKind::Pod, ..Question::default() };
    spark::emit(&place(out.path()), &pods, job.path()).unwrap();
    let judge =
        |question: &Question| spark::judge(&place(out.path()), question, job.path(), MEMORY);
    let refused = judge(&Question::default()).unwrap_err().to_string();
    assert!(refused.contains("(--subject pod, all of the time; now asked: --subject process"));
    let later = Question { time: Some(START..START + 1), ..pods.clone() };
    let refused = judge(&later).unwrap_err().to_string();
    assert!(refused.contains(&format!("now asked: --subject pod, from {START} to ")), "{refused}");
    assert!(judge(&pods).is_ok());
    // Nor is what an earlier job left in the folder.
    fs::create_dir(job.path().join("gathered")).unwrap();
    let refused = spark::emit(&place(out.path()), &Question::default(), job.path());
    assert!(refused.unwrap_err().to_string().contains("an earlier job gathered it"));
}

/// One node in Parquet but for its probe, and one in CSV.
fn mixed(out: &Path) {
    simulate(out, 2, 40, Format::Parquet);
    let csv = tempfile::tempdir().unwrap();
    simulate(csv.path(), 2, 40, Format::Csv);
    for (dataset, node) in [("tasks", 1), ("slots", 1), ("probe", 1), ("steal", 1), ("probe", 0)] {
        let folder = format!("{dataset}/node=sim-000{node}");
        fs::remove_dir_all(out.join(&folder)).unwrap();
        copy(&csv.path().join(&folder), &out.join(&folder));
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn submit(job: &Path) {
    let ran = spark_submit(job);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

fn spark_submit(job: &Path) -> Output {
    with_spark(Command::new(tool("python")).arg(job.join("job.py")))
}

fn with_spark(python: &mut Command) -> Output {
    python
        .env("SPARK_LOCAL_IP", "127.0.0.1")
        .env("PYSPARK_SUBMIT_ARGS", "--master local[2] --conf spark.sql.shuffle.partitions=2 --conf spark.ui.enabled=false pyspark-shell")
        .output()
        .unwrap()
}

fn judged_as_streamed(out: &Path, question: &Question, job: &Path) {
    let judged = spark::judge(&place(out), question, job, MEMORY).unwrap();
    assert_eq!(judged.unread, Vec::<String>::new());
    let streamed = analyze(&place(out), question, |_| {}).unwrap();
    assert!(!streamed.verdicts().is_empty());
    same(&streamed, &judged);
}

/// Asks the views of a recording.
const ASK: &str = r#"
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.conf.set("spark.sql.session.timeZone", "UTC")
spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
place, asked = sys.argv[1], json.load(open(sys.argv[2]))
for name in ["tasks", "slots"]:
    spark.read.parquet(f"{place}/{name}").createOrReplaceTempView(name)
for text in asked["views"]:
    spark.sql(text.replace("CREATE VIEW", "CREATE TEMPORARY VIEW", 1))
rows = [[list(row) for row in spark.sql(query).collect()] for query in asked["queries"]]
json.dump({"kinds": dict(spark.table("tasks").dtypes), "rows": rows}, open(sys.argv[3], "w"))
spark.stop()
"#;

/// Of each view some rows.
const QUERIES: [&str; 5] = [
    "SELECT node, pid, comm, count(*), round(sum(cores), 6), sum(instructions) FROM per_second GROUP BY node, pid, comm \
     ORDER BY node, pid",
    "SELECT node, container, sum(processes), round(sum(cores), 6) FROM per_container WHERE container IS NOT NULL \
     GROUP BY node, container ORDER BY node, container",
    "SELECT node, comm, neighbour, round(sum(beside_ms), 3) FROM neighbours GROUP BY node, comm, neighbour \
     ORDER BY node, comm, neighbour",
    "SELECT node, comm, holder, round(sum(waited_ms), 3) FROM waited_for GROUP BY node, comm, holder \
     ORDER BY node, comm, holder",
    "SELECT node, count(*), sum(lost_rows) FROM losses GROUP BY node",
];

#[test]
#[ignore = "needs pyspark and Java: make test-spark"]
fn spark_gives_the_rows_of_every_view_and_reads_times_as_times_and_numbers_as_numbers() {
    let (out, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    record_lossy(out.path(), 60);
    let at = |name: &str| work.path().join(name);
    let views = VIEWS.iter().filter(|view| !view.needs.contains(&"cache"));
    let views: Vec<String> = views.map(|view| view.statement("1000000")).collect();
    fs::write(at("ask.py"), ASK).unwrap();
    fs::write(at("asked.json"), json!({ "views": views, "queries": QUERIES }).to_string()).unwrap();
    let mut python = Command::new(tool("python"));
    python.args([at("ask.py"), out.path().to_owned(), at("asked.json"), at("answer.json")]);
    let ran = with_spark(&mut python);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let answer: Value =
        serde_json::from_str(&fs::read_to_string(at("answer.json")).unwrap()).unwrap();
    for (column, kind) in [
        ("time", "timestamp"),
        ("slot_start_ns", "bigint"),
        ("pid", "bigint"),
        ("cycles", "bigint"),
    ] {
        assert_eq!(answer["kinds"][column], kind, "{column}");
    }
    let runtime = Runtime::new().unwrap();
    let session = runtime.block_on(Session::open(&place(out.path()), &Options::default())).unwrap();
    for (query, rows) in QUERIES.iter().zip(answer["rows"].as_array().unwrap()) {
        let ours = ask(&runtime, &session, query).unwrap();
        let theirs: Vec<String> = rows.as_array().unwrap().iter().map(in_a_row).collect();
        assert!(!ours.is_empty(), "{query}");
        assert_eq!(theirs.len(), ours.len(), "{query}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let cells = ours.split(',').zip(theirs.split(','));
            assert!(cells.clone().all(|(a, b)| is_near(a, b)), "{query}: {theirs}, ours {ours}");
        }
    }
}

fn in_a_row(cells: &Value) -> String {
    let text = |cell: &Value| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned);
    cells.as_array().unwrap().iter().map(text).collect::<Vec<_>>().join(",")
}

/// The same, or numbers that were added up in another order.
fn is_near(a: &str, b: &str) -> bool {
    let numbers = a.parse::<f64>().ok().zip(b.parse::<f64>().ok());
    a == b || numbers.is_some_and(|(a, b)| (a - b).abs() <= 2e-3_f64.max(1e-9 * a.abs()))
}
