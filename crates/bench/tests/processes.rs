//! Real processes in real cgroups: on time, recorded, and gone without a trace.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_bench::live::Silent;
use crosstalk_bench::result::{Recorded, summarize};
use crosstalk_bench::store::{EventKind, Outcome};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::{Bench, COUNTS, PLAIN, can_make_cgroups, own_cgroups, parquet_files, seconds};

/// One test at a time looks at what this process has left.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn everybody_starts_and_stops_on_time_is_recorded_and_leaves_nothing() {
    let _alone = alone();
    if !can_make_cgroups() {
        return;
    }
    let text = format!(
        "benchmark: {{name: staggered, max_t: 3, {PLAIN}}}
first: {{index: 0, command: {COUNTS:?}, progress: {{number: done}}}}
second: {{index: 1, command: {COUNTS:?}, progress: {{number: done}}, start: 1, stop: 2.2}}
"
    );
    // A machine that is busy with other things may be late once; one that cannot be on time is late every time.
    let mut lates = Vec::new();
    for _ in 0..4 {
        let bench = Bench::new();
        let (dir, record) = bench.run(&text).unwrap();
        assert_eq!(record.outcome, Some(Outcome::Completed));
        assert_eq!(own_cgroups(), Default::default(), "nothing is left");
        let events = dir.events().unwrap();
        let started = seconds(&events, "second", |kind| matches!(kind, EventKind::Start { .. }));
        let stopped = seconds(&events, "second", |kind| matches!(kind, EventKind::Stop { .. }));
        let ended = seconds(&events, "second", |kind| matches!(kind, EventKind::Ended { .. }));
        assert!(started[0] >= 1.0 && stopped[0] >= 2.2 && ended[0] >= stopped[0], "{events:#?}");
        lates.push((started[0] - 1.0).max(stopped[0] - 2.2).max(ended[0] - 2.2));

        let recorded = Recorded::read(&dir, &record).unwrap();
        let first = recorded.progress.iter().filter(|p| p.container == "first").count();
        assert!(first > 10, "{first} times it said how far it was");
        let used = recorded.usage.iter().filter(|u| u.container == "first" && u.cpu_ns > Some(0));
        assert!(used.count() > 3, "{:?}", recorded.usage);
        assert_eq!(parquet_files(&dir, "progress").len(), 1);
        let summary = summarize(&dir, &record).unwrap();
        let conditions = &summary.containers[0].fared;
        assert!(conditions.iter().any(|f| f.condition.beside.is_empty()), "{conditions:?}");
        assert!(conditions.iter().any(|f| f.condition.beside == ["second"]), "{conditions:?}");
        assert!(dir.output(0, "first").metadata().unwrap().len() > 0);
        if lates.last().is_some_and(|late| *late < 0.1) {
            return;
        }
    }
    panic!("never within 100 ms of plan: {lates:?}");
}

#[test]
fn who_does_not_stop_is_killed_with_all_it_started() {
    let _alone = alone();
    if !can_make_cgroups() {
        return;
    }
    let stubborn = "sh -c 'trap \"\" TERM; sleep 1000 & while :; do sleep 0.1; done'";
    let text = format!(
        "benchmark: {{name: stubborn, {PLAIN}}}\na: {{index: 0, command: {stubborn:?}, stop: 0.3}}\n"
    );
    let bench = Bench::new();
    let (dir, _) = bench.run(&text).unwrap();
    let events = dir.events().unwrap();
    assert_eq!(seconds(&events, "a", |kind| *kind == EventKind::Kill).len(), 1);
    let ended = events.iter().find_map(|event| match event.kind {
        EventKind::Ended { code } => code,
        _ => None,
    });
    assert_eq!((ended, own_cgroups()), (Some(128 + 9), Default::default()));
}

#[test]
fn who_ends_by_itself_ends_the_round_and_its_code_is_told() {
    let _alone = alone();
    if !can_make_cgroups() {
        return;
    }
    let text = format!(
        "benchmark: {{name: codes, {PLAIN}, repeats: 2}}\n\
         a: {{index: 0, command: \"sh -c 'echo $X; exit 3'\", env: {{X: hello}}}}\n"
    );
    let bench = Bench::new();
    let (dir, record) = bench.run(&text).unwrap();
    assert_eq!(record.rounds.len(), 2);
    let codes: Vec<Option<i32>> = dir
        .events()
        .unwrap()
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Ended { code } => Some(code),
            _ => None,
        })
        .collect();
    assert_eq!(codes, [Some(3), Some(3)]);
    assert_eq!(std::fs::read_to_string(dir.output(1, "a")).unwrap(), "hello\n");
}

#[test]
fn a_signal_ends_a_run_at_once_and_cleanly() {
    let _alone = alone();
    if !can_make_cgroups() {
        return;
    }
    let text = format!(
        "benchmark: {{name: told, max_t: -1, {PLAIN}}}\n\
         a: {{index: 0, command: {COUNTS:?}}}\nb: {{index: 1, command: {COUNTS:?}, start: 3600}}\n"
    );
    let bench = Bench::new();
    let stop = Arc::clone(&bench.options.stop);
    let began = Instant::now();
    std::thread::spawn(move || {
        #[allow(clippy::disallowed_methods)] // any moment in the middle will do
        std::thread::sleep(Duration::from_millis(700));
        stop.store(true, Ordering::Relaxed);
    });
    let (_, record) = bench.run(&text).unwrap();
    assert_eq!((record.outcome, own_cgroups()), (Some(Outcome::Interrupted), Default::default()));
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_preparation_that_fails_takes_back_what_it_had_made() {
    let _alone = alone();
    if !can_make_cgroups() {
        return;
    }
    let bench = Bench::new();
    let program = bench.folder.path().join("program");
    std::fs::copy("/bin/sleep", &program).unwrap();
    let text = format!(
        "benchmark: {{name: half, max_t: 9, {PLAIN}}}\n\
         a: {{index: 0, command: {COUNTS:?}}}\nb: {{index: 1, command: [{program:?}, 9]}}\n"
    );
    let experiment = support::parse(&text);
    // It was there when the file was read.
    std::fs::remove_file(&program).unwrap();
    let failed = crosstalk_bench::run(&experiment, &text, &bench.options, &mut Silent);
    assert!(failed.unwrap_err().to_string().contains("there is no program"));
    let (_, record) = bench.options.runs.find("last").unwrap();
    assert!(matches!(record.outcome, Some(Outcome::Failed(_))), "{record:?}");
    assert_eq!(own_cgroups(), Default::default());
    let image = "benchmark: {name: image}\na: {index: 0, image: busybox}\n";
    let error = bench.run(image).unwrap_err().to_string();
    assert!(error.contains("no docker is there"), "{error}");
}
