//! What a run says when containers, or the engine itself, do not do as they were told.
#![allow(clippy::unwrap_used)]

mod contained;
#[path = "../../inventory/tests/support/mod.rs"]
mod engine;
mod registry;
mod support;

use contained::{bench, has_engine, names, running};
use crosstalk_bench::store::{EventKind, Outcome, odd_ends};
use registry::{Access, Registry};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::{Bench, PLAIN, seconds};

/// Runs what must fail; why it did.
fn failure(bench: &Bench, text: &str) -> String {
    let error = bench.run(text).map(|(_, record)| record.outcome).unwrap_err().to_string();
    let (_, record) = bench.options.runs.find("last").unwrap();
    assert!(matches!(record.outcome, Some(Outcome::Failed(_))), "{error}: {record:?}");
    error
}

#[test]
fn a_container_that_cannot_start_fails_the_run_and_a_bad_exit_code_is_told() {
    if !has_engine() {
        return;
    }
    let (daemon, host) = engine::docker("counter:5");
    let bench = bench(&daemon);
    let text = |container: &str| {
        format!(
            "benchmark: {{name: fails, max_t: 20, {PLAIN}}}\n\
             a: {{index: 0, image: \"counter:5\", {container}}}\n"
        )
    };
    let error = failure(&bench, &text("command: no-such-program"));
    assert!(
        error.starts_with("cannot run a: its command cannot be run (exit code 127)"),
        "{error}"
    );
    let (dir, _) = bench.options.runs.find("last").unwrap();
    let said = std::fs::read_to_string(dir.output(0, "a")).unwrap();
    assert!(said.contains("no-such-program"), "the way out is in its output: {said}");

    let error = failure(&bench, &text("command: \"sleep 9\", volumes: [\"/etc/hostname:/bin\"]"));
    assert!(error.starts_with("cannot run a: its engine cannot start it: "), "{error}");
    assert_eq!(names(&host), "", "no container is left");

    let (dir, record) = bench.run(&text("command: \"sleep 0.1; exit 3\"")).unwrap();
    assert_eq!(record.outcome, Some(Outcome::Completed));
    let odd = odd_ends(&dir.events().unwrap());
    assert_eq!((odd.len(), odd[0].code), (1, Some(3)), "{odd:?}");
}

#[test]
fn an_engine_that_dies_in_the_middle_ends_the_run_which_says_so() {
    if !has_engine() {
        return;
    }
    let (daemon, host) = engine::docker("counter:2");
    let bench = bench(&daemon);
    let text = format!(
        "benchmark: {{name: dies, max_t: 60, {PLAIN}}}\n\
         a: {{index: 0, image: \"counter:2\", command: \"sleep 600\"}}\n\
         b: {{index: 1, command: \"sleep 600\", stop: 30}}\n"
    );
    let killer = std::thread::spawn(move || {
        running(&host, "a");
        daemon.signal("KILL");
        daemon
    });
    let error = failure(&bench, &text);
    assert!(error.starts_with("cannot run a: its engine was lost"), "{error}");
    let daemon = killer.join().unwrap();
    assert_eq!(daemon.sleepers(), 0, "without its engine it does not run on");
    // Another test of this process may have cgroups of its own.
    let left = support::own_cgroups().into_iter().find(|name| name.ends_with("-b"));
    assert_eq!(left, None, "the other is gone");
}

#[test]
fn an_engine_that_is_started_anew_in_the_middle_fails_the_run() {
    if !has_engine() {
        return;
    }
    let (mut daemon, host) = engine::docker("counter:6");
    let bench = bench(&daemon);
    let text = format!(
        "benchmark: {{name: anew, max_t: 10, {PLAIN}}}\n\
         a: {{index: 0, image: \"counter:6\", command: \"sleep 600\"}}\n"
    );
    let starter = std::thread::spawn(move || {
        running(&host, "a");
        daemon.restart();
        daemon.eventually("the engine answers again", || {
            engine::run("docker", &["-H", &host, "version"]).ok()
        });
        daemon
    });
    let error = failure(&bench, &text);
    assert!(error.starts_with("cannot run a: its engine was lost"), "{error}");
    drop(starter.join().unwrap());
}

#[test]
fn an_engine_that_hangs_is_not_waited_for_for_ever_and_a_signal_is_heard() {
    if !has_engine() {
        return;
    }
    let (daemon, host) = engine::docker("counter:7");
    let bench = bench(&daemon);
    let text = format!(
        "benchmark: {{name: hangs, max_t: 300, {PLAIN}}}\n\
         a: {{index: 0, image: \"counter:7\", command: \"sleep 600\"}}\n\
         b: {{index: 1, image: \"counter:7\", command: \"sleep 600\"}}\n"
    );
    let stop = Arc::clone(&bench.options.stop);
    let stopper = std::thread::spawn(move || {
        running(&host, "a");
        running(&host, "b");
        daemon.signal("STOP");
        stop.store(true, Ordering::Relaxed);
        (daemon, Instant::now())
    });
    let error = failure(&bench, &text);
    let (daemon, hung) = stopper.join().unwrap();
    assert!(error.contains("is not heard to have ended"), "{error}");
    assert!(error.starts_with("cannot run a") || error.starts_with("cannot run b"), "{error}");
    assert!(hung.elapsed() < Duration::from_secs(60), "{:?}", hung.elapsed());
    assert_eq!(daemon.sleepers(), 0, "they were ended without their engine");
    let (dir, _) = bench.options.runs.find("last").unwrap();
    let killed = seconds(&dir.events().unwrap(), "a", |kind| *kind == EventKind::Kill);
    assert!(killed.len() > 2, "again and again: {killed:?}");
    daemon.signal("CONT");
}

#[test]
fn a_signal_is_heard_while_an_image_is_pulled() {
    if !has_engine() {
        return;
    }
    let (daemon, host) = engine::docker("counter:8");
    let layer = daemon.path("layer.tar");
    let registry = Registry::start(&layer, daemon.folder.path(), Access::Stalling);
    let bench = bench(&daemon);
    let text = format!(
        "benchmark: {{name: pulls, max_t: 9, {PLAIN}}}\n\
         a: {{index: 0, image: \"127.0.0.1:{}/private/counter:1\", command: \"sleep 9\"}}\n",
        registry.port
    );
    let stop = Arc::clone(&bench.options.stop);
    let stopper = std::thread::spawn(move || {
        registry.wait_for("/blobs/");
        stop.store(true, Ordering::Relaxed);
        Instant::now()
    });
    let (_, record) = bench.run(&text).unwrap();
    let told = stopper.join().unwrap();
    assert!(told.elapsed() < Duration::from_secs(5), "{:?}", told.elapsed());
    assert_eq!((record.outcome, record.rounds.len()), (Some(Outcome::Interrupted), 0));
    assert_eq!(names(&host), "");
}
