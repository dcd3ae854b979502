//! A run's folder, read back.

use super::cells::{Cells, Merge};
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

/// What a container used in a stretch of time; of a long run, in several that were sampled one after the other.
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
    /// Memory at the end; of several stretches the most there was.
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
    /// Bytes of L3 caches held; of several stretches the most there were.
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
    /// What workloads got done, by container and time; of a long run not all they said, but how much was done whenever
    /// somebody came, went or was held back.
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
        let mut said = Said::between(&read.events);
        for piece in reader.scan("progress").pieces() {
            said.take(&piece?.batch);
        }
        read.progress = said.points();
        let mut used = Cells::default();
        for piece in reader.scan("containers").pieces() {
            take_usage(&piece?.batch, &mut used);
        }
        let named = |(container, _, point)| UsagePoint { container, ..point };
        read.usage = used.all().map(named).collect();
        let mut held = Cells::default();
        for piece in reader.scan("container_cache").pieces() {
            take_cache(&piece?.batch, &mut held);
        }
        let named = |(container, _, point)| CachePoint { container, ..point };
        read.cache = held.all().map(named).collect();
        read.tasks = tasks::read(&reader, record)?;
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
}

/// The first and the last that a workload said in a stretch of time: when, and how much was done.
struct Span {
    first: (u64, f64),
    last: (u64, f64),
}

impl Merge for Span {
    fn merge(&mut self, other: Self) {
        let is_before = |a: (u64, f64), b: (u64, f64)| (a.0, a.1) < (b.0, b.1);
        if is_before(other.first, self.first) {
            self.first = other.first;
        }
        if is_before(self.last, other.last) {
            self.last = other.last;
        }
    }
}

/// What workloads said they got done.
struct Said {
    cells: Cells<Span>,
    /// When something happened to anybody: no stretch may reach beyond.
    edges: Vec<u64>,
}

impl Said {
    fn between(events: &[Event]) -> Self {
        let mut edges: Vec<u64> = events.iter().map(|event| event.unix_ns).collect();
        edges.sort_unstable();
        edges.dedup();
        Self { cells: Cells::default(), edges }
    }

    fn take(&mut self, batch: &RecordBatch) -> Option<()> {
        let (at, round) = (ints(batch, "slot_start_ns")?, ints(batch, "round")?);
        let (name, done) = (texts(batch, "container")?, floats(batch, "done")?);
        for row in (0..batch.num_rows()).filter(|row| done.is_valid(*row)) {
            let at_ns = at.value(row).unsigned_abs();
            let said = (at_ns, done.value(row));
            let epoch = self.edges.partition_point(|edge| *edge <= at_ns);
            let span = Span { first: said, last: said };
            self.cells.add(name.value(row), round.value(row) as u32, epoch, at_ns, span);
        }
        Some(())
    }

    fn points(self) -> Vec<ProgressPoint> {
        let both = |(container, round, span): (String, u32, Span)| {
            let ends = [Some(span.first), (span.last != span.first).then_some(span.last)];
            let point = move |(at_ns, done)| {
                let container = container.clone();
                ProgressPoint { round, container, at_ns, done }
            };
            ends.into_iter().flatten().map(point)
        };
        self.cells.all().flat_map(both).collect()
    }
}

/// The sum of what is known of both; what is known of one only is not known of the two.
fn both(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a?.saturating_add(b?))
}

impl Merge for UsagePoint {
    fn merge(&mut self, other: Self) {
        self.at_ns = self.at_ns.max(other.at_ns);
        self.covers_ns += other.covers_ns;
        self.cpu_ns = both(self.cpu_ns, other.cpu_ns);
        // Who has ended has none at the end, which says nothing of the time before.
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
        self.block_bytes = both(self.block_bytes, other.block_bytes);
        self.network_bytes = both(self.network_bytes, other.network_bytes);
    }
}

fn take_usage(batch: &RecordBatch, into: &mut Cells<UsagePoint>) -> Option<()> {
    let int = |name: &str| ints(batch, name);
    let (at, covers, round) = (int("slot_start_ns")?, int("covers_ns")?, int("round")?);
    let (cpu, memory) = (int("cpu_ns")?, int("memory_bytes")?);
    let block = (int("block_read_bytes")?, int("block_written_bytes")?);
    let network = (int("network_received_bytes")?, int("network_sent_bytes")?);
    let name = texts(batch, "container")?;
    let sum = |(a, b): (&Int64Array, &Int64Array), row: usize| both(maybe(a, row), maybe(b, row));
    for row in 0..batch.num_rows() {
        let point = UsagePoint {
            round: round.value(row) as u32,
            container: String::new(),
            at_ns: at.value(row).unsigned_abs(),
            covers_ns: covers.value(row).unsigned_abs(),
            cpu_ns: maybe(cpu, row),
            memory_bytes: maybe(memory, row),
            block_bytes: sum(block, row),
            network_bytes: sum(network, row),
        };
        into.add(name.value(row), point.round, 0, point.at_ns, point);
    }
    Some(())
}

impl Merge for CachePoint {
    fn merge(&mut self, other: Self) {
        self.at_ns = self.at_ns.max(other.at_ns);
        self.covers_ns += other.covers_ns;
        self.occupancy_bytes = self.occupancy_bytes.max(other.occupancy_bytes);
        // What is read later tells of the time before too.
        self.memory_bytes = match (self.memory_bytes, other.memory_bytes) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
    }
}

fn take_cache(batch: &RecordBatch, into: &mut Cells<CachePoint>) -> Option<()> {
    let int = |name: &str| ints(batch, name);
    let (at, covers, round) = (int("slot_start_ns")?, int("covers_ns")?, int("round")?);
    let (held, moved) = (int("llc_occupancy_bytes")?, int("mbm_total_bytes")?);
    let name = texts(batch, "container")?;
    for row in 0..batch.num_rows() {
        let point = CachePoint {
            round: round.value(row) as u32,
            container: String::new(),
            at_ns: at.value(row).unsigned_abs(),
            covers_ns: covers.value(row).unsigned_abs(),
            occupancy_bytes: maybe(held, row),
            memory_bytes: maybe(moved, row),
        };
        into.add(name.value(row), point.round, 0, point.at_ns, point);
    }
    Some(())
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
