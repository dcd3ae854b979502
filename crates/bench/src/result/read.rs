//! A run's folder, read back.

use super::tasks::{self, TaskPoint};
use crate::Error;
use crate::store::{Event, EventKind, RanRound, RunDir, RunRecord};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, Float64Array, Int64Array, RecordBatch, StringArray};
use crosstalk_recording::Reader;

/// What a workload said it had got done.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressPoint {
    /// The round.
    pub round: u32,
    /// The container.
    pub container: String,
    /// When, Unix nanoseconds.
    pub at_ns: u64,
    /// How much.
    pub done: f64,
}

/// What a container used in a stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct UsagePoint {
    /// The round.
    pub round: u32,
    /// The container.
    pub container: String,
    /// The end of the stretch, Unix nanoseconds.
    pub at_ns: u64,
    /// Its length.
    pub covers_ns: u64,
    /// Processor time.
    pub cpu_ns: Option<u64>,
    /// Memory at the end.
    pub memory_bytes: Option<u64>,
    /// Read from and written to block devices.
    pub block_bytes: Option<u64>,
    /// Received and sent; absent where the network is the host's.
    pub network_bytes: Option<u64>,
}

/// What a container held of caches and moved in a stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct CachePoint {
    /// The round.
    pub round: u32,
    /// The container.
    pub container: String,
    /// The end of the stretch, Unix nanoseconds.
    pub at_ns: u64,
    /// Its length.
    pub covers_ns: u64,
    /// Bytes of L3 caches held.
    pub occupancy_bytes: Option<u64>,
    /// Bytes to and from memory.
    pub memory_bytes: Option<u64>,
}

/// When a container ran.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningSpan {
    /// The container.
    pub container: String,
    /// The round.
    pub round: u32,
    /// From here, Unix nanoseconds.
    pub from_ns: u64,
    /// To here.
    pub to_ns: u64,
}

/// What a run left.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// What workloads got done, by container and time.
    pub progress: Vec<ProgressPoint>,
    /// What containers used.
    pub usage: Vec<UsagePoint>,
    /// What they held of caches; empty where nothing can read that.
    pub cache: Vec<CachePoint>,
    /// What their processes did; empty where no process was watched.
    pub tasks: Vec<TaskPoint>,
    /// When each ran.
    pub running: Vec<RunningSpan>,
    /// What happened.
    pub events: Vec<Event>,
}

impl Recorded {
    /// Reads a run's folder. A run that recorded nothing has empty series.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(dir: &RunDir, record: &RunRecord) -> Result<Self, Error> {
        let events = dir.events().unwrap_or_default();
        let running = running(&events, record);
        let mut read = Self { events, running, ..Self::default() };
        let place = dir.data().display().to_string();
        let Ok(reader) = Reader::open([place]) else { return Ok(read) };
        for piece in reader.scan("progress").pieces() {
            read.take_progress(&piece?.batch);
        }
        for piece in reader.scan("containers").pieces() {
            read.take_usage(&piece?.batch);
        }
        for piece in reader.scan("container_cache").pieces() {
            read.take_cache(&piece?.batch);
        }
        read.tasks = tasks::read(&reader, record)?;
        read.progress.sort_by(|a, b| (&a.container, a.at_ns).cmp(&(&b.container, b.at_ns)));
        read.usage.sort_by(|a, b| (&a.container, a.at_ns).cmp(&(&b.container, b.at_ns)));
        read.cache.sort_by(|a, b| (&a.container, a.at_ns).cmp(&(&b.container, b.at_ns)));
        Ok(read)
    }

    /// When a round ended; of one that was cut short, the last that is known of it.
    pub fn end_ns(&self, round: &RanRound) -> u64 {
        let events = self.events.iter().filter(|e| e.round == round.number).map(|e| e.unix_ns);
        let progress = self.progress.iter().filter(|p| p.round == round.number).map(|p| p.at_ns);
        let usage = self.usage.iter().filter(|p| p.round == round.number).map(|p| p.at_ns);
        let last = || events.chain(progress).chain(usage).max();
        round.end_ns.or_else(last).unwrap_or(round.zero_ns)
    }

    fn take_progress(&mut self, batch: &RecordBatch) -> Option<()> {
        let (at, round) = (ints(batch, "slot_start_ns")?, ints(batch, "round")?);
        let (name, done) = (texts(batch, "container")?, floats(batch, "done")?);
        for row in (0..batch.num_rows()).filter(|row| done.is_valid(*row)) {
            self.progress.push(ProgressPoint {
                round: round.value(row) as u32,
                container: name.value(row).to_owned(),
                at_ns: at.value(row).unsigned_abs(),
                done: done.value(row),
            });
        }
        Some(())
    }

    fn take_usage(&mut self, batch: &RecordBatch) -> Option<()> {
        let int = |name: &str| ints(batch, name);
        let (at, covers, round) = (int("slot_start_ns")?, int("covers_ns")?, int("round")?);
        let (cpu, memory) = (int("cpu_ns")?, int("memory_bytes")?);
        let block = (int("block_read_bytes")?, int("block_written_bytes")?);
        let network = (int("network_received_bytes")?, int("network_sent_bytes")?);
        let name = texts(batch, "container")?;
        let both = |(a, b): (&Int64Array, &Int64Array), row: usize| {
            Some(maybe(a, row)?.saturating_add(maybe(b, row)?))
        };
        for row in 0..batch.num_rows() {
            self.usage.push(UsagePoint {
                round: round.value(row) as u32,
                container: name.value(row).to_owned(),
                at_ns: at.value(row).unsigned_abs(),
                covers_ns: covers.value(row).unsigned_abs(),
                cpu_ns: maybe(cpu, row),
                memory_bytes: maybe(memory, row),
                block_bytes: both(block, row),
                network_bytes: both(network, row),
            });
        }
        Some(())
    }

    fn take_cache(&mut self, batch: &RecordBatch) -> Option<()> {
        let int = |name: &str| ints(batch, name);
        let (at, covers, round) = (int("slot_start_ns")?, int("covers_ns")?, int("round")?);
        let (held, moved) = (int("llc_occupancy_bytes")?, int("mbm_total_bytes")?);
        let name = texts(batch, "container")?;
        for row in 0..batch.num_rows() {
            self.cache.push(CachePoint {
                round: round.value(row) as u32,
                container: name.value(row).to_owned(),
                at_ns: at.value(row).unsigned_abs(),
                covers_ns: covers.value(row).unsigned_abs(),
                occupancy_bytes: maybe(held, row),
                memory_bytes: maybe(moved, row),
            });
        }
        Some(())
    }
}

pub(super) fn maybe(column: &Int64Array, row: usize) -> Option<u64> {
    column.is_valid(row).then(|| column.value(row).unsigned_abs())
}

pub(super) fn ints<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a Int64Array> {
    batch.column_by_name(name)?.as_primitive_opt::<Int64Type>()
}

fn floats<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a Float64Array> {
    batch.column_by_name(name)?.as_primitive_opt::<Float64Type>()
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a StringArray> {
    batch.column_by_name(name)?.as_string_opt::<i32>()
}

/// From each start to its end; what had not ended, to the end of its round.
fn running(events: &[Event], record: &RunRecord) -> Vec<RunningSpan> {
    let mut spans: Vec<RunningSpan> = Vec::new();
    for event in events {
        let Some(name) = &event.container else { continue };
        match event.kind {
            EventKind::Start { .. } => spans.push(RunningSpan {
                container: name.clone(),
                round: event.round,
                from_ns: event.unix_ns,
                to_ns: record
                    .rounds
                    .iter()
                    .find(|round| round.number == event.round)
                    .and_then(|round| round.end_ns)
                    .unwrap_or(u64::MAX),
            }),
            EventKind::Ended { .. } => {
                let mut open = spans.iter_mut().rev();
                let found = open.find(|s| s.container == *name && s.round == event.round);
                found.into_iter().for_each(|span| span.to_ns = event.unix_ns);
            }
            _ => {}
        }
    }
    spans
}
