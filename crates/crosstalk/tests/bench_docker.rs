//! `crosstalk bench` with a real Docker Engine, killed at random moments.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

#[path = "../../inventory/tests/support/mod.rs"]
mod engine;
#[path = "../../bench/tests/support/skip.rs"]
mod skip;
mod support;

use crosstalk_host::{ControlGroup, HostRoot};
use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl_sim::{Profile, mount};
use skip::skip;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::crosstalk;

/// Drivers that are there at once, so that what several have left stands together; and how often.
const DRIVERS: usize = 5;
const BATCHES: usize = 2;

/// All that drivers can leave: containers, cgroups of processes and of containers, control and monitor groups, mounts.
fn there_is(host: &str, cgroup: &str, resctrl: &Path, drivers: &[u32]) -> BTreeSet<String> {
    let names = engine::run("docker", &["-H", host, "ps", "-a", "--format", "{{.Names}}"]).unwrap();
    let mut all: BTreeSet<String> = names.lines().map(|name| format!("container {name}")).collect();
    // Other tests have processes of their own.
    for driver in drivers {
        let own = format!("crosstalk-bench-{driver}-");
        let groups = ControlGroup::list(&HostRoot::default(), &own);
        all.extend(groups.into_iter().map(|name| format!("cgroup {name}")));
    }
    for root in ["/sys/fs/cgroup".into(), "/sys/fs/cgroup/memory".to_owned()] {
        let inside = std::fs::read_dir(format!("{root}{cgroup}")).into_iter().flatten().flatten();
        let folders = inside.filter(|entry| entry.path().is_dir());
        all.extend(folders.map(|entry| format!("cgroup {}", entry.path().display())));
    }
    for group in Resctrl::open(resctrl).unwrap().control_groups().unwrap() {
        all.insert(format!("control group {}", group.name()));
        let below = group.monitor_groups().unwrap_or_default();
        all.extend(below.iter().map(|one| format!("monitor group {}", one.name())));
    }
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let place = |line: &str| line.split(' ').nth(1).unwrap_or_default().to_owned();
    let ours = mounts.lines().map(place).filter(|at| at.contains(cgroup.trim_start_matches('/')));
    all.extend(ours.map(|at| format!("mount {at}")));
    all
}

#[test]
fn after_kills_at_random_moments_one_clean_leaves_no_container_group_or_mount() {
    if Command::new("dockerd").arg("--version").output().is_err() {
        return skip("no dockerd; apt-get install docker.io");
    }
    let mounted = tempfile::tempdir().unwrap();
    let simulator = match mount(Profile::intel_spr(), mounted.path()) {
        Ok(simulator) => simulator,
        Err(error) => return skip(error),
    };
    let (daemon, host) = engine::docker("killed:1");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("experiment.yaml");
    let text = "benchmark: {name: killed, max_t: 60, scheduler: {implementation: rdt}, data: {probe: false}}\n\
                a: {index: 0, critical: true, image: \"killed:1\", command: \"while :; do :; done\", cpus: 0.1}\n\
                b: {index: 1, image: \"killed:1\", command: \"sleep 1000\", start: 0.2}\n\
                c: {index: 2, command: \"sh -c 'sleep 1000 & wait'\"}\n";
    std::fs::write(&file, text).unwrap();
    let bench = || {
        let mut command = crosstalk();
        command.args(["bench", "--runs"]).arg(folder.path().join("runs"));
        command.arg("--resctrl-root").arg(mounted.path()).env("DOCKER_HOST", &host);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let start = || -> Child { bench().arg("run").arg(&file).arg("--quiet").spawn().unwrap() };
    let now = |drivers: &[u32]| there_is(&host, &daemon.cgroup, mounted.path(), drivers);
    let driver_of = |what: &String| {
        let rest = what.strip_prefix("container crosstalk-bench-")?;
        rest.split('-').next().map(str::to_owned)
    };
    // What an engine makes once it makes for its first container, and keeps.
    engine::run("docker", &["-H", &host, "run", "--rm", "killed:1", "/bin/sleep", "0"]).unwrap();
    let before = now(&[]);

    // How long it takes one until all of it runs says from when to when there is something to be killed in.
    let began = Instant::now();
    let mut first = start();
    daemon.eventually("all of it runs", || {
        let all = now(&[]);
        let has =
            |part: &str, end: &str| all.iter().any(|w| w.starts_with(part) && w.ends_with(end));
        let control = has("control group crosstalk-bench-", "");
        (control && has("container ", "-b") && has("monitor group ", "")).then_some(())
    });
    let whole = began.elapsed();
    first.kill().unwrap();
    first.wait().unwrap();

    let seed = std::env::var("CROSSTALK_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()) ^ began_ns());
    eprintln!("CROSSTALK_SEED={seed} takes the same moments; all of it runs after {whole:?}");
    let (mut random, mut pids) = (seed, vec![first.id()]);
    for _ in 0..BATCHES {
        let began = Instant::now();
        // Each has its own part of the time, in which its moment is random: some die early, some when all of it runs.
        let mut drivers: Vec<(Duration, Child)> = (0..DRIVERS)
            .map(|part| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let share = (random >> 40) as f64 / (1_u64 << 24) as f64;
                // Several take longer than one.
                (whole.mul_f64((part as f64 + share) / DRIVERS as f64 * 3.0), start())
            })
            .collect();
        pids.extend(drivers.iter().map(|(_, driver)| driver.id()));
        for (after, driver) in &mut drivers {
            engine::pace(after.saturating_sub(began.elapsed()));
            driver.kill().unwrap();
            driver.wait().unwrap();
        }
    }
    // What the engine was asked for it finishes, whoever has asked.
    let mut left = now(&pids);
    daemon.eventually("the engine is done", || {
        engine::pace(Duration::from_millis(500));
        let then = std::mem::replace(&mut left, now(&pids));
        (then == left).then_some(())
    });
    let drivers: BTreeSet<String> = left.iter().filter_map(driver_of).collect();
    assert!(drivers.len() > 1, "seed {seed}: what several have left was to stand: {left:#?}");
    let cleaned = bench().arg("clean").stderr(Stdio::piped()).output().unwrap();
    let told = String::from_utf8_lossy(&cleaned.stderr).into_owned();
    assert!(cleaned.status.success(), "seed {seed}: {told}");
    let after = now(&pids);
    let more: Vec<&String> = after.difference(&before).collect();
    assert!(more.is_empty(), "seed {seed}: {more:#?}");
    drop(daemon);
    simulator.unmount().unwrap();
}

fn began_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_nanos() as u64)
}
