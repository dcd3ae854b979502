//! Slow iterations of a training run on two nodes are put down to the neighbour on the one node that made them slow.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use crosstalk_analysis::{Question, Report, SubjectKind};
use crosstalk_recording::{Format, Metadata};
use std::fmt::Write;
use std::path::Path;
use support::*;

const SLOT: u64 = 10 * MS;

/// Trains on two nodes for `iterations` of 600 ms. In `slow` of a hundred a stream on node b makes one 40 % longer; on
/// node a somebody computes now and then, which costs nothing. Answers the log, and which iterations were slow.
fn train(out: &Path, iterations: u64, slow: u64) -> (String, Vec<u64>) {
    let about = || Metadata::default().with("slot_ns", SLOT);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut log, mut truth, mut slots) = (String::new(), Vec::new(), 0_u64);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for iteration in 1..=iterations {
        let streams = random.next() % 100 < slow;
        let computes = random.next().is_multiple_of(2);
        let usual = 60.0 + (random.next() % 100) as f64 / 50.0;
        let length = (usual * if streams { 1.4 } else { 1.0 }) as u64;
        for slot in slots..slots + length {
            let at_ns = START + slot * SLOT;
            let ran = |pid, comm, core| Ran { on_cpu_ns: SLOT, ..Ran::new(at_ns, pid, comm, core) };
            let trainer = |pid| Ran { container: Some("trainer"), ..ran(pid, "python3", 0) };
            a.push(trainer(70));
            b.push(trainer(71));
            if computes {
                a.push(ran(80, "compile", 1));
            }
            if streams {
                b.push(ran(90, "stream", 1));
            }
        }
        slots += length;
        if streams {
            truth.push(iteration);
        }
        let ended = jiff::Timestamp::from_nanosecond(i128::from(START + slots * SLOT)).unwrap();
        let stamp = ended.strftime("%Y-%m-%d %H:%M:%S.%3f");
        let ms = length * SLOT / MS;
        writeln!(
            log,
            "[{stamp}] iteration {iteration:8}/ 500 | elapsed time per iteration (ms): {ms}.0 | lm loss: 2.5E+00 |"
        )
        .unwrap();
    }
    write(out, "a", START, about(), Format::Parquet, &a);
    write(out, "b", START, about(), Format::Parquet, &b);
    (log, truth)
}

fn explain(out: &Path, log: &str) -> Report {
    let file = out.join("train.log");
    std::fs::write(&file, log).unwrap();
    let argument = format!("trainer={}", file.display());
    ask(&out.join("rec"), &with_progress(SubjectKind::Container, &argument))
}

#[test]
fn the_neighbour_on_the_node_that_held_everybody_up_is_named_with_its_share_of_each_excess() {
    let out = tempfile::tempdir().unwrap();
    let (log, truth) = train(&out.path().join("rec"), 150, 25);
    let report = explain(out.path(), &log);
    assert!(report.unread.is_empty(), "{:?}", report.unread);
    let [run] = &report.training[..] else { panic!("{:?}", report.training) };
    assert_eq!((run.trainer.as_str(), run.iterations), ("trainer", 150));
    assert_eq!(run.nodes, ["a", "b"]);
    let mut slow: Vec<u64> = run.slowest.iter().map(|one| one.iteration).collect();
    slow.sort_unstable();
    assert_eq!(slow, truth);
    let [cause] = &run.causes[..] else { panic!("{:#?}", run.causes) };
    assert_eq!((cause.node.as_str(), cause.neighbour.as_str()), ("b", "stream (90)"));
    assert!(cause.share > 0.85 && cause.low > 0.5 && cause.high >= cause.share, "{cause:?}");
    // All of the excess is the stream's: most intervals must hold that.
    let held = run.slowest.iter().filter(|one| one.causes[0].high >= 0.97).count();
    assert!(held * 10 >= slow.len() * 8, "{held} of {}", slow.len());
}

#[test]
fn what_no_recording_covers_or_too_few_iterations_tell_is_not_explained() {
    let out = tempfile::tempdir().unwrap();
    let (log, truth) = train(&out.path().join("rec"), 30, 20);
    let report = explain(out.path(), &log);
    let run = &report.training[0];
    assert_eq!(run.slow, truth.len());
    assert!(run.causes.is_empty(), "{:#?}", run.causes);
    let whys: Vec<String> = run.slowest.iter().filter_map(|one| one.cannot_tell.clone()).collect();
    assert_eq!(whys.len(), run.slow);
    assert!(whys.iter().all(|why| why.contains("too few")), "{whys:?}");

    // The second half of the log lies outside the time asked for.
    let out = tempfile::tempdir().unwrap();
    let (log, _) = train(&out.path().join("rec"), 150, 25);
    let file = out.path().join("train.log");
    std::fs::write(&file, log).unwrap();
    let argument = format!("trainer={}", file.display());
    let question = Question {
        time: Some(0..START + 45_000 * MS),
        ..with_progress(SubjectKind::Container, &argument)
    };
    let report = ask(&out.path().join("rec"), &question);
    let run = &report.training[0];
    assert!(run.covered > 50 && run.covered < 80, "{}", run.covered);
    let beyond = run.slowest.iter().filter(|one| one.to_ns > START + 45_000 * MS);
    for one in beyond {
        assert_eq!(one.cannot_tell.as_deref(), Some("no recording covers it"), "{one:?}");
        assert!(one.causes.is_empty());
    }
}

#[test]
fn the_answer_of_the_processor_and_a_log_of_every_tenth_iteration_are_read_as_well() {
    let out = tempfile::tempdir().unwrap();
    let (log, _) = train(&out.path().join("rec"), 80, 0);
    let sparse: String = log.lines().skip(9).step_by(10).map(|line| format!("{line}\n")).collect();
    let report = explain(out.path(), &sparse);
    assert_eq!((report.training[0].iterations, report.training[0].slow), (8, 0));
    let points: Vec<serde_json::Value> = (1..=70_u64)
        .map(|iteration| {
            serde_json::json!({
                "iteration": iteration,
                "created_at": START + iteration * 600 * MS,
                "pod_uid": "p",
                "performance": { "current_iteration": iteration, "elapsed_time_per_iteration_ms": 600.0 },
            })
        })
        .collect();
    let series = serde_json::json!({ "workload_uid": "ml:demo", "run": 1, "runs": [], "iterations_per_point": 1, "points": points });
    for text in [series.to_string(), format!("{series:#}")] {
        let run = &explain(out.path(), &text).training[0];
        assert_eq!((run.iterations, run.slow), (70, 0));
        assert!((run.median_seconds - 0.6).abs() < 1e-9);
    }
}
