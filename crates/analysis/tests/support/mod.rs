//! Recordings of which the truth is known.
#![allow(dead_code)] // each test file uses its own part
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_analysis::{Progress, Question, Report, SubjectKind, analyze};
use crosstalk_model::{Comm, Placement, ProcessId, Row, Table, TaskReading, TaskRow};
use crosstalk_recording::{Format, Layout, Metadata, Recording, RecordingOptions, Run};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const START: u64 = 1_794_779_000_000_000_000;
pub(crate) const MS: u64 = 1_000_000;

/// One row of tasks: who, where, how long, and what was counted.
#[derive(Clone)]
pub(crate) struct Ran {
    pub(crate) at_ns: u64,
    pub(crate) pid: u32,
    pub(crate) comm: &'static str,
    pub(crate) container: Option<&'static str>,
    pub(crate) core: u32,
    pub(crate) on_cpu_ns: u64,
    pub(crate) counters: Option<(u64, u64)>,
    pub(crate) switches: u32,
}

impl Ran {
    pub(crate) fn new(at_ns: u64, pid: u32, comm: &'static str, core: u32) -> Self {
        let (container, counters) = (None, None);
        Self { at_ns, pid, comm, container, core, on_cpu_ns: MS, counters, switches: 0 }
    }

    fn row(&self) -> TaskRow {
        let task = TaskReading {
            slot_start_ns: self.at_ns,
            process: ProcessId { pid: self.pid, start_ns: START - 1_000 * MS },
            parent: None,
            comm: Comm::from_text(self.comm),
            core: self.core,
            freq_mhz: None,
            cycles: self.counters.map(|(cycles, _)| cycles),
            instructions: self.counters.map(|(_, instructions)| instructions),
            llc_misses: None,
            multiplexed: None,
            on_cpu_ns: self.on_cpu_ns,
            runq_wait_ns: Some(0),
            switches: self.switches,
            voluntary_switches: self.switches,
            page_faults: 0,
            migrations: Some(0),
            cgroup_id: 1,
        };
        let container_name = self.container.map(Into::into);
        TaskRow::new(task, Arc::new(Placement { container_name, ..Placement::default() }))
    }
}

pub(crate) fn options(out: &Path, format: Format) -> RecordingOptions {
    RecordingOptions {
        out: out.to_owned(),
        append: true,
        format,
        layout: Layout::Flat,
        rotate_bytes: u64::MAX,
        rotate_after: Duration::from_secs(20),
    }
}

/// Writes tasks as a node's run that began at `start_ns`.
pub(crate) fn write(
    out: &Path,
    node: &str,
    start_ns: u64,
    about: Metadata,
    format: Format,
    ran: &[Ran],
) {
    let run = Run::new(node, start_ns);
    let (mut recording, _) = Recording::create(options(out, format), run, about).unwrap();
    recording.open(TaskRow::DATASET, start_ns).unwrap();
    for some in ran.chunks(2_000) {
        let rows: Vec<TaskRow> = some.iter().map(Ran::row).collect();
        recording.write(Table::of(rows.iter().collect())).unwrap();
    }
    recording.finish().unwrap();
}

pub(crate) fn about() -> Metadata {
    Metadata::default().with("slot_ns", MS)
}

/// The same numbers every time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Two cores: a victim on one, and on the other somebody who streams now and then and costs it `slowed` cycles of a
/// million; counted, as on metal.
pub(crate) fn scene(start_ns: u64, seconds: u64, slowed: u64) -> Vec<Ran> {
    let mut random = Random(88_172_645_463_325_252);
    let (mut streams, mut ran) = (false, Vec::new());
    for slot in 0..seconds * 1_000 {
        let number = random.next();
        if number.is_multiple_of(400) {
            streams = !streams;
        }
        let at_ns = start_ns + slot * MS;
        let cycles = 1_000_000 + number % 40_000 + if streams { slowed } else { 0 };
        let victim = Ran::new(at_ns, 7, "victim", 0);
        ran.push(Ran {
            counters: Some((cycles, 1_000_000)),
            container: Some("web"),
            switches: 1,
            ..victim
        });
        if streams {
            let stream = Ran::new(at_ns, 9, "stream", 1);
            ran.push(Ran { counters: Some((1_000_000, 100_000)), switches: 1, ..stream });
        }
    }
    ran
}

pub(crate) fn record(out: &Path, slowed: u64) {
    write(out, "n", START, about(), Format::Parquet, &scene(START, 60, slowed));
}

pub(crate) fn ask(out: &Path, question: &Question) -> Report {
    analyze(&[out.to_str().unwrap().to_owned()], question, |_| {}).unwrap()
}

pub(crate) fn ask_process(out: &Path) -> Report {
    ask(out, &Question::default())
}

pub(crate) fn with_progress(subject: SubjectKind, argument: &str) -> Question {
    let progress = vec![Progress::open(argument, 0).unwrap()];
    Question { subject, progress, ..Question::default() }
}
