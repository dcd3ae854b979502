//! `crosstalk bench` as a person uses it.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

#[path = "../../bench/tests/support/skip.rs"]
mod skip;
mod support;

use crosstalk_host::{ControlGroup, HostRoot};
use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl_sim::{Profile, mount};
use serde_json::Value;
use skip::skip;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{crosstalk, install, install_script};

/// Quick to start: nothing that needs the kernel's programs.
const PLAIN: &str = "data: {profilefrequency: 50, perf: false, probe: false, rdt: false}";

fn bench(runs: &Path) -> Command {
    let mut command = crosstalk();
    command.arg("bench").arg("--runs").arg(runs).stdin(Stdio::null());
    command
}

fn write(folder: &Path, text: &str) -> String {
    let file = folder.join("experiment.yaml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// Whether this machine lets us make cgroups.
fn can_make_cgroups() -> bool {
    let name = format!("crosstalk-test-bench-{}", std::process::id());
    match ControlGroup::create(&HostRoot::default(), &name) {
        Ok(group) => group.remove().is_ok(),
        Err(error) => {
            skip(error);
            false
        }
    }
}

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
    let counts = "sh -c 'for i in 1 2 3 4 5 6 7; do echo \"done $i\"; sleep 0.1; done'";
    let text = format!(
        "benchmark: {{name: asked, max_t: 2, {PLAIN}}}\n\
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
    assert_eq!(query(done), (Some(0), "container,done\na,7.0\n".to_owned()));
    // Who was beside it when it said so: two data sets of one run, joined on time.
    let beside = "SELECT b.container, min(a.done) > 3 AS later, count(*) > 1 AS often FROM progress a \
                  JOIN containers b ON b.slot_start_ns BETWEEN a.slot_start_ns - 200000000 AND a.slot_start_ns \
                  WHERE b.container <> a.container GROUP BY b.container";
    assert_eq!(query(beside), (Some(0), "container,later,often\nb,true,true\n".to_owned()));
    let (code, why) = query("SELECT nothing FROM progress");
    assert!(code == Some(2) && why.contains("nothing"), "{code:?}: {why}");
}

/// Whether a run's events tell of a start by now.
fn has_started(runs: &Path) -> bool {
    let events = fs::read_dir(runs).into_iter().flatten().flatten();
    let mut texts = events.map(|run| fs::read_to_string(run.path().join("events.jsonl")));
    texts.any(|text| text.is_ok_and(|text| text.contains("\"event\":\"start\"")))
}

#[test]
fn a_run_that_was_killed_says_which_cgroups_it_had_and_is_drawn() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let text = format!(
        "benchmark: {{name: cut, max_t: 60, {PLAIN}}}\na: {{index: 0, command: \"sleep 1000\"}}\n"
    );
    let file = write(folder.path(), &text);
    let mut driver = bench(&runs).args(["run", &file, "--quiet"]).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !has_started(&runs) {
        assert!(Instant::now() < deadline, "nobody started");
        #[allow(clippy::disallowed_methods)] // a file tells nobody what is written to it
        std::thread::sleep(Duration::from_millis(20));
    }
    driver.kill().unwrap();
    driver.wait().unwrap();
    assert!(bench(&runs).arg("clean").output().unwrap().status.success());
    let page = folder.path().join("page.html");
    let drawn = bench(&runs).args(["show", "last", "--html"]).arg(&page).output().unwrap();
    assert!(drawn.status.success(), "{}", told(&drawn));
    let output = bench(&runs).args(["show", "last", "--json"]).output().unwrap();
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let round = &shown["run"]["rounds"][0];
    assert_eq!((&round["cgroup_ids"][0][0], &round["end_ns"]), (&"a".into(), &Value::Null));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<h2>Round 0: together</h2>") && page.contains("<rect"), "{page}");
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

#[test]
fn after_kills_at_any_moment_one_clean_leaves_nothing() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let mounted = tempfile::tempdir().unwrap();
    // Without FUSE there is no simulator, and no groups of it to leave behind.
    let simulator = mount(Profile::small(), mounted.path());
    let simulator = simulator.map_err(|error| skip(format!("in part: {error}"))).ok();
    let scheduler = if simulator.is_some() { "rdt" } else { "default" };
    let bench = |runs: &Path| {
        let mut command = bench(runs);
        command.arg("--resctrl-root").arg(mounted.path());
        command
    };
    let text = format!(
        "benchmark: {{name: killed, max_t: 60, scheduler: {{implementation: {scheduler}}}, {PLAIN}}}\n\
         a: {{index: 0, critical: true, command: \"sh -c 'sleep 1000 & wait'\"}}\n\
         b: {{index: 1, command: \"sleep 1000\", start: 0.2}}\nc: {{index: 2, command: \"sleep 1000\", start: 50}}\n"
    );
    let file = write(folder.path(), &text);
    let mut drivers = Vec::new();
    // Spread over all of preparing and running.
    for millis in [5, 20, 40, 70, 110, 160, 230, 320, 500, 900] {
        let mut driver = bench(&runs)
            .args(["run", &file, "--quiet"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        #[allow(clippy::disallowed_methods)] // the moment is what is tried
        std::thread::sleep(Duration::from_millis(millis));
        driver.kill().unwrap();
        driver.wait().unwrap();
        drivers.push(driver.id());
    }
    let left = || {
        let mut left = Vec::new();
        for driver in &drivers {
            let own = format!("crosstalk-bench-{driver}-");
            left.extend(ControlGroup::list(&HostRoot::default(), &own));
            let groups = simulator.as_ref().map(|_| Resctrl::open(mounted.path()).unwrap());
            let groups = groups.map(|mounted| mounted.control_groups().unwrap());
            let named = groups.into_iter().flatten().map(|group| format!("group {}", group.name()));
            left.extend(named.filter(|name| name.contains(&own)));
        }
        left
    };
    let before = left();
    assert!(before.iter().any(|name| !name.starts_with("group")), "the last was in the middle");
    assert!(
        simulator.is_none() || before.iter().any(|name| name.starts_with("group")),
        "{before:?}"
    );
    let output = bench(&runs).arg("clean").output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(left(), Vec::<String>::new());
    let list = bench(&runs).arg("list").output().unwrap();
    let list = told(&list);
    assert!(list.contains("killed") && !list.contains("running"), "{list}");
    let again = bench(&runs).arg("clean").output().unwrap();
    assert!(!told(&again).contains("run 2"), "{}", told(&again));
    if let Some(simulator) = simulator {
        simulator.unmount().unwrap();
    }
}

#[test]
fn a_signal_at_any_moment_ends_a_run_that_leaves_nothing_behind() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let text = format!(
        "benchmark: {{name: signalled, max_t: 60, {PLAIN}}}\n\
         a: {{index: 0, command: \"sh -c 'sleep 1000 & wait'\"}}\nb: {{index: 1, command: \"sleep 1000\", start: 50}}\n"
    );
    let file = write(folder.path(), &text);
    // Another moment every time, after it listens to signals: the first line says that it does.
    for (signal, spread) in [("INT", 1_500), ("TERM", 1_500), ("INT", 300), ("TERM", 300)] {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let millis = u64::from(now.subsec_nanos()) / 1_000 % spread;
        let mut driver = bench(&runs)
            .args(["run", &file])
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = std::io::BufReader::new(driver.stderr.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        #[allow(clippy::disallowed_methods)] // the moment is what is tried
        std::thread::sleep(Duration::from_millis(millis));
        let pid = driver.id().to_string();
        assert!(
            Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap().success()
        );
        let reader = std::thread::spawn(move || std::io::read_to_string(said).unwrap_or_default());
        let status = driver.wait().unwrap();
        let said = reader.join().unwrap();
        let left = ControlGroup::list(&HostRoot::default(), &format!("crosstalk-bench-{pid}-"));
        assert!(left.is_empty(), "SIG{signal} after {millis} ms: {left:?}\n{line}{said}");
        assert!(status.code().is_some(), "SIG{signal} after {millis} ms: {status}: {said}");
    }
    let list = bench(&runs).args(["list", "--json"]).output().unwrap();
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    for run in list.as_array().unwrap() {
        assert_eq!(run["outcome"]["how"], "interrupted", "{run:#}");
    }
    let clean = told(&bench(&runs).arg("clean").output().unwrap());
    assert!(!clean.contains("crosstalk-bench-"), "{clean}");
}

/// Names of monitor groups, of whatever control group.
fn monitor_groups(root: &Path) -> Vec<String> {
    let all = Resctrl::open(root).unwrap().control_groups().unwrap();
    let below = all.iter().flat_map(|group| group.monitor_groups().unwrap_or_default());
    below.map(|group| group.name()).collect()
}

#[test]
fn groups_that_the_cache_was_read_with_are_cleaned_up_too_but_not_from_under_one_who_lives() {
    if !can_make_cgroups() {
        return;
    }
    let (folder, mounted) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let simulator = match mount(Profile::small(), mounted.path()) {
        Ok(simulator) => simulator,
        Err(error) => return skip(error),
    };
    let bench = || {
        let mut command = bench(&folder.path().join("runs"));
        command.arg("--resctrl-root").arg(mounted.path());
        command
    };
    let text = "benchmark: {name: read, max_t: 60, data: {probe: false}}\n\
                a: {index: 0, command: \"sh -c 'while :; do :; done'\"}\n";
    let file = write(folder.path(), text);
    let mut driver = bench()
        .args(["run", &file, "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while monitor_groups(mounted.path()).is_empty() {
        assert!(Instant::now() < deadline, "no process was given a group");
        #[allow(clippy::disallowed_methods)] // a file system tells nobody what changes in it
        std::thread::sleep(Duration::from_millis(20));
    }
    let clean = || told(&bench().arg("clean").output().unwrap());
    assert!(clean().contains("nothing was left"), "its driver lives");
    assert!(!monitor_groups(mounted.path()).is_empty());
    driver.kill().unwrap();
    driver.wait().unwrap();
    let text = clean();
    assert!(text.contains("monitor group"), "{text}");
    assert_eq!(monitor_groups(mounted.path()), Vec::<String>::new());
    simulator.unmount().unwrap();
}

#[test]
fn adaptive_says_that_it_does_nothing_where_the_kernel_shows_it_nothing() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = "
benchmark: {name: blind, max_t: 1, scheduler: {implementation: adaptive}, data: {probe: false, rdt: false}}
a: {index: 0, command: sleep 60}
";
    let file = write(folder.path(), text);
    let inner = bench(&folder.path().join("runs"));
    // Cgroups are the owner's; programs in the kernel are for who has these.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-sys_admin,-bpf,-perfmon"]).arg(inner.get_program());
    command.args(inner.get_args()).args(["run", &file, "--json"]).stdin(Stdio::null());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: setpriv: {error}"),
    };
    assert!(output.status.success(), "{}", told(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let decisions = &found["summary"]["decisions"];
    assert_eq!(decisions[0]["what"], "idle", "{found:#}");
    let why = decisions[0]["told"].as_str().unwrap();
    assert!(why.starts_with("adaptive does nothing: who slows whom is not measured: "), "{why}");
}

#[test]
fn a_service_that_nobody_disturbs_is_left_as_it_is() {
    if !can_make_cgroups() || std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return eprintln!("skipped: needs two cores and cgroups");
    }
    // The same decisions over simulated machines are a test of the crate; these are real, and fewer unless more are asked for.
    let asked = std::env::var("CROSSTALK_QUIET_RUNS").ok().and_then(|text| text.parse().ok());
    for run in 0..asked.unwrap_or(2) {
        let folder = tempfile::tempdir().unwrap();
        let text = "
benchmark: {name: quiet, max_t: 7, scheduler: {implementation: adaptive}, data: {probe: false}}
service: {index: 0, command: crosstalk workload chase --bytes 1MiB, core: 0, critical: true}
idler: {index: 1, command: \"sh -c 'while :; do sleep 0.05; done'\", core: 1, start: 2}
";
        let file = write(folder.path(), text);
        let runs = folder.path().join("runs");
        let output = bench(&runs).args(["run", &file, "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let absent = found["summary"]["run"]["absent"].as_array().unwrap();
        if let Some(why) = absent.iter().find(|pair| pair[0] == "counters") {
            // Who sees nothing does nothing, which shows nothing; but it must say so.
            assert_eq!(found["summary"]["decisions"][0]["what"], "idle", "run {run}: {why}");
            return eprintln!("skipped: {why}");
        }
        assert_eq!(found["summary"]["decisions"], Value::Array(Vec::new()), "run {run}");
    }
}
