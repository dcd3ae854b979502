//! What the counters see and the probe feels, also written to files.

use crate::about::recording_metadata;
use crate::clock::unix_ns;
use crate::config::{Config, Mode};
use crate::log::say;
use crate::status::SourceState;
use crosstalk_counters::{Collector, Readings};
use crosstalk_host::HostRoot;
use crosstalk_identity::{Cgroup, Cgroups};
use crosstalk_model::{Dataset, ProbeReading, SlotCoverage, SlotLength, TaskReading};
use crosstalk_recording::{
    Error, Format, Layout, Recording, RecordingOptions, probe_batch, slots_batch, tasks_batch,
};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Rows are handed to the file at least this often: what a kill -9 can cost is below a second.
const FLUSH: Duration = Duration::from_millis(500);
/// And whenever this many wait, which bounds memory.
const MOST_ROWS: usize = 65_536;
/// After a failure (a full disk) the agent goes on and tries again this much later.
const AGAIN: Duration = Duration::from_secs(30);
/// Readings of the probe waiting for the counters' thread, which fetches them ten times a second.
const MOST_PROBE_ROWS: usize = 4_096;
const ROTATE_BYTES: u64 = 256 << 20;

/// Writes the data sets `tasks`, `slots` and `probe`, and survives a disk that does not want them.
pub(crate) struct Recorder {
    out: PathBuf,
    format: Format,
    rotate_after: Duration,
    slot: SlotLength,
    host: HostRoot,
    open: Option<Recording>,
    failed_at: Option<Instant>,
    flushed: Instant,
    tasks: Vec<TaskReading>,
    slots: Vec<SlotCoverage>,
    /// Whether there is a probe to write about.
    is_probing: bool,
    probe: Receiver<ProbeReading>,
}

impl Recorder {
    /// With the way for readings of the probe; `None` when nothing is to be recorded.
    pub(crate) fn new(
        config: &Config,
        host: &HostRoot,
    ) -> Option<(Self, SyncSender<ProbeReading>)> {
        let recording = &config.recording;
        if recording.out.as_os_str().is_empty() {
            return None;
        }
        let (probed, probe) = sync_channel(MOST_PROBE_ROWS);
        let recorder = Self {
            out: recording.out.clone(),
            format: recording.format.parse().unwrap_or_default(),
            rotate_after: recording.rotate_after.get(),
            // The configuration was refused if this is no slot.
            slot: SlotLength::from_nanos(config.slot().nanos()).ok()?,
            host: host.clone(),
            open: None,
            failed_at: None,
            flushed: Instant::now(),
            tasks: Vec::new(),
            slots: Vec::new(),
            is_probing: config.sources.probe.mode != Mode::Off,
            probe,
        };
        Some((recorder, probed))
    }

    pub(crate) fn take(
        &mut self,
        readings: &Readings,
        collector: &Collector,
        state: &SourceState,
        cgroups: &mut Cgroups,
    ) {
        if self.failed_at.is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        if self.open.is_none() {
            let opened = self.create(collector);
            self.open = self.settle(opened, state);
        }
        self.tasks.extend(&readings.tasks);
        self.slots.extend(&readings.slots);
        let many = self.tasks.len().max(self.slots.len()) >= MOST_ROWS;
        if many || self.flushed.elapsed() >= FLUSH {
            self.flush(state, cgroups);
        }
    }

    /// Closes the files.
    pub(crate) fn finish(mut self, state: &SourceState, cgroups: &mut Cgroups) {
        self.flush(state, cgroups);
        let finished = self.open.take().map(Recording::finish).transpose();
        self.settle(finished, state);
    }

    fn create(&self, collector: &Collector) -> Result<Recording, Error> {
        let options = RecordingOptions {
            out: self.out.clone(),
            format: self.format,
            layout: Layout::Hive,
            rotate_bytes: ROTATE_BYTES,
            rotate_after: self.rotate_after,
        };
        let metadata = recording_metadata(&self.host, collector, self.slot);
        let all = [Dataset::Tasks, Dataset::Slots, Dataset::Probe];
        let datasets = if self.is_probing { &all[..] } else { &all[..2] };
        Recording::create(options, datasets, metadata, unix_ns()).map(|(recording, _)| recording)
    }

    fn flush(&mut self, state: &SourceState, cgroups: &mut Cgroups) {
        self.flushed = Instant::now();
        let mut places: HashMap<u64, Arc<Cgroup>> = HashMap::new();
        for task in &self.tasks {
            let place = || cgroups.resolve(task.cgroup_id, task.process.pid);
            places.entry(task.cgroup_id).or_insert_with(place);
        }
        // By process, then time: neighbours in a column are alike, which Parquet rewards.
        self.tasks.sort_unstable_by_key(|task| (task.process, task.core, task.slot_start_ns));
        self.slots.sort_unstable_by_key(|slot| (slot.core, slot.slot_start_ns));
        let (tasks, slots) = (std::mem::take(&mut self.tasks), std::mem::take(&mut self.slots));
        let probe: Vec<ProbeReading> = self.probe.try_iter().collect();
        let Some(recording) = &mut self.open else { return };
        let mut write = || -> Result<(), Error> {
            if !tasks.is_empty() {
                let batch = tasks_batch(&tasks, |task| &places[&task.cgroup_id].placement);
                recording.write(Dataset::Tasks, &batch)?;
            }
            if !slots.is_empty() {
                recording.write(Dataset::Slots, &slots_batch(&slots))?;
            }
            if !probe.is_empty() {
                recording.write(Dataset::Probe, &probe_batch(&probe))?;
            }
            Ok(())
        };
        let written = write();
        if self.settle(written, state).is_none() {
            self.open = None;
        }
    }

    /// An error is counted and told, and recording pauses.
    fn settle<T>(&mut self, result: Result<T, Error>, state: &SourceState) -> Option<T> {
        match result {
            Ok(value) => {
                self.failed_at = None;
                Some(value)
            }
            Err(error) => {
                state.count_errors(1);
                say(format_args!("recording: {error}; tried again in {AGAIN:?}"));
                self.failed_at = Some(Instant::now());
                None
            }
        }
    }
}
