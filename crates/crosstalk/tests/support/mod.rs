//! What the tests of the command share: running it, and reading what it wrote.
#![allow(dead_code)] // each test file uses its own part

pub(crate) mod moto;
pub(crate) mod simulator;

use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub(crate) const SLOT_NS: u64 = 1_000_000;

/// The command under test.
pub(crate) fn crosstalk() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crosstalk"));
    // What is kept from one run to the next does not go to where that of the machine is.
    command.env("STATE_DIRECTORY", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Puts a program where it can be started at once. A child writes it: a file that this process has open for writing
/// is for a moment also open in whatever another test starts meanwhile, and cannot be run until that has gone on.
pub(crate) fn install(from: &Path, to: &Path) {
    succeed(Command::new("install").args(["-m", "755"]).arg(from).arg(to));
}

/// Likewise, of its text.
pub(crate) fn install_script(text: &str, to: &Path) {
    let write = r#"printf '%s' "$1" > "$0" && chmod 755 "$0""#;
    succeed(Command::new("sh").args(["-c", write]).arg(to).arg(text));
}

/// `crosstalk record --out DIR --json` with more arguments.
pub(crate) fn record(out: &Path, args: &[&str]) -> Command {
    let mut command = crosstalk();
    command.arg("record").arg("--out").arg(out).arg("--json").args(args);
    command.stdin(Stdio::null());
    command
}

/// Runs to the end and expects success.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("the command starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {error}", output.status);
    output
}

/// The JSON at the end of what `record --json -- COMMAND` printed, and what the command printed.
pub(crate) fn split_report(output: &Output) -> (String, Value) {
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    let start = text.find("{\n").expect("a JSON report");
    (text[..start].to_owned(), serde_json::from_str(&text[start..]).expect("valid JSON"))
}

/// The system's own Python: what a user's PATH finds first may be a wrapper that runs others.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// A Python program from `tests/loads`.
pub(crate) fn load(name: &str) -> String {
    format!("{}/tests/loads/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Finished files of a data set, oldest first.
pub(crate) fn files(out: &Path, dataset: &str, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![out.join(dataset)];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

pub(crate) type Row = HashMap<String, String>;

/// All rows of a CSV data set by column name.
pub(crate) fn csv_rows(out: &Path, dataset: &str) -> Vec<Row> {
    files(out, dataset, ".csv")
        .iter()
        .flat_map(|path| {
            let mut reader = csv::Reader::from_path(path).expect("a finished CSV");
            reader.deserialize::<Row>().map(|row| row.expect("a valid row")).collect::<Vec<_>>()
        })
        .collect()
}

pub(crate) fn number(row: &Row, column: &str) -> u64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is {:?}", row[column]))
}

/// The sum of `column` over the rows of process `pid`.
pub(crate) fn sum_of(rows: &[Row], pid: u64, column: &str) -> u64 {
    rows.iter().filter(|row| number(row, "pid") == pid).map(|row| number(row, column)).sum()
}

/// Asserts that `a` is within `percent` of `b`.
#[track_caller]
pub(crate) fn assert_close(a: u64, b: u64, percent: f64, what: &str) {
    let off = (a as f64 - b as f64).abs() * 100.0 / b as f64;
    assert!(off <= percent, "{what}: {a} is {off:.2} % from {b}");
}
