//! A recording in which one process slows another leads to that verdict, and a calm one to none.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_analysis::{Question, Report, SubjectKind, analyze};
use crosstalk_model::{Comm, Placement, ProcessId, Row, Table, TaskReading, TaskRow};
use crosstalk_recording::{Format, Layout, Metadata, Recording, RecordingOptions, Run};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const START: u64 = 1_794_779_000_000_000_000;
const MS: u64 = 1_000_000;

fn row(slot: u64, pid: u32, comm: &str, core: u32, counters: Option<(u64, u64)>) -> TaskRow {
    let task = TaskReading {
        slot_start_ns: START + slot * MS,
        process: ProcessId { pid, start_ns: START - 1_000 * MS },
        parent: None,
        comm: Comm::from_text(comm),
        core,
        freq_mhz: None,
        cycles: counters.map(|(cycles, _)| cycles),
        instructions: counters.map(|(_, instructions)| instructions),
        llc_misses: None,
        multiplexed: None,
        on_cpu_ns: MS,
        runq_wait_ns: Some(0),
        switches: 1,
        voluntary_switches: 1,
        page_faults: 0,
        migrations: Some(0),
        cgroup_id: 1,
    };
    let container_name = (pid == 7).then(|| "web".into());
    TaskRow::new(task, Arc::new(Placement { container_name, ..Placement::default() }))
}

/// A minute of two cores: a victim on one, and on the other somebody who streams now and then.
fn record(out: &Path, slowed: u64) {
    let options = RecordingOptions {
        out: out.to_owned(),
        append: true,
        format: Format::Parquet,
        layout: Layout::Flat,
        rotate_bytes: u64::MAX,
        rotate_after: Duration::from_secs(20),
    };
    let about = Metadata::default().with("slot_ns", MS);
    let (mut recording, _) = Recording::create(options, Run::new("n", START), about).unwrap();
    recording.open(TaskRow::DATASET, START).unwrap();
    let mut random = 88_172_645_463_325_252_u64;
    let mut streams = false;
    for flush in 0..120_u64 {
        let mut rows = Vec::new();
        for slot in flush * 500..(flush + 1) * 500 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if random.is_multiple_of(400) {
                streams = !streams;
            }
            let cycles = 1_000_000 + random % 40_000 + if streams { slowed } else { 0 };
            rows.push(row(slot, 7, "victim", 0, Some((cycles, 1_000_000))));
            if streams {
                rows.push(row(slot, 9, "stream", 1, Some((1_000_000, 100_000))));
            }
        }
        recording.write(Table::of(rows.iter().collect())).unwrap();
    }
    recording.finish().unwrap();
}

fn ask(out: &Path, subject: SubjectKind) -> Report {
    let places = [out.to_str().unwrap().to_owned()];
    analyze(&places, &Question { subject, time: None }, |_| {}).unwrap()
}

#[test]
fn a_neighbour_that_costs_a_fifth_is_named_with_an_interval_that_holds_the_truth() {
    let out = tempfile::tempdir().unwrap();
    record(out.path(), 250_000);
    let report = ask(out.path(), SubjectKind::Process);
    let run = &report.runs[0];
    assert!(run.late_rows == 0 && report.unread.is_empty(), "{:?}", report.unread);
    assert!(run.rows > 60_000);
    let verdicts = report.verdicts();
    let [verdict] = &verdicts[..] else { panic!("{verdicts:#?}") };
    assert_eq!((verdict.victim.as_str(), verdict.aggressor.as_str()), ("victim (7)", "stream (9)"));
    assert!(verdict.low > 0.0 && verdict.lost_seconds > 1.0, "{verdict:?}");
    let contained = ask(out.path(), SubjectKind::Container);
    assert_eq!(contained.verdicts()[0].victim, "web");
}

#[test]
fn nobody_is_blamed_where_nothing_slows() {
    let out = tempfile::tempdir().unwrap();
    record(out.path(), 0);
    let report = ask(out.path(), SubjectKind::Process);
    assert!(report.verdicts().is_empty(), "{:#?}", report.verdicts());
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_analysed() {
    let out = tempfile::tempdir().unwrap();
    record(out.path(), 250_000);
    let folder = out.path().join("tasks/node=n/run=broken");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("tasks-0.parquet"), "no").unwrap();
    let report = ask(out.path(), SubjectKind::Process);
    assert!(report.unread[0].contains("tasks-0.parquet"), "{:?}", report.unread);
    assert_eq!(report.verdicts().len(), 1);
}
