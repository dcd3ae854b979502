//! `crosstalk bench` as a person uses it.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use crosstalk_host::{ControlGroup, HostRoot};
use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl_sim::{Profile, mount};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::crosstalk;

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
            eprintln!("skipped: {error}");
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
    assert!(page.contains("won back") && page.matches("<h2>Round 0</h2>").count() == 2, "{page}");
    let compared: Value = serde_json::from_slice(&compared.stdout).unwrap();
    let gain = compared["containers"][0]["gain"]["value"].as_f64().unwrap();
    assert!(gain.abs() < 0.5, "the same twice: {compared:#}");
    let asked =
        bench(&runs).args(["query", "last", "select 1"]).env("PATH", "/nonexistent").output();
    // Tests of the whole workspace build the query engine beside it.
    let asked = asked.unwrap();
    assert!(asked.status.success() || told(&asked).contains("crosstalk-sql, which is neither"));
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
    let simulator = simulator.map_err(|error| eprintln!("skipped in part: {error}")).ok();
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
        Err(error) => return eprintln!("skipped: {error}"),
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

/// Runs of the experiment before it is said that nothing was won back: other tests and other machines of the host take
/// cores as well, and where the batch job goes, they are who then come to the service's.
const ROUNDS: usize = 3;

#[test]
fn a_service_whose_core_is_taken_wins_back_most_of_it() {
    if !can_make_cgroups() || std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return eprintln!("skipped: needs two cores and cgroups");
    }
    let mut failed = Vec::new();
    for _ in 0..ROUNDS {
        let before = idle_and_all();
        match won_back() {
            Ok(()) => return,
            Err(why) => failed.push(why),
        }
        let now = idle_and_all();
        let (idle, all) = (now.0 - before.0, now.1 - before.1);
        if idle * 10 < all {
            return eprintln!("skipped: others left only {idle} of {all} ticks idle");
        }
    }
    panic!("too little was won back: {failed:#?}");
}

#[test]
fn a_service_that_nobody_disturbs_is_left_as_it_is() {
    if !can_make_cgroups() || std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return eprintln!("skipped: needs two cores and cgroups");
    }
    // The same decisions over simulated machines are a test of the crate; these are real, and fewer.
    for run in 0..2 {
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
        assert_eq!(found["summary"]["decisions"], Value::Array(Vec::new()), "run {run}");
    }
}

/// Lets a batch job take the core of a service under the adaptive scheduler.
fn won_back() -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let text = "
benchmark: {name: adaptive, max_t: 17, scheduler: {implementation: adaptive}, data: {probe: false}}
service: {index: 0, command: crosstalk workload chase --bytes 1MiB, core: 0, critical: true}
batch: {index: 1, command: crosstalk workload compute, core: 0, start: 4, stop: 16}
";
    let file = write(folder.path(), text);
    let output =
        bench(&folder.path().join("runs")).args(["run", &file, "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let absent = found["summary"]["run"]["absent"].as_array().unwrap();
    if let Some(why) = absent.iter().find(|pair| pair[0] == "counters") {
        eprintln!("skipped: {why}");
        return Ok(());
    }
    let decisions = found["summary"]["decisions"].as_array().unwrap();
    let acted = decisions.iter().find(|event| event["what"] == "acted");
    let acted = acted.ok_or_else(|| format!("nothing was done: {found:#}"))?;
    assert_eq!((&acted["container"], &acted["victim"]), (&"batch".into(), &"service".into()));
    let service = &found["summary"]["containers"][0];
    let fared = service["fared"].as_array().unwrap();
    let lost = fared
        .iter()
        .find(|f| f["beside"].as_array().is_some_and(|b| !b.is_empty()) && f["held_back"] == false);
    let lost = lost.and_then(|fared| fared["slowdown"]["value"].as_f64());
    let won = service["won_back"]["value"].as_f64();
    let held = fared.iter().find(|f| f["held_back"] == true);
    let still = held.and_then(|fared| fared["slowdown"]["value"].as_f64());
    // The stretch before it acted may be too short to hold two things the service said.
    let recovered = match (lost, won) {
        (Some(_), Some(won)) => won >= 0.5,
        _ => still.is_some_and(|still| still < 0.25),
    };
    if recovered { Ok(()) } else { Err(format!("{service:#} {decisions:#?}")) }
}

/// Ticks that all cores were idle so far, and all ticks.
fn idle_and_all() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let ticks: Vec<u64> =
        text.lines().next().unwrap().split_whitespace().skip(1).flat_map(str::parse).collect();
    (ticks[3] + ticks[4], ticks.iter().take(8).sum())
}
