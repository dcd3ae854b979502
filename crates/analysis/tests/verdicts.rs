//! A recording in which one process slows another leads to that verdict, and a calm one to none.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use crosstalk_analysis::{Question, Read, SubjectKind, analyze};
use crosstalk_recording::Format;
use support::*;

#[test]
fn a_neighbour_that_costs_a_fifth_is_named_with_an_interval_that_holds_the_truth() {
    let out = tempfile::tempdir().unwrap();
    record(out.path(), 250_000);
    let report = ask_process(out.path());
    let run = &report.runs[0];
    assert!(run.late_rows == 0 && report.unread.is_empty(), "{:?}", report.unread);
    assert!(run.rows > 60_000);
    let verdicts = report.verdicts();
    let [verdict] = &verdicts[..] else { panic!("{verdicts:#?}") };
    assert_eq!((verdict.victim.as_str(), verdict.aggressor.as_str()), ("victim (7)", "stream (9)"));
    assert_eq!((verdict.node.as_str(), verdict.run.is_empty()), ("n", false));
    let truth = truth(verdict.from_ns, verdict.to_ns, 250_000);
    assert!(verdict.low <= truth && truth <= verdict.high, "{truth}: {verdict:?}");
    let question = Question { subject: SubjectKind::Container, ..Question::default() };
    assert_eq!(ask(out.path(), &question).verdicts()[0].victim, "web");
}

/// Share of the victim's time between two times that it would not have needed without the stream.
fn truth(from_ns: u64, to_ns: u64, slowed: u64) -> f64 {
    let (mut lost, mut slots, mut cycles) = (0.0, 0.0, 1);
    for ran in scene(START, 60, slowed).iter().filter(|ran| (from_ns..to_ns).contains(&ran.at_ns)) {
        match ran.pid {
            9 => lost += slowed as f64 / cycles as f64,
            _ => (slots, cycles) = (slots + 1.0, ran.counters.unwrap().0),
        }
    }
    lost / slots
}

#[test]
fn nobody_is_blamed_where_nothing_slows() {
    let out = tempfile::tempdir().unwrap();
    record(out.path(), 0);
    let report = ask_process(out.path());
    assert!(report.verdicts().is_empty(), "{:#?}", report.verdicts());
    assert!(!report.is_from_nothing());
}

#[test]
fn many_nodes_and_runs_share_a_folder_and_each_verdict_says_which_it_is_of() {
    let out = tempfile::tempdir().unwrap();
    let later = START + 3_600_000 * MS;
    write(out.path(), "a", START, about(), Format::Parquet, &scene(START, 40, 250_000));
    write(out.path(), "a", later, about(), Format::Csv, &scene(later, 40, 250_000));
    write(out.path(), "b", START, about(), Format::Parquet, &scene(START, 40, 250_000));
    let report = ask_process(out.path());
    let mut nodes: Vec<&str> = report.verdicts().iter().map(|v| v.node.as_str()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["a", "a", "b"], "{:?}", report.unread);
    let only = Question { time: Some(later..u64::MAX), ..Question::default() };
    let report = ask(out.path(), &only);
    assert_eq!(report.verdicts().len(), 1);
    assert!(report.unread.iter().any(|text| text.contains("no rows in the time asked for")));
}

#[test]
fn progress_goes_from_nothing_to_all_of_the_bytes() {
    let out = tempfile::tempdir().unwrap();
    record(out.path(), 250_000);
    let mut told: Vec<Read> = Vec::new();
    let places = [out.path().to_str().unwrap().to_owned()];
    analyze(&places, &Question::default(), |read| told.push(read)).unwrap();
    assert!(told.is_sorted_by_key(|read| read.bytes), "{told:?}");
    let last = told.last().unwrap();
    assert!(
        told[0].bytes < last.total_bytes / 2 && last.bytes > last.total_bytes / 10 * 9,
        "{told:?}"
    );
}
