//! What a driver that was killed has left, and who takes it away.

use crate::skip::skip;
use crate::{PLAIN, bench, can_make_cgroups, has_started, told, write};
use crosstalk_host::{ControlGroup, HostRoot};
use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl_sim::{Profile, mount};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
fn what_a_killed_driver_left_is_gone_with_the_next_start() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (runs, others) = (folder.path().join("runs"), folder.path().join("others"));
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
    let left =
        || ControlGroup::list(&HostRoot::default(), &format!("crosstalk-bench-{}-", driver.id()));
    let group = left().into_iter().next().unwrap();
    // Any start will do, also one that keeps its runs elsewhere.
    let short = format!("benchmark: {{name: next, {PLAIN}}}\na: {{index: 0, command: \"true\"}}\n");
    let short = write(folder.path(), &short);
    let ran = bench(&others).args(["run", &short]).output().unwrap();
    let text = told(&ran);
    assert!(ran.status.success(), "{text}");
    assert!(text.contains(&format!("removed what was left: cgroup {group}")), "{text}");
    assert!(left().is_empty(), "{:?}", left());
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
    let text = clean();
    assert!(!text.contains("monitor group"), "its driver lives: {text}");
    assert!(!monitor_groups(mounted.path()).is_empty());
    driver.kill().unwrap();
    driver.wait().unwrap();
    let text = clean();
    assert!(text.contains("monitor group"), "{text}");
    assert_eq!(monitor_groups(mounted.path()), Vec::<String>::new());
    simulator.unmount().unwrap();
}

#[test]
fn what_a_driver_of_another_pid_namespace_uses_is_left_alone_until_it_is_asked_for() {
    if !can_make_cgroups() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    let text = format!(
        "benchmark: {{name: inside, max_t: 60, {PLAIN}}}\na: {{index: 0, command: \"sleep 1000\"}}\n"
    );
    let file = write(folder.path(), &text);
    // Inside it is the first process, which outside is another.
    let program = bench(&inner);
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(program.get_program());
    command.args(program.get_args()).args(["run", &file, "--quiet"]).stdin(Stdio::null());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut driver = match command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn() {
        Ok(driver) => driver,
        Err(error) => return skip(format!("unshare: {error}")),
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while !has_started(&inner) {
        if let Some(status) = driver.try_wait().unwrap() {
            let why = std::io::read_to_string(driver.stderr.take().unwrap()).unwrap();
            return skip(format!("{status}: {why}"));
        }
        assert!(Instant::now() < deadline, "nobody started");
        #[allow(clippy::disallowed_methods)] // a file tells nobody what is written to it
        std::thread::sleep(Duration::from_millis(20));
    }
    let there = || ControlGroup::list(&HostRoot::default(), "crosstalk-bench-1-");
    let groups = there();
    let group = groups.iter().find(|name| name.ends_with("-0-a")).unwrap();
    let runs = folder.path().join("outer");
    // An engine of this machine may be shared with others who run experiments; theirs are not for a test to take.
    let clean = |args: &[&str]| {
        let mut command = bench(&runs);
        command.arg("clean").args(args).env("DOCKER_HOST", "unix:///nowhere/docker.sock");
        told(&command.output().unwrap())
    };
    let text = clean(&[]);
    assert!(text.contains("left alone") && text.contains(&format!("cgroup {group}")), "{text}");
    assert!(text.contains("crosstalk bench clean --elsewhere removes it"), "{text}");
    let short =
        format!("benchmark: {{name: outside, {PLAIN}}}\na: {{index: 0, command: \"true\"}}\n");
    let ran = told(&bench(&runs).args(["run", &write(folder.path(), &short)]).output().unwrap());
    assert!(ran.contains("left alone") && ran.contains(group), "{ran}");
    assert!(there().contains(group) && driver.try_wait().unwrap().is_none(), "it lives");
    let list = told(&bench(&inner).arg("list").output().unwrap());
    assert!(list.contains("elsewhere"), "{list}");
    driver.kill().unwrap();
    driver.wait().unwrap();
    let text = told(
        &bench(&inner)
            .arg("clean")
            .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
            .output()
            .unwrap(),
    );
    assert!(text.contains("left alone") && text.contains("run "), "its run is named, too: {text}");
    let text = clean(&["--elsewhere"]);
    assert!(
        text.contains(&format!("removed cgroup {group}")) && !there().contains(group),
        "{text}"
    );
}
