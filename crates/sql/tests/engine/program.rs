//! The program as a user starts it, on a folder and on a bucket.

use crate::support::*;
use crosstalk_recording::Format;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

#[test]
fn rows_come_as_a_table_csv_json_or_parquet() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 1, 1, Format::Parquet);
    let query = "SELECT comm, count(*) AS rows FROM tasks WHERE comm = 'victim' GROUP BY comm";
    let sql = |more: &[&str]| printed(program().arg("sql").arg(out.path()).arg(query).args(more));
    assert!(sql(&[]).contains("| victim |"), "{}", sql(&[]));
    let csv = sql(&["--format", "csv"]);
    assert!(csv.starts_with("comm,rows\nvictim,"), "{csv}");
    let json: Value = serde_json::from_str(&sql(&["--format", "json"])).unwrap();
    assert_eq!(json[0]["comm"], "victim");
    assert!(sql(&["--explain"]).contains("tasks-20260101T000000.000Z.parquet"));
    let file = out.path().join("answer.parquet");
    sql(&["--out", file.to_str().unwrap()]);
    assert_eq!(&fs::read(&file).unwrap()[..4], b"PAR1");
    // Who has a file of the name that was once written to meanwhile still has it.
    let theirs = out.path().join("answer.part");
    fs::write(&theirs, "mine").unwrap();
    for ending in ["csv", "json", "jsonl"] {
        let file = out.path().join("answer").with_extension(ending);
        sql(&["--out", file.to_str().unwrap()]);
        let whole = fs::read_to_string(&file).unwrap();
        assert!(whole.contains("victim") && whole.ends_with('\n'), "{ending}: {whole}");
    }
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "mine");
    let names = fs::read_dir(out.path()).unwrap().flatten().map(|entry| entry.file_name());
    let hidden = names.filter(|name| name.to_str().unwrap().starts_with('.')).count();
    assert_eq!(hidden, 0, "nothing is left of what they were called before");
    let refused =
        program().arg("sql").arg(out.path()).args([query, "--format", "parquet"]).output();
    assert_eq!(refused.unwrap().status.code(), Some(2));
    let nothing = program().args(["sql", "/nonexistent", query]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("/nonexistent"));
}

#[test]
fn a_bucket_of_two_nodes_is_asked_as_a_folder_is_and_what_is_broken_in_it_is_named() {
    let out = tempfile::tempdir().unwrap();
    let written = simulate(out.path(), 2, 1, Format::Parquet);
    let (_server, address) = moto();
    upload(out.path(), &address);
    let sql = |query: &str| {
        let mut command = program();
        command.args(["sql", "s3://cluster/rec", query, "--format", "csv"]).envs(keys(&address));
        command.output().unwrap()
    };
    let count = sql("SELECT count(*) FROM tasks");
    let text = String::from_utf8_lossy(&count.stdout).into_owned();
    assert!(text.ends_with(&format!("\n{}\n", written.task_rows)), "{count:?}");
    // Half a file takes the place of a whole one: it is named, and the rest is read.
    let file = files(&out.path().join("tasks/node=sim-0001"), ".parquet").remove(0);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    upload(out.path(), &address);
    let rest = sql("SELECT DISTINCT node FROM tasks");
    assert_eq!(String::from_utf8_lossy(&rest.stdout), "node\nsim-0000\n", "{rest:?}");
    let told = String::from_utf8_lossy(&rest.stderr).into_owned();
    assert!(told.contains("not used: s3://cluster/rec/tasks/node=sim-0001/"), "{told}");
    let nobody = program()
        .args(["sql", "s3://nobody/rec", "SELECT 1"])
        .envs(keys(&address))
        .output()
        .unwrap();
    assert_eq!(nobody.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("s3://nobody"));
}

#[test]
fn verdicts_of_engines_are_compared_by_names_times_numbers_and_what_cannot_be_told() {
    let out = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/same-verdicts");
    let verdict = json!({
        "node": "a", "run": "r", "victim": "web", "aggressor": "batch", "resource": "cache", "signal": "cycles",
        "slowdown": 0.2, "low": 0.1, "high": 0.3, "lost_seconds": 2.0, "confidence": 0.99,
        "from_ns": 1, "to_ns": 2,
    });
    let silent = json!({"node": "a", "run": "r", "victim": "db", "neighbours": [], "because": "never quiet"});
    let write = |name: &str, verdicts: &[&Value], silent: &[&Value]| {
        let said = json!({"verdicts": verdicts, "cannot_tell": silent}).to_string();
        fs::write(out.path().join(name), said).unwrap();
    };
    let compared = |other: &str| {
        let mut command = Command::new(tool("python"));
        let ran = command
            .arg(script)
            .args(["streaming.json", other])
            .current_dir(out.path())
            .output()
            .unwrap();
        (ran.status.code(), String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap())
    };
    write("streaming.json", &[&verdict], &[&silent]);
    let with = |key: &str, value: Value| {
        let mut one = verdict.clone();
        one[key] = value;
        one
    };
    write("same.json", &[&with("lost_seconds", json!(2.001))], &[&silent]);
    assert_eq!(
        compared("same.json"),
        (Some(0), "same: the same 1 verdicts, 1 that cannot be told\n".to_owned())
    );
    for (key, value) in [("victim", json!("db")), ("to_ns", json!(3)), ("lost_seconds", json!(2.1))]
    {
        write("other.json", &[&with(key, value)], &[&silent]);
        let (code, said) = compared("other.json");
        assert!(code == Some(1) && said.starts_with("other: it differs\n"), "{key}: {said}");
    }
    write("mute.json", &[&verdict], &[]);
    let (code, said) = compared("mute.json");
    assert!(
        code == Some(1) && said.contains("cannot tell, but does here: a r db never quiet"),
        "{said}"
    );
    assert_eq!(compared("gone.json").0, Some(1));
    // Nothing is not the same as nothing.
    write("streaming.json", &[], &[]);
    write("nothing.json", &[], &[]);
    let (code, said) = compared("nothing.json");
    assert!(code == Some(1) && said.contains("no verdicts in it"), "{said}");
}
