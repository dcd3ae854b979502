//! Recordings written row by row, for what the simulator has none of.

use super::START;
use crosstalk_model::{Comm, Placement, ProcessId, Row, Table, TaskReading, TaskRow};
use crosstalk_recording::{Format, Layout, Metadata, Recording, RecordingOptions, Run};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A recording that is being written.
pub(crate) struct RowByRow(Recording);

impl RowByRow {
    pub(crate) fn create(out: &Path, node: &str, slot_ns: u64) -> Self {
        let options = RecordingOptions {
            out: out.to_owned(),
            append: true,
            format: Format::Parquet,
            layout: Layout::Flat,
            rotate_bytes: u64::MAX,
            rotate_after: Duration::from_secs(600),
        };
        let about = Metadata::default().with("slot_ns", slot_ns);
        Self(Recording::create(options, Run::new(node, START), about).unwrap().0)
    }

    pub(crate) fn put<R: Row>(&mut self, rows: &[R]) {
        self.0.open(R::DATASET, START).unwrap();
        self.0.write(Table::of(rows.iter().collect())).unwrap();
    }

    pub(crate) fn finish(self) {
        self.0.finish().unwrap();
    }
}

pub(crate) fn process(pid: u32) -> ProcessId {
    ProcessId { pid, start_ns: START - 10_000_000_000 }
}

/// A process that ran on a core in a slot, after it had waited for it.
pub(crate) fn ran(
    slot_start_ns: u64,
    core: u32,
    (pid, comm): (u32, &str),
    on_cpu_ns: u64,
    waited_ns: u64,
    placed: &Placement,
) -> TaskRow {
    let task = TaskReading {
        slot_start_ns,
        process: process(pid),
        parent: None,
        comm: Comm::from_text(comm),
        core,
        freq_mhz: None,
        cycles: None,
        instructions: None,
        llc_misses: None,
        on_cpu_ns,
        runq_wait_ns: Some(waited_ns),
        switches: 1,
        voluntary_switches: 1,
        page_faults: 0,
        migrations: Some(0),
        multiplexed: None,
        cgroup_id: 1,
    };
    TaskRow::new(task, Arc::new(placed.clone()))
}
