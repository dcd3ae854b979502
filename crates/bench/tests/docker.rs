//! Containers of a real Docker Engine, started by the test, with an image imported from a busybox tree.
#![allow(clippy::unwrap_used)]

#[path = "../../inventory/tests/support/mod.rs"]
mod engine;
mod registry;
mod support;

use crosstalk_bench::experiment::{Container, Registry as Login};
use crosstalk_bench::result::Recorded;
use crosstalk_bench::runtime::{DockerEngine, Runtime};
use crosstalk_bench::store::{EventKind, Outcome};
use crosstalk_host::HostRoot;
use crosstalk_settings::Secret;
use registry::{Access, Registry};
use std::process::Command;
use support::{Bench, PLAIN, seconds};

/// No bridge is set up in the test's engine.
fn bench(daemon: &engine::Daemon) -> Bench {
    let mut bench = Bench::new();
    let socket = daemon.path("docker.sock");
    let docker = DockerEngine::connect(&HostRoot::default(), Some(&socket), None).unwrap();
    bench.options.runtimes.push(Box::new(docker));
    bench
}

fn names(host: &str) -> String {
    engine::run("docker", &["-H", host, "ps", "-a", "--format", "{{.Names}} {{.Status}}"]).unwrap()
}

#[test]
fn containers_run_on_schedule_within_their_limits_and_are_gone_also_after_a_kill() {
    if Command::new("dockerd").arg("--version").output().is_err() {
        return eprintln!("skipped: no dockerd; apt-get install docker.io");
    }
    let (daemon, host) = engine::docker("counter:1");
    let counts = "sh -c 'i=0; while :; do i=$((i+1)); echo \"done $i\"; sleep 0.05; done'";
    let text = format!(
        "benchmark: {{name: contained, max_t: 4, {PLAIN}}}
a: {{index: 0, image: \"counter:1\", command: {counts:?}, progress: {{number: done}}, core: 0, memory: 64MiB, cpus: 0.5, env: {{K: v}}}}
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
    let said = recorded.progress.iter().filter(|point| point.container == "a").count();
    assert!(
        said > 10,
        "{said}: {}",
        std::fs::read_to_string(dir.output(0, "a")).unwrap_or_default()
    );
    let charged = recorded.usage.iter().filter(|u| u.container == "a" && u.memory_bytes > Some(0));
    assert!(charged.count() > 3, "{:?}", recorded.usage);

    // What a driver that is gone has left is known by its label.
    let label = "--label=crosstalk.bench.driver=4194303-1";
    let sleep = ["-d", "--network=none", "--name=orphan", label, "counter:1", "/bin/sleep", "600"];
    engine::run("docker", &[&["-H", &host, "run"], &sleep[..]].concat()).unwrap();
    let own = ["-d", "--network=none", "--name=stranger", "counter:1", "/bin/sleep", "600"];
    engine::run("docker", &[&["-H", &host, "run"], &own[..]].concat()).unwrap();
    let socket = daemon.path("docker.sock");
    let docker = DockerEngine::connect(&HostRoot::default(), Some(&socket), None).unwrap();
    assert_eq!(docker.clean().unwrap(), ["container orphan"]);
    assert!(names(&host).starts_with("stranger Up"), "{}", names(&host));

    let missing = "benchmark: {name: none}\na: {index: 0, image: \"no-such-image:9\"}\n";
    assert!(bench.run(missing).is_err(), "no registry can be reached");
    assert!(names(&host).starts_with("stranger Up"));
}

/// Milliseconds that the starts and stops of containers with an image were off their plan, at most.
fn off_plan(events: &[crosstalk_bench::store::Event]) -> f64 {
    let late =
        events.iter().filter(|e| e.container.as_deref() != Some("c")).filter_map(
            |event| match event.kind {
                EventKind::Start { late_ms } | EventKind::Stop { late_ms } => Some(late_ms.abs()),
                _ => None,
            },
        );
    late.fold(0.0, f64::max)
}

#[test]
fn what_the_engine_takes_to_start_a_container_is_made_up_for() {
    if Command::new("dockerd").arg("--version").output().is_err() {
        return eprintln!("skipped: no dockerd; apt-get install docker.io");
    }
    let (daemon, _) = engine::docker("counter:3");
    let bench = bench(&daemon);
    let text = format!(
        "benchmark: {{name: on-time, max_t: 1.8, {PLAIN}}}
a: {{index: 0, image: \"counter:3\", command: \"sleep 60\"}}
b: {{index: 1, image: \"counter:3\", command: \"sleep 60\", start: 0.7, stop: 1.2}}
c: {{index: 2, command: \"sleep 60\"}}
"
    );
    // A machine that is busy with other things may be off once; one that cannot be on time is off every time.
    let mut off = Vec::new();
    for _ in 0..4 {
        let (dir, record) = bench.run(&text).unwrap();
        assert_eq!(record.outcome, Some(Outcome::Completed));
        let events = dir.events().unwrap();
        assert_eq!(seconds(&events, "a", |kind| matches!(kind, EventKind::Start { .. })).len(), 1);
        off.push(off_plan(&events));
        if off.last().is_some_and(|off| *off < 100.0) {
            return;
        }
    }
    panic!("never within 100 ms of plan: {off:?}");
}

#[test]
fn an_image_is_pulled_by_who_may_and_a_password_goes_nowhere_else() {
    if Command::new("dockerd").arg("--version").output().is_err() {
        return eprintln!("skipped: no dockerd; apt-get install docker.io");
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
            engine.unwrap().fetch(&wanted)
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

#[test]
fn an_engine_that_dies_in_the_middle_ends_the_run_which_says_so() {
    if Command::new("dockerd").arg("--version").output().is_err() {
        return eprintln!("skipped: no dockerd; apt-get install docker.io");
    }
    let (daemon, _) = engine::docker("counter:2");
    let bench = bench(&daemon);
    let text = format!(
        "benchmark: {{name: dies, max_t: 60, {PLAIN}}}\n\
         a: {{index: 0, image: \"counter:2\", command: \"sleep 600\"}}\n\
         b: {{index: 1, command: \"sleep 600\", stop: 2}}\n"
    );
    let pid = std::fs::read_to_string(daemon.path("pid")).unwrap();
    std::thread::spawn(move || {
        engine::pace(std::time::Duration::from_millis(2_500));
        let _ = Command::new("kill").args(["-KILL", pid.trim()]).status();
    });
    let error = bench.run(&text).unwrap_err().to_string();
    let (dir, record) = bench.options.runs.find("last").unwrap();
    assert!(matches!(record.outcome, Some(Outcome::Failed(_))), "{error}: {record:?}");
    let ended =
        seconds(&dir.events().unwrap(), "a", |kind| matches!(kind, EventKind::Ended { .. }));
    assert_eq!(ended.len(), 1, "it was noticed");
    // Another test of this process may have cgroups of its own.
    let left = support::own_cgroups().into_iter().find(|name| name.ends_with("-b"));
    assert_eq!(left, None, "the other is gone");
}
