//! Real processes in real cgroups: on time, recorded, and gone without a trace.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_bench::experiment::Container;
use crosstalk_bench::live::{Lines, Silent};
use crosstalk_bench::result::{Recorded, summarize};
use crosstalk_bench::runtime::{Order, Runtime, Workload};
use crosstalk_bench::store::{EventKind, Outcome, odd_ends};
use crosstalk_bench::{Cleaned, Error, Whose};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{
    Bench, COUNTS, PLAIN, all_on_plan, can_make_cgroups, off_plan_ms, own_cgroups, parquet_files,
    seconds,
};

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
    all_on_plan(5, || {
        let bench = Bench::new();
        let (dir, record) = bench.run(&text).unwrap();
        assert_eq!(record.outcome, Some(Outcome::Completed));
        assert_eq!(own_cgroups(), Default::default(), "nothing is left");
        let events = dir.events().unwrap();
        let started = seconds(&events, "second", |kind| matches!(kind, EventKind::Start { .. }));
        let stopped = seconds(&events, "second", |kind| matches!(kind, EventKind::Stop { .. }));
        let ended = seconds(&events, "second", |kind| matches!(kind, EventKind::Ended { .. }));
        assert!(started[0] >= 1.0 && stopped[0] >= 2.2 && ended[0] >= stopped[0], "{events:#?}");

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
        off_plan_ms(&events, &[("first", 3.0), ("second", 2.2)])
    });
}

#[test]
fn everybody_is_on_time_too_while_all_is_collected_and_judged() {
    let _alone = alone();
    if !can_make_cgroups() {
        return;
    }
    let busy = "sh -c 'while :; do :; done'";
    for (scheduler, runs) in [("default", 2), ("adaptive", 2)] {
        // What a file collects that says nothing of it, with two who want one core, and starts a moment apart.
        let text = format!(
            "benchmark: {{name: all, max_t: 4, scheduler: {{implementation: {scheduler}}}}}
first: {{index: 0, command: {busy:?}, core: 0, critical: true}}
second: {{index: 1, command: {busy:?}, core: 0, start: 1, stop: 3.3}}
third: {{index: 2, command: {COUNTS:?}, progress: {{number: done}}, start: 1.01, stop: 3.31}}
"
        );
        all_on_plan(runs, || {
            let bench = Bench::new();
            let (dir, record) = bench.run(&text).unwrap();
            assert_eq!(record.outcome, Some(Outcome::Completed));
            for source in ["tasks", "containers", "progress"] {
                let is_absent = record.absent.iter().any(|(what, _)| what == "counters");
                let files = parquet_files(&dir, source).len();
                assert!(files > 0 || (source == "tasks" && is_absent), "{source} was collected");
            }
            let events = dir.events().unwrap();
            // Who computes ends when it next has a core, which is the kernel's to give.
            off_plan_ms(&events, &[("third", 3.31)])
        });
    }
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
fn a_line_with_a_shells_syntax_is_run_by_one() {
    let _alone = alone();
    if !can_make_cgroups() {
        return;
    }
    let line = "i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo line $i; done | cat && exit 4";
    let text = format!("benchmark: {{name: line, {PLAIN}}}\na: {{index: 0, command: {line:?}}}\n");
    let bench = Bench::new();
    let (dir, _) = bench.run(&text).unwrap();
    let printed = std::fs::read_to_string(dir.output(0, "a")).unwrap();
    assert_eq!(printed, "line 1\nline 2\nline 3\n");
    assert_eq!(odd_ends(&dir.events().unwrap())[0].code, Some(4));
}

#[test]
fn a_program_that_may_not_be_run_fails_the_run() {
    let _alone = alone();
    if !can_make_cgroups() {
        return;
    }
    let bench = Bench::new();
    let program = bench.folder.path().join("program");
    std::fs::write(&program, "no program at all").unwrap();
    let text = format!(
        "benchmark: {{name: not, max_t: 9, {PLAIN}}}\na: {{index: 0, command: [{program:?}]}}\n"
    );
    let error = bench.run(&text).map(|(_, record)| record.outcome).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot run a: its command cannot be run (exit code 126)"),
        "{error}"
    );
    assert_eq!(own_cgroups(), Default::default());
}

#[test]
fn until_a_signal_a_run_goes_on_when_everybody_has_ended() {
    let _alone = alone();
    if !can_make_cgroups() {
        return;
    }
    let text = format!(
        "benchmark: {{name: waits, max_t: -1, {PLAIN}}}\na: {{index: 0, command: \"true\"}}\n"
    );
    let bench = Bench::new();
    let stop = Arc::clone(&bench.options.stop);
    let (runs, began) = (bench.options.runs.clone(), Instant::now());
    let stopper = std::thread::spawn(move || {
        let has_ended = || {
            let (dir, _) = runs.find("last").ok()?;
            let events = dir.events().ok()?;
            seconds(&events, "a", |kind| matches!(kind, EventKind::Ended { .. })).first().copied()
        };
        #[allow(clippy::disallowed_methods)] // a file tells nobody what is added to it
        while has_ended().is_none() && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(10));
        }
        #[allow(clippy::disallowed_methods)] // that nothing happens meanwhile is what is tried
        std::thread::sleep(Duration::from_millis(300));
        let told = Instant::now();
        stop.store(true, Ordering::Relaxed);
        told
    });
    let (_, record) = bench.run(&text).unwrap();
    let over = Instant::now();
    assert_eq!(record.outcome, Some(Outcome::Interrupted));
    assert!(over > stopper.join().unwrap(), "it was over before it was told");
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

/// A runtime in which something is left that cannot be removed.
struct Stuck;

impl Runtime for Stuck {
    fn name(&self) -> &'static str {
        "stuck"
    }

    fn fetch(&self, _: &Container, _: &AtomicBool) -> Result<(), Error> {
        Ok(())
    }

    fn prepare(&self, order: &Order<'_>) -> Result<Box<dyn Workload>, Error> {
        let reason = "nothing runs in it".to_owned();
        Err(Error::Container { container: order.container.name.clone(), reason })
    }

    fn clean(&self, _: Whose, _: &AtomicBool) -> Cleaned {
        let (container, reason) = ("orphan".to_owned(), "it is busy".to_owned());
        let failed = vec![Error::Container { container, reason }];
        Cleaned { failed, ..Cleaned::default() }
    }
}

#[test]
fn what_cannot_be_cleaned_before_a_run_is_said() {
    let _alone = alone();
    if !can_make_cgroups() {
        return;
    }
    let mut bench = Bench::new();
    bench.options.runtimes.push(Box::new(Stuck));
    let text = format!("benchmark: {{name: said, {PLAIN}}}\na: {{index: 0, command: \"true\"}}\n");
    let mut said = Vec::new();
    let mut lines = Lines::new(&mut said, false);
    crosstalk_bench::run(&support::parse(&text), &text, &bench.options, &mut lines).unwrap();
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("cannot remove what was left: cannot run orphan: it is busy"), "{said}");
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

#[test]
fn what_a_container_used_is_told_from_its_start_to_its_end_however_short_it_lived() {
    if !can_make_cgroups() {
        return;
    }
    let _alone = alone();
    let busy = "sh -c 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done'";
    let text = format!(
        "benchmark: {{name: ends, max_t: 2.5, data: {{profilefrequency: 1000, perf: false, probe: false, rdt: false}}}}
short: {{index: 0, command: {busy:?}}}
often: {{index: 1, command: \"sh -c 'while :; do :; done'\", data: {{frequency: 100}}}}
long: {{index: 2, command: \"sh -c 'while :; do :; done'\"}}
"
    );
    let bench = Bench::new();
    let (dir, record) = bench.run(&text).unwrap();
    let recorded = Recorded::read(&dir, &record).unwrap();
    let mut rows = Vec::new();
    for name in ["short", "often", "long"] {
        let when = |is: fn(&EventKind) -> bool| seconds(&recorded.events, name, is)[0];
        let lived = when(|kind| matches!(kind, EventKind::Ended { .. }))
            - when(|kind| matches!(kind, EventKind::Start { .. }));
        let mine: Vec<_> = recorded.usage.iter().filter(|p| p.container == name).collect();
        let covered = mine.iter().map(|p| p.covers_ns).sum::<u64>() as f64 / 1e9;
        assert!((covered - lived).abs() < 0.2, "{name} lived {lived} s, rows tell of {covered} s");
        assert!(mine.iter().any(|p| p.cpu_ns > Some(0)), "{name}: {mine:?}");
        rows.push(mine.len());
    }
    let [short, often, long] = rows[..] else { panic!("three") };
    assert!(short == 1 && long <= 4 && often > 15, "each as often as it is asked for: {rows:?}");
}
