//! Readings into the recording and the summary.

use super::filter::Filter;
use super::summary::{Report, Summary};
use super::{Args, about};
use anyhow::Result;
use crosstalk_counters::{Collector, Readings};
use crosstalk_host::HostRoot;
use crosstalk_identity::{Cgroup, Cgroups};
use crosstalk_model::{Dataset, SlotCoverage, TaskReading};
use crosstalk_recording::{Recording, RecordingOptions, Recovered, slots_batch, tasks_batch};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Rows are handed to the file at least this often: what a kill -9 can cost is below a second.
const FLUSH: Duration = Duration::from_millis(500);
/// And whenever this many are waiting, which bounds memory.
const MOST_ROWS: usize = 65_536;

pub(super) struct Sink {
    recording: Recording,
    recovered: Recovered,
    cgroups: Cgroups,
    filter: Filter,
    tasks: Vec<TaskReading>,
    slots: Vec<SlotCoverage>,
    flushed: Instant,
    summary: Summary,
}

impl Sink {
    pub(super) fn create(
        args: &Args,
        host: &HostRoot,
        collector: &Collector,
        filter: Filter,
    ) -> Result<Self> {
        let options = RecordingOptions {
            out: args.out.clone(),
            format: args.format,
            layout: args.layout(),
            rotate_bytes: args.rotate_size,
            rotate_after: args.rotate_time,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let metadata = about::metadata(args, host, collector);
        let (recording, recovered) =
            Recording::create(options, &Dataset::ALL, metadata, now.as_nanos() as u64)?;
        Ok(Self {
            recording,
            recovered,
            cgroups: Cgroups::new(host),
            filter,
            tasks: Vec::new(),
            slots: Vec::new(),
            flushed: Instant::now(),
            summary: Summary::default(),
        })
    }

    pub(super) fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    pub(super) fn summary(&self) -> &Summary {
        &self.summary
    }

    pub(super) fn take(&mut self, readings: Readings) -> Result<()> {
        self.tasks.extend(readings.tasks);
        self.slots.extend(readings.slots);
        let many = self.tasks.len().max(self.slots.len()) >= MOST_ROWS;
        if many || self.flushed.elapsed() >= FLUSH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.flushed = Instant::now();
        let mut places: HashMap<u64, Arc<Cgroup>> = HashMap::new();
        for task in &self.tasks {
            places
                .entry(task.cgroup_id)
                .or_insert_with(|| self.cgroups.resolve(task.cgroup_id, task.process.pid));
        }
        self.tasks.retain(|task| self.filter.keeps(task, &places[&task.cgroup_id]));
        // By process, then time: neighbours in a column are alike, which Parquet rewards.
        self.tasks.sort_unstable_by_key(|t| (t.process, t.core, t.slot_start_ns));
        self.slots.sort_unstable_by_key(|s| (s.core, s.slot_start_ns));
        self.summary.add(&self.tasks, &self.slots, &places);
        if !self.tasks.is_empty() {
            let batch = tasks_batch(&self.tasks, |task| &places[&task.cgroup_id].placement);
            self.recording.write(Dataset::Tasks, &batch)?;
        }
        if !self.slots.is_empty() {
            self.recording.write(Dataset::Slots, &slots_batch(&self.slots))?;
        }
        self.tasks.clear();
        self.slots.clear();
        Ok(())
    }

    /// Finishes the files.
    pub(super) fn finish(mut self, collector: &Collector, took: Duration) -> Result<Report> {
        self.flush()?;
        let files = self.recording.finish()?;
        Ok(Report::new(self.summary, files, collector, took))
    }

    /// After a failure: keeps what can still be kept. Parts that stay are finished by the next
    /// recording into the folder.
    pub(super) fn abandon(mut self) {
        if self.flush().is_ok() {
            let _ = self.recording.finish();
        }
    }
}
