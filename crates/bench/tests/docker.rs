//! Containers of a real Docker Engine, started by the test, with an image imported from a busybox tree.
#![allow(clippy::unwrap_used)]

mod contained;
#[path = "../../inventory/tests/support/mod.rs"]
mod engine;
mod registry;
mod support;

use contained::{bench, connect, has_engine, names, running};
use crosstalk_bench::experiment::{Container, Registry as Login};
use crosstalk_bench::live::Lines;
use crosstalk_bench::result::Recorded;
use crosstalk_bench::runtime::{DockerEngine, Runtime};
use crosstalk_bench::store::{EventKind, Outcome};
use crosstalk_bench::{Driver, Whose};
use crosstalk_host::{HostRoot, disks};
use crosstalk_settings::Secret;
use registry::{Access, Registry};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{PLAIN, all_on_plan, off_plan_ms, seconds};

/// An engine that starts beside another one's containers would make them late.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn containers_run_on_schedule_and_are_gone_also_after_a_kill() {
    let _alone = alone();
    if !has_engine() {
        return;
    }
    let (daemon, host) = engine::docker("counter:1");
    // What it says on standard error is kept, and is no progress.
    let counts = "i=0; while :; do i=$((i+1)); echo \"done $i\"; echo \"done 1000000\" >&2; sleep 0.05; done";
    let text = format!(
        "benchmark: {{name: contained, max_t: 4, {PLAIN}}}
a: {{index: 0, image: \"counter:1\", command: {counts:?}, progress: {{number: done}}}}
b: {{index: 1, image: \"counter:1\", command: \"sleep 60\", start: 1, stop: 2}}
c: {{index: 2, command: \"sleep 60\", start: 1}}
"
    );
    let bench = bench(&daemon);
    let (dir, record) = bench.run(&text).unwrap();
    assert_eq!(record.outcome, Some(Outcome::Completed));
    assert_eq!(names(&host), "", "no container is left");
    let events = dir.events().unwrap();
    let stopped = seconds(&events, "b", |kind| matches!(kind, EventKind::Stop { .. }));
    assert!(stopped.len() == 1 && stopped[0] >= 2.0, "{events:#?}");
    assert!(record.engine.clone().is_some_and(|engine| engine.starts_with("docker ")));
    let recorded = Recorded::read(&dir, &record).unwrap();
    let printed = std::fs::read_to_string(dir.output(0, "a")).unwrap();
    let said: Vec<f64> =
        recorded.progress.iter().filter(|point| point.container == "a").map(|p| p.done).collect();
    assert!(said.len() > 10 && printed.contains("done 1000000"), "{said:?}: {printed}");
    assert!(said.iter().all(|done| *done < 1_000.0), "{said:?}");
    let charged = recorded.usage.iter().filter(|u| u.container == "a" && u.memory_bytes > Some(0));
    assert!(charged.count() > 3, "{:?}", recorded.usage);

    // What a driver that is gone has left is known by its label; one of another machine may live.
    let own = Driver::own(&HostRoot::default()).to_string();
    let home = own.rsplit('-').next().unwrap();
    let gone = format!("--label=crosstalk.bench.driver=4194303-1-{home}");
    let elsewhere = "--label=crosstalk.bench.driver=4194303-1-0000000000000001";
    for (name, label) in
        [("stranger", "--label=x=y"), ("elsewhere", elsewhere), ("orphan", gone.as_str())]
    {
        let name = format!("--name={name}");
        let sleep = ["-d", "--network=none", &name, label, "counter:1", "/bin/sleep", "600"];
        engine::run("docker", &[&["-H", &host, "run"], &sleep[..]].concat()).unwrap();
    }
    let cleaned = connect(&daemon).clean(Whose::Gone, &AtomicBool::new(false));
    assert_eq!(cleaned.done, ["container orphan"]);
    assert_eq!(cleaned.elsewhere, ["container elsewhere"]);
    let mut said = Vec::new();
    let mut lines = Lines::new(&mut said, false);
    let beside =
        format!("benchmark: {{name: beside, {PLAIN}}}\na: {{index: 0, command: \"true\"}}\n");
    crosstalk_bench::run(&support::parse(&beside), &beside, &bench.options, &mut lines).unwrap();
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("and may be at it: container elsewhere; "), "{said}");
    assert!(names(&host).contains("elsewhere Up"), "{}", names(&host));
    let cleaned = connect(&daemon).clean(Whose::GoneAndElsewhere, &AtomicBool::new(false));
    assert_eq!(
        (cleaned.done, cleaned.elsewhere.len()),
        (vec!["container elsewhere".to_owned()], 0)
    );
    assert!(names(&host).starts_with("stranger Up"), "{}", names(&host));

    let missing = "benchmark: {name: none}\na: {index: 0, image: \"no-such-image:9\"}\n";
    assert!(bench.run(missing).is_err(), "no registry can be reached");
    assert!(names(&host).starts_with("stranger Up"));
}

/// What a file of a process's cgroup says, in the hierarchy of a controller or in the unified one.
fn limit_of(pid: &str, controller: &str, v1: &str, v2: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let place = |wanted: &str| {
        text.lines().find_map(|line| {
            let (names, path) = line.split_once(':')?.1.split_once(':')?;
            names.split(',').any(|name| name == wanted).then(|| path.to_owned())
        })
    };
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    match place(controller) {
        Some(path) => read(format!("/sys/fs/cgroup/{controller}{path}/{v1}")),
        None => read(format!("/sys/fs/cgroup{}/{v2}", place("").unwrap())),
    }
}

#[test]
fn a_container_has_the_limits_ports_folders_and_variables_of_the_file() {
    let _alone = alone();
    if !has_engine() {
        return;
    }
    let (daemon, host) = engine::docker("counter:9");
    let bench = bench(&daemon);
    let shared = bench.folder.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("file"), "from the host\n").unwrap();
    let shared = shared.display().to_string();
    let disk = disks(&HostRoot::default()).into_iter().next();
    let io = disk.as_ref().map_or(String::new(), |disk| {
        format!(", io: {{read: 1MiB, write_ops: 7, disk: {}}}", disk.name)
    });
    let tries = "echo \"K is $K\"; cat /seen/file; echo x > /seen/new; echo y > /own/new; sleep 60";
    let text = format!(
        "benchmark: {{name: limits, max_t: 3, {PLAIN}}}
a: {{index: 0, image: \"counter:9\", command: {tries:?}, core: 0, memory: 64MiB, cpus: 0.5, env: {{K: v}}, \
        port: \"18099:80\", volumes: [\"{shared}:/seen:ro\", \"{shared}:/own\"]{io}}}
"
    );
    let looker = std::thread::spawn(move || {
        let name = running(&host, "a");
        let about = engine::run("docker", &["-H", &host, "inspect", &name]).unwrap();
        let about: serde_json::Value = serde_json::from_str(&about).unwrap();
        let pid = about[0]["State"]["Pid"].to_string();
        let read = |controller: &str, v1: &str, v2: &str| limit_of(&pid, controller, v1, v2);
        let limits = [
            read("cpuset", "cpuset.cpus", "cpuset.cpus"),
            read("memory", "memory.limit_in_bytes", "memory.max"),
            read("cpu", "cpu.cfs_quota_us", "cpu.max"),
            read("blkio", "blkio.throttle.read_bps_device", "io.max"),
            read("blkio", "blkio.throttle.write_iops_device", "io.max"),
        ];
        (about, limits)
    });
    let (dir, record) = bench.run(&text).unwrap();
    let (about, [cores, memory, quota, read, written]) = looker.join().unwrap();
    assert_eq!(record.outcome, Some(Outcome::Completed));
    assert_eq!((cores.as_str(), memory.as_str()), ("0", "67108864"));
    assert!(quota.starts_with("50000"), "half of 100 ms: {quota}");
    if disk.is_some() {
        assert!(read.contains("1048576"), "{read}");
        assert!(written.ends_with(" 7") || written.contains("wiops=7"), "{written}");
    }
    let bound = &about[0]["HostConfig"]["PortBindings"]["80/tcp"][0]["HostPort"];
    assert_eq!(bound, "18099", "{about:#}");
    assert_eq!(about[0]["HostConfig"]["Init"], true);
    let said = std::fs::read_to_string(dir.output(0, "a")).unwrap();
    assert!(said.contains("K is v\n") && said.contains("from the host\n"), "{said}");
    assert!(said.contains("Read-only"), "{said}");
    let new = std::fs::read_to_string(std::path::Path::new(&shared).join("new")).unwrap();
    assert_eq!(new, "y\n", "the other of the two can be written");
}

#[test]
fn containers_start_and_end_on_time_whatever_their_engine_takes() {
    let _alone = alone();
    if !has_engine() {
        return;
    }
    let (daemon, _) = engine::docker("counter:3");
    let bench = bench(&daemon);
    // As little as can be collected, and all there is.
    for (data, runs) in [(PLAIN, 5), ("scheduler: {implementation: adaptive}", 2)] {
        let text = format!(
            "benchmark: {{name: on-time, max_t: 1.8, {data}}}
a: {{index: 0, image: \"counter:3\", command: \"sleep 60\"}}
b: {{index: 1, image: \"counter:3\", command: \"sleep 60\", start: 0.7, stop: 1.2}}
c: {{index: 2, command: \"sleep 60\"}}
"
        );
        all_on_plan(runs, || {
            let (dir, record) = bench.run(&text).unwrap();
            assert_eq!(record.outcome, Some(Outcome::Completed));
            let events = dir.events().unwrap();
            for name in ["a", "b"] {
                let of = |is: fn(&EventKind) -> bool| seconds(&events, name, is).len();
                assert_eq!(of(|kind| matches!(kind, EventKind::Start { .. })), 1, "{events:#?}");
                assert_eq!(of(|kind| *kind == EventKind::Kill), 0, "{events:#?}");
            }
            off_plan_ms(&events, &[("a", 1.8), ("b", 1.2), ("c", 1.8)])
        });
    }
}

#[test]
fn a_container_that_takes_anothers_core_is_held_back() {
    let _alone = alone();
    if !has_engine() {
        return;
    }
    let (daemon, _) = engine::docker("counter:10");
    let bench = bench(&daemon);
    let busy = "while :; do :; done";
    let text = format!(
        "benchmark: {{name: adaptive, max_t: 18, scheduler: {{implementation: adaptive}}}}
service: {{index: 0, image: \"counter:10\", command: {busy:?}, core: 0, critical: true}}
batch: {{index: 1, image: \"counter:10\", command: {busy:?}, core: 0, start: 4, stop: 16}}
"
    );
    let (dir, record) = bench.run(&text).unwrap();
    let events = dir.events().unwrap();
    let decisions = events.iter().filter_map(|event| match &event.kind {
        EventKind::Decision(decision) => Some(decision),
        _ => None,
    });
    let decisions: Vec<_> = decisions.collect();
    if let Some((_, why)) = record.absent.iter().find(|(what, _)| what == "counters") {
        assert_eq!(decisions[0].what, "idle", "{decisions:#?}");
        return support::skip(format!("in part, nobody sees who runs: {why}"));
    }
    let acted = decisions.iter().find(|decision| decision.what == "acted");
    let acted = acted.unwrap_or_else(|| panic!("nothing was done: {decisions:#?}"));
    let whom = (acted.container.as_deref(), acted.victim.as_deref());
    assert_eq!(whom, (Some("batch"), Some("service")), "{acted:#?}");
    assert!(decisions.iter().any(|decision| decision.what == "kept"), "{decisions:#?}");
}

#[test]
fn an_image_is_pulled_by_who_may_and_a_password_goes_nowhere_else() {
    let _alone = alone();
    if !has_engine() {
        return;
    }
    let (daemon, host) = engine::docker("counter:4");
    let layer = daemon.path("layer.tar");
    for access in [Access::Basic, Access::Bearer] {
        let registry = Registry::start(&layer, daemon.folder.path(), access);
        let address = format!("127.0.0.1:{}", registry.port);
        let image = format!("{address}/private/counter:1");
        let text = format!("benchmark: {{name: x}}\na: {{index: 0, image: \"{image}\"}}\n");
        let wanted: Container = support::parse(&text).containers.remove(0);
        let fetch = |address: &str, password: &str| {
            let login = Login {
                address: address.to_owned(),
                user: "ct".to_owned(),
                password: Secret::new(password),
            };
            let socket = daemon.path("docker.sock");
            let engine = DockerEngine::connect(&HostRoot::default(), Some(&socket), Some(login));
            engine.unwrap().fetch(&wanted, &AtomicBool::new(false))
        };
        assert!(fetch("registry.example", "s3cret").is_err(), "{access:?}");
        assert_eq!(registry.authorisations(), [""], "it is not that registry's password");
        let error = fetch(&address, "wrong").unwrap_err().to_string();
        assert!(error.contains("cannot run a"), "{error}");
        fetch(&format!("http://{address}/v2/"), "s3cret").unwrap();
        let images = engine::run("docker", &["-H", &host, "images", "--format", "{{.Repository}}"]);
        assert!(images.unwrap().contains(&format!("{address}/private/counter")), "{access:?}");
    }
}
