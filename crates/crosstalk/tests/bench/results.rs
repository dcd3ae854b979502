//! What a user is told: mistakes, runs, what they found.

use crate::skip::skip;
use crate::support::{install, install_script};
use crate::{PLAIN, bench, can_make_cgroups, told, write};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn every_mistake_of_a_file_is_told_with_its_line_and_the_examples_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "benchmark: {nmae: x}\na: {index: 0, comand: sh}\n");
    let output = bench(folder.path()).args(["validate", &file]).output().unwrap();
    let text = told(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for expected in
        ["yaml:1: benchmark.nmae: no such key; did you mean name?", "yaml:2: a.comand: no such key"]
    {
        assert!(text.contains(expected), "{text}");
    }
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for entry in fs::read_dir(examples).unwrap().flatten() {
        let path = entry.path();
        // Others are scenarios for crosstalk simulate.
        if path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        let output = bench(folder.path()).arg("validate").arg(&path).output().unwrap();
        assert!(output.status.success() || cores < 2, "{}: {}", path.display(), told(&output));
    }
    let file = write(folder.path(), "benchmark: {name: x}\na: {index: 0, command: sh}\n");
    let text = told(&bench(folder.path()).args(["validate", &file]).output().unwrap());
    assert!(text.starts_with("x: 1 container, 1 round, scheduler default"), "{text}");
    let none = bench(&folder.path().join("none")).arg("list").output().unwrap();
    assert!(none.status.success() && told(&none).starts_with("no run below "), "{}", told(&none));
    let schema = bench(folder.path()).arg("schema").output().unwrap();
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    assert!(schema["properties"]["benchmark"].is_object());
}

#[test]
fn a_run_is_listed_shown_and_compared() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let counts = "sh -c 'i=0; while :; do i=$((i+1)); echo \"done $i\"; sleep 0.05; done'";
    let text = format!(
        "benchmark: {{name: twice, max_t: 2, {PLAIN}}}\n\
         a: {{index: 0, command: {counts:?}, progress: {{number: done}}}}\n\
         b: {{index: 1, command: \"sleep 60\", start: 1}}\n"
    );
    let file = write(folder.path(), &text);
    for _ in 0..2 {
        let output = bench(&runs).args(["run", &file]).output().unwrap();
        let text = told(&output);
        assert!(output.status.success() && text.contains("beside b"), "{text}");
        assert!(text.contains("starts (") && text.contains("is stopped ("), "{text}");
    }
    let list = bench(&runs).args(["list", "--json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(
        (list.as_array().unwrap().len(), &list[1]["outcome"]["how"]),
        (2, &"completed".into())
    );
    let page = folder.path().join("page.html");
    let shown = bench(&runs).args(["show", "last", "--html"]).arg(&page).output().unwrap();
    assert!(told(&shown).contains("nothing to say of b"), "{}", told(&shown));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && !page.contains("http://") && !page.contains("https://"));
    let ids: Vec<&str> =
        list.as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap()).collect();
    let both = folder.path().join("both.html");
    let compared = bench(&runs)
        .args(["compare", ids[0], ids[1], "--json", "--html"])
        .arg(&both)
        .output()
        .unwrap();
    let page = fs::read_to_string(both).unwrap();
    assert!(
        page.contains("won back") && page.matches("<h2>Round 0: together</h2>").count() == 2,
        "{page}"
    );
    let compared: Value = serde_json::from_slice(&compared.stdout).unwrap();
    let gain = compared["containers"][0]["gain"]["value"].as_f64().unwrap();
    assert!(gain.abs() < 0.5, "the same twice: {compared:#}");
    // A stand-in for the query engine, beside a copy of the program: what it is asked, and what it is given.
    let beside = tempfile::tempdir().unwrap();
    let program = beside.path().join("crosstalk");
    install(Path::new(env!("CARGO_BIN_EXE_crosstalk")), &program);
    let query = |id: &str| {
        let mut command = Command::new(&program);
        command.arg("bench").arg("--runs").arg(&runs).args(["query", id, "select 1, 'a b'"]);
        command.env("PATH", "/usr/bin:/bin").output().unwrap()
    };
    let missing = query("last");
    assert_eq!(missing.status.code(), Some(1));
    assert!(told(&missing).contains("crosstalk-sql, which is neither"), "{}", told(&missing));
    let script = "#!/bin/sh\nprintf '%s|' \"$@\"\nls \"$2\"\nexit 3\n";
    install_script(script, &beside.path().join("crosstalk-sql"));
    for (asked, id) in [("last", ids[1]), (ids[0], ids[0])] {
        let output = query(asked);
        let said = told(&output);
        let expected = format!("sql|{}|select 1, 'a b'|", runs.join(id).join("data").display());
        assert!(said.starts_with(&expected), "{asked}: {said}");
        assert!(said.contains("containers") && said.contains("progress"), "{said}");
        assert_eq!(output.status.code(), Some(3), "the engine's own");
    }
}

#[test]
fn a_run_is_asked_in_sql_and_the_engine_answers_of_what_its_containers_did() {
    // Whatever builds this program for all tests builds the engine beside it.
    let engine = Path::new(env!("CARGO_BIN_EXE_crosstalk")).with_file_name("crosstalk-sql");
    if !engine.exists() {
        return skip("no crosstalk-sql beside crosstalk; make sql builds it");
    }
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let counts = "sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do echo \"done $i\"; sleep 0.1; done'";
    let text = format!(
        "benchmark: {{name: asked, max_t: 3, {PLAIN}}}\n\
         a: {{index: 0, command: {counts:?}, progress: {{number: done}}}}\n\
         b: {{index: 1, command: \"sleep 60\", start: 0.5}}\n"
    );
    let file = write(folder.path(), &text);
    assert!(bench(&runs).args(["run", &file, "--quiet"]).output().unwrap().status.success());
    let query = |sql: &str| {
        let asked = bench(&runs).args(["query", "last", sql, "--format", "csv"]).output().unwrap();
        (asked.status.code(), told(&asked))
    };
    let done = "SELECT container, max(done) AS done FROM progress GROUP BY container";
    assert_eq!(query(done), (Some(0), "container,done\na,16.0\n".to_owned()));
    // Who was beside it when it said so: two data sets of one run, joined on time.
    let beside = "SELECT b.container, min(a.done) > 3 AS later, count(*) > 1 AS often FROM progress a \
                  JOIN containers b ON b.slot_start_ns BETWEEN a.slot_start_ns - 200000000 AND a.slot_start_ns \
                  WHERE b.container <> a.container GROUP BY b.container";
    assert_eq!(query(beside), (Some(0), "container,later,often\nb,true,true\n".to_owned()));
    let (code, why) = query("SELECT nothing FROM progress");
    assert!(code == Some(2) && why.contains("nothing"), "{code:?}: {why}");
}

#[test]
fn an_exit_code_that_nobody_asked_for_is_told_with_the_result() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "benchmark: {{name: odd, max_t: 2, {PLAIN}}}\n\
         bad: {{index: 0, command: \"sleep 0.1; exit 3\"}}\nstopped: {{index: 1, command: \"sleep 60\"}}\n"
    );
    let file = write(folder.path(), &text);
    let ran = bench(folder.path()).args(["run", &file, "--quiet"]).output().unwrap();
    let shown = bench(folder.path()).args(["show", "last"]).output().unwrap();
    for output in [ran, shown] {
        let text = told(&output);
        assert!(text.contains("bad ended with exit code 3 in round 0"), "{text}");
        assert!(!text.contains("stopped ended with"), "{text}");
    }
}
