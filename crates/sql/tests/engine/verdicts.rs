//! An engine's statistics lead to the verdicts that the streaming pass comes to.

use crate::support::*;
use crosstalk_analysis::{Question, Report, SubjectKind, analyze};
use crosstalk_recording::Format;
use crosstalk_sql::{Options, verdicts};

#[test]
fn datafusion_gathers_what_leads_to_the_same_verdicts() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 2, 40, Format::Parquet);
    for subject in [SubjectKind::Process, SubjectKind::Container] {
        let question = Question { subject, ..Question::default() };
        let streamed = analyze(&place(out.path()), &question, |_| {}).unwrap();
        let kinds: Vec<&str> = streamed.verdicts().iter().map(|v| v.resource).collect();
        assert!(kinds.contains(&"cpu time"), "{kinds:?}");
        assert!(kinds.iter().any(|kind| *kind != "cpu time"), "{kinds:?}");
        let gathered =
            verdicts::analyze(&place(out.path()), &question, &Options::default()).unwrap();
        assert_eq!(gathered.unread, Vec::<String>::new());
        same(&streamed, &gathered);
    }
}

#[test]
fn a_part_of_the_time_is_judged_as_the_streaming_pass_judges_it() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 1, 40, Format::Csv);
    let time = Some(START + 10_000_000_000..START + 35_000_000_000);
    let question = Question { time, ..Question::default() };
    let streamed = analyze(&place(out.path()), &question, |_| {}).unwrap();
    let gathered = verdicts::analyze(&place(out.path()), &question, &Options::default()).unwrap();
    assert!(!streamed.verdicts().is_empty());
    same(&streamed, &gathered);
}

#[test]
fn compilers_that_come_and_go_beyond_all_seats_are_judged_alike() {
    let out = tempfile::tempdir().unwrap();
    record_build(out.path(), 8);
    let streamed = analyze(&place(out.path()), &Question::default(), |_| {}).unwrap();
    let told = streamed.verdicts();
    let lost = told.iter().find(|v| v.victim.starts_with("chase")).expect("chase waited");
    assert_eq!((lost.resource, streamed.runs[0].late_rows), ("cpu time", 0), "{lost:?}");
    let gathered =
        verdicts::analyze(&place(out.path()), &Question::default(), &Options::default()).unwrap();
    assert_eq!(gathered.unread, Vec::<String>::new());
    same(&streamed, &gathered);
}

#[test]
fn waits_for_ones_own_quota_are_told_from_waits_for_others_as_the_streaming_pass_does() {
    let out = tempfile::tempdir().unwrap();
    record_quotas(out.path(), 40);
    let lost = |report: &Report| {
        let mut told = report.verdicts().into_iter();
        let one = told.find(|v| v.victim == "web (101)" && v.aggressor == "batch (201)");
        one.map_or(0.0, |verdict| verdict.lost_seconds)
    };
    let streamed = |question: &Question| analyze(&place(out.path()), question, |_| {}).unwrap();
    for subject in [SubjectKind::Process, SubjectKind::Container] {
        let question = Question { subject, ..Question::default() };
        let (streamed, gathered) = (
            streamed(&question),
            verdicts::analyze(&place(out.path()), &question, &Options::default()).unwrap(),
        );
        assert_eq!(gathered.unread, Vec::<String>::new());
        assert!(!streamed.verdicts().is_empty());
        same(&streamed, &gathered);
    }
    let told_apart = lost(&streamed(&Question::default()));
    std::fs::remove_dir_all(out.path().join("throttling")).unwrap();
    let together = lost(&streamed(&Question::default()));
    assert!(told_apart > 1.0 && together > 4.0 * told_apart, "{told_apart} s of {together} s");
}

#[test]
fn a_run_of_which_only_a_sample_is_kept_is_judged_alike() {
    let out = tempfile::tempdir().unwrap();
    record_long(out.path());
    let streamed = analyze(&place(out.path()), &Question::default(), |_| {}).unwrap();
    assert!(streamed.runs[0].seconds() > 200.0 && !streamed.verdicts().is_empty());
    // A bin is 40 ms: fewer were kept than there were.
    let bins = streamed.verdicts().iter().map(|verdict| verdict.evidence.bins).max().unwrap();
    assert!(bins < 200_000 / 40, "{bins}");
    let gathered =
        verdicts::analyze(&place(out.path()), &Question::default(), &Options::default()).unwrap();
    assert_eq!(gathered.unread, Vec::<String>::new());
    same(&streamed, &gathered);
}

#[test]
fn slots_of_which_rows_were_lost_are_left_out_as_the_streaming_pass_leaves_them_out() {
    let out = tempfile::tempdir().unwrap();
    record_lossy(out.path(), 60);
    let question = Question::default();
    let streamed = analyze(&place(out.path()), &question, |_| {}).unwrap();
    assert!(streamed.runs[0].lossy_slots > 500, "{}", streamed.runs[0].lossy_slots);
    assert!(!streamed.verdicts().is_empty());
    let gathered = verdicts::analyze(&place(out.path()), &question, &Options::default()).unwrap();
    assert_eq!(gathered.unread, Vec::<String>::new());
    same(&streamed, &gathered);
}

#[test]
fn a_recording_with_losses_is_judged_in_less_memory_than_its_rows_take() {
    let out = tempfile::tempdir().unwrap();
    record_lossy(out.path(), 150);
    let question = Question::default();
    let streamed = analyze(&place(out.path()), &question, |_| {}).unwrap();
    // As little as the engine can sort in. The columns that are summed are more.
    let memory = 24 << 20;
    assert!(streamed.runs[0].rows as usize * 14 * size_of::<i64>() > memory);
    let tight = Options { memory, ..Options::default() };
    let gathered = verdicts::analyze(&place(out.path()), &question, &tight).unwrap();
    assert_eq!(gathered.unread, Vec::<String>::new());
    same(&streamed, &gathered);
}
