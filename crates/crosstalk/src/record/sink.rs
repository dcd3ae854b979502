//! Readings into the recording and the summary.

use super::cache::Cache;
use super::filter::Filter;
use super::probe::Probe;
use super::summary::{Report, Summary};
use super::{Args, about};
use anyhow::Result;
use crosstalk_counters::{Collector, OwnUsage, Readings};
use crosstalk_host::HostRoot;
use crosstalk_identity::{Cgroup, Cgroups};
use crosstalk_model::{CacheReading, Dataset, ProbeReading, SlotCoverage, TaskReading};
use crosstalk_recording::{
    Recording, RecordingOptions, Recovered, cache_batch, probe_batch, slots_batch, tasks_batch,
};
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
    cache: Cache,
    probe: Probe,
    filter: Filter,
    /// The first slot of the recording.
    start_ns: u64,
    tasks: Vec<TaskReading>,
    slots: Vec<SlotCoverage>,
    cache_rows: Vec<CacheReading>,
    probe_rows: Vec<ProbeReading>,
    flushed: Instant,
    summary: Summary,
}

impl Sink {
    pub(super) fn create(
        args: &Args,
        host: &HostRoot,
        collector: &Collector,
        (cache, probe): (Cache, Probe),
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
        // What this machine cannot measure is no file without rows: the metadata says why it is absent.
        let measured = |dataset: &Dataset| match dataset {
            Dataset::Tasks | Dataset::Slots => true,
            Dataset::Cache => cache.absent_because().is_none(),
            Dataset::Probe => probe.absent_because().is_none(),
        };
        let datasets: Vec<Dataset> = Dataset::ALL.into_iter().filter(measured).collect();
        let metadata = about::metadata(args, host, collector, &cache, &probe);
        let (recording, recovered) =
            Recording::create(options, &datasets, metadata, now.as_nanos() as u64)?;
        Ok(Self {
            recording,
            recovered,
            cgroups: Cgroups::new(host),
            cache,
            probe,
            filter,
            start_ns: 0,
            tasks: Vec::new(),
            slots: Vec::new(),
            cache_rows: Vec::new(),
            probe_rows: Vec::new(),
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

    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Says where the first slot begins: a burst before it has no slot to join.
    pub(super) fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    pub(super) fn take(&mut self, readings: Readings) -> Result<()> {
        let (cgroups, filter) = (&mut self.cgroups, &self.filter);
        self.cache.saw(readings.tasks.iter(), |task| {
            let cgroup = cgroups.resolve(task.cgroup_id, task.process.pid);
            filter.keeps(task, &cgroup).then_some(cgroup)
        });
        self.cache_rows.extend(self.cache.take());
        let probed = self.probe.take();
        self.take_probe(probed);
        self.tasks.extend(readings.tasks);
        self.slots.extend(readings.slots);
        let most = self.tasks.len().max(self.slots.len()).max(self.cache_rows.len());
        let many = most >= MOST_ROWS;
        if many || self.flushed.elapsed() >= FLUSH { self.flush() } else { Ok(()) }
    }

    fn take_probe(&mut self, rows: Vec<ProbeReading>) {
        let joins = |row: &ProbeReading| row.slot_start_ns >= self.start_ns;
        self.probe_rows.extend(rows.into_iter().filter(joins));
    }

    /// Stops the probe, before the last slot closes.
    pub(super) fn end_probe(&mut self) {
        let (rows, status) = self.probe.stop();
        self.take_probe(rows);
        self.summary.probe.status = status;
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
        self.cache_rows.sort_unstable_by_key(|c| (c.process, c.l3_domain, c.slot_start_ns));
        self.summary.add(&self.tasks, &self.slots, &places);
        self.summary.cache.add(&self.cache_rows);
        self.summary.probe.add(&self.probe_rows);
        if !self.tasks.is_empty() {
            let batch = tasks_batch(&self.tasks, |task| &places[&task.cgroup_id].placement);
            self.recording.write(Dataset::Tasks, &batch)?;
        }
        if !self.slots.is_empty() {
            self.recording.write(Dataset::Slots, &slots_batch(&self.slots))?;
        }
        if !self.cache_rows.is_empty() {
            self.recording.write(Dataset::Cache, &cache_batch(&self.cache_rows))?;
        }
        if !self.probe_rows.is_empty() {
            self.recording.write(Dataset::Probe, &probe_batch(&self.probe_rows))?;
        }
        self.tasks.clear();
        self.slots.clear();
        self.cache_rows.clear();
        self.probe_rows.clear();
        Ok(())
    }

    /// Finishes the files.
    pub(super) fn finish(
        mut self,
        collector: &Collector,
        took: Duration,
        before: OwnUsage,
    ) -> Result<Report> {
        self.cache_rows.extend(self.cache.stop());
        self.summary.cache.status = self.cache.status();
        self.flush()?;
        let files = self.recording.finish()?;
        Ok(Report::new(self.summary, files, collector, took, before))
    }

    /// After a failure: keeps what can still be kept. Parts that stay are finished by the next
    /// recording into the folder.
    pub(super) fn abandon(mut self) {
        if self.flush().is_ok() {
            let _ = self.recording.finish();
        }
    }
}
