//! `crosstalk analyze`: what it prints, writes and answers, as a shell or a program sees it.

#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use support::*;

const START: u64 = 1_794_779_000_000_000_000;

/// Forty seconds of a recording in CSV, as somebody without our tools could write it: a victim whose wake-ups take a
/// quarter longer while a stream runs on the other core.
fn recording(out: &Path) {
    let folder = out.join("tasks/node=n/run=r");
    fs::create_dir_all(&folder).unwrap();
    let columns = [
        "slot_start_ns",
        "pid",
        "process_start_ns",
        "comm",
        "core",
        "on_cpu_ns",
        "runq_wait_ns",
        "voluntary_switches",
    ];
    let mut csv = columns.join(",") + "\n";
    let (mut random, mut streams) = (88_172_645_463_325_252_u64, false);
    for slot in 0..40_000_u64 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if random.is_multiple_of(500) {
            streams = !streams;
        }
        let at = START + slot * SLOT_NS;
        let on = 400_000 + random % 40_000;
        let on = if streams { on * 5 / 4 } else { on };
        csv += &format!("{at},7,1,<i>victim</i>,0,{on},0,1\n");
        if streams {
            csv += &format!("{at},9,1,stream,1,1000000,0,0\n");
        }
    }
    fs::write(folder.join("tasks-0.csv"), csv).unwrap();
    let kind = |name: &&str| {
        let kind = if *name == "comm" { "text" } else { "int" };
        (String::from(*name), serde_json::json!({ "kind": kind }))
    };
    let described: serde_json::Map<String, Value> = columns.iter().map(kind).collect();
    let about =
        serde_json::json!({ "slot_ns": SLOT_NS, "schema_version": 2, "columns": described });
    fs::write(folder.join("tasks-0.json"), about.to_string()).unwrap();
}

fn analyze(out: &Path, args: &[&str]) -> Output {
    crosstalk().arg("analyze").arg(out).args(args).output().expect("the command starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn verdicts_come_as_a_table_a_list_a_whole_and_a_page_and_the_exit_code_says_so_if_asked() {
    let dir = tempfile::tempdir().unwrap();
    recording(dir.path());
    let output = analyze(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(0));
    let table = stdout(&output);
    assert!(table.contains("<i>victim</i> (7)") && table.contains("stream (9)"), "{table}");
    assert!(table.contains("note: no data set slots"), "{table}");

    let list: Value = serde_json::from_str(&stdout(&analyze(dir.path(), &["--json"]))).unwrap();
    let [verdict] = &list.as_array().expect("a list")[..] else { panic!("{list:#}") };
    let mut keys: Vec<&str> = verdict.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "aggressor",
            "aggressors",
            "confidence",
            "evidence",
            "from_ns",
            "high",
            "lost_seconds",
            "low",
            "node",
            "resource",
            "run",
            "signal",
            "slowdown",
            "to_ns",
            "victim"
        ]
    );

    fs::write(dir.path().join("tasks/node=n/run=r/tasks-1.parquet"), "no").unwrap();
    let output = analyze(dir.path(), &["--json=full", "--exit-code"]);
    assert_eq!(output.status.code(), Some(5));
    let whole: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(whole["verdicts"].as_array().unwrap().len(), 1);
    assert!(whole["unread"][0].as_str().unwrap().contains("tasks-1.parquet"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("tasks-1.parquet"));
    assert_eq!(whole["runs"][0]["node"], "n");
    assert!(!whole["cannot_tell"].as_array().unwrap().is_empty(), "{whole:#}");

    let page = dir.path().join("report.html");
    let output = analyze(dir.path(), &["--report", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("&lt;i&gt;victim&lt;/i&gt; (7)</b> lost"), "no sentence");
}

#[test]
fn a_mistake_in_the_command_is_told_from_a_recording_that_holds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    recording(dir.path());
    let refused = |output: Output, code: i32, word: &str| {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(word), "{word:?} is not in: {error}");
    };
    let log = dir.path().join("log.csv");
    fs::write(&log, "time,units\n1794779000,1\n1794779001,2\n").unwrap();
    let log = log.to_str().unwrap();
    refused(analyze(&dir.path().join("nowhere"), &[]), 2, "nowhere");
    refused(
        analyze(dir.path(), &["--from", "2026-11-15T22:00:00Z", "--to", "2026-11-15T21:00:00Z"]),
        2,
        "--to",
    );
    refused(analyze(dir.path(), &["--subject", "planet"]), 2, "planet");
    refused(analyze(dir.path(), &["--progress", log]), 2, "whose progress is this?");
    refused(analyze(dir.path(), &["--progress", "victim=/no/such"]), 2, "/no/such");
    refused(analyze(dir.path(), &["--log-zone", "CET"]), 2, "+02:00");
    refused(
        analyze(dir.path(), &["--report", "/no/such/folder/r.html"]),
        1,
        "cannot write the report",
    );
    refused(
        analyze(dir.path(), &["--from", "2036-11-15T22:00:00Z"]),
        1,
        "no rows in the time asked for",
    );
    let output = analyze(dir.path(), &["--from", "2036-11-15T22:00:00Z", "--json"]);
    assert_eq!(stdout(&output).trim(), "[]", "a program still gets a list");
}

/// A processor that listens, killed when dropped.
struct Processor {
    child: Child,
    url: String,
}

impl Processor {
    fn start(data: &Path) -> Self {
        let mut command = crosstalk();
        command.args(["processor", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
        command.args(["--store", "http://127.0.0.1:9/write"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).env_remove("RUST_LOG");
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("listening") {
            assert_ne!(log.read_line(&mut said).unwrap(), 0, "ended with: {said}");
        }
        // Whatever it logs from here on must not block it.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let address = said.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
        Self { child, url: format!("http://{}", address.unwrap()) }
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_the_processor_answers_of_a_training_run_explains_the_same_iterations_as_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let (rec, log) = (dir.path().join("rec"), dir.path().join("llama.log"));
    recording(&rec);
    // The recording begins at 21:43:20; an iteration takes 400 ms, each tenth 650.
    let (mut text, mut ms) = (String::new(), 20_000);
    for iteration in 1..=80 {
        let took = if iteration % 10 == 0 { 650 } else { 400 };
        ms += took;
        let (minute, second) = (43 + ms / 60_000, ms % 60_000);
        text += &format!(
            "2026-11-15T21:{minute}:{:02}.{:03}Z iteration {iteration:8}/ 500 | elapsed time per iteration (ms): {took}.0 | lm loss: 2.5E+00 |\n",
            second / 1_000,
            second % 1_000
        );
    }
    fs::write(&log, text).unwrap();
    let processor = Processor::start(&dir.path().join("data"));
    let mut follow = crosstalk();
    follow.args(["processor", "follow", log.to_str().unwrap(), "--once", "--namespace", "ml"]);
    succeed(follow.args(["--to", &processor.url, "--state-dir"]).arg(dir.path().join("state")));
    let url = format!("{}/workloads/ml:llama/training", processor.url);
    let answer = dir.path().join("training.json");
    succeed(Command::new("curl").args(["-sf", &url, "-o"]).arg(&answer));

    let explained = |file: &Path| {
        let progress = format!("<i>victim</i>={}", file.display());
        let output = analyze(&rec, &["--json=full", "--progress", &progress]);
        let whole: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(whole["unread"], serde_json::json!([]), "{}", file.display());
        let training = &whole["training"][0];
        let slow: Vec<u64> = training["slowest"]
            .as_array()
            .unwrap_or_else(|| panic!("{whole:#}"))
            .iter()
            .map(|one| one["iteration"].as_u64().unwrap())
            .collect();
        (training["iterations"].as_u64(), training["median_seconds"].as_f64(), slow)
    };
    let by_answer = explained(&answer);
    assert_eq!((by_answer.0, by_answer.2.len()), (Some(80), 8), "{by_answer:?}");
    assert_eq!(by_answer, explained(&log));
}
