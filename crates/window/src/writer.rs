use crate::chunk::{CHUNK, Chunk};
use crate::error::WindowError;
use crate::middle::Middle;
use crate::run::{Build, Parts, SPANS};
use crate::snapshot::Snapshot;
use crate::view::Reader;
use arc_swap::{ArcSwap, ArcSwapOption};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a buffer holds, and its bounds.
///
/// ```
/// use crosstalk_window::Config;
/// use std::time::Duration;
///
/// let mut config = Config::new(["cpu_util", "ipc"]);
/// config.retention = Duration::from_secs(60);
/// config.capacity = 60_000; // 60 s at 1 kHz
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Names of the metrics, in the order of a sample's values.
    pub metrics: Vec<String>,
    /// How far back windows may reach.
    pub retention: Duration,
    /// How many samples are kept at least, as far as retention reaches; memory is bounded by this
    /// number plus two chunks of 64.
    pub capacity: usize,
}

impl Config {
    /// A buffer of these metrics that keeps 30 s, and room for 1 kHz.
    pub fn new<I: IntoIterator<Item = S>, S: Into<String>>(metrics: I) -> Self {
        Self {
            metrics: metrics.into_iter().map(Into::into).collect(),
            retention: Duration::from_secs(30),
            capacity: 30_000,
        }
    }
}

/// What happened to samples since the buffer was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Samples taken in.
    pub accepted: u64,
    /// Samples refused because they ended no later than the newest one.
    pub out_of_order: u64,
    /// Samples whose beginning was cut off because it lay before the end of their predecessor.
    pub trimmed: u64,
    /// Samples dropped before their time because the buffer was full.
    pub dropped_full: u64,
}

/// State the writer publishes and readers load.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) snapshot: ArcSwap<Snapshot>,
    /// What readers found out about the middle of the window they ask for; only readers write it.
    pub(crate) middle: ArcSwapOption<Middle>,
    /// Which middle was last asked about.
    pub(crate) question: AtomicU64,
    /// How often in a row.
    pub(crate) asked: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) out_of_order: AtomicU64,
    pub(crate) trimmed: AtomicU64,
    pub(crate) dropped_full: AtomicU64,
}

/// Makes an empty buffer: the one writer, and a reader to clone as often as needed.
///
/// # Errors
/// If the configuration holds nothing: no metrics, no retention, or no capacity.
pub fn buffer(config: Config) -> Result<(Writer, Reader), WindowError> {
    if config.metrics.is_empty() {
        return Err(WindowError::NoMetrics);
    }
    if config.retention.is_zero() {
        return Err(WindowError::NoRetention);
    }
    if config.capacity == 0 {
        return Err(WindowError::NoCapacity);
    }
    let snapshot = Snapshot::new(Arc::new(Chunk::new(config.metrics.len())));
    let retention_ns = u64::try_from(config.retention.as_nanos()).unwrap_or(u64::MAX);
    let shared = Arc::new(Shared {
        config,
        snapshot: ArcSwap::from_pointee(snapshot.clone()),
        middle: ArcSwapOption::empty(),
        question: AtomicU64::new(0),
        asked: AtomicU64::new(0),
        accepted: AtomicU64::new(0),
        out_of_order: AtomicU64::new(0),
        trimmed: AtomicU64::new(0),
        dropped_full: AtomicU64::new(0),
    });
    let writer = Writer {
        shared: Arc::clone(&shared),
        snapshot,
        retention_ns,
        newest_ns: 0,
        covered_ns: 0,
        builds: VecDeque::new(),
        scratch: Vec::new(),
    };
    Ok((writer, Reader::new(shared)))
}

/// The one end that appends. It never waits for a reader.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    /// The writer's own copy of what it last published.
    snapshot: Snapshot,
    retention_ns: u64,
    newest_ns: u64,
    covered_ns: u64,
    builds: VecDeque<Build>,
    scratch: Vec<(f64, u64)>,
}

impl Writer {
    /// Appends the sample that covers the `covers_ns` before `end_ns` (monotonic nanoseconds).
    ///
    /// A value that is not finite counts as absent.
    ///
    /// # Errors
    /// If the sample has the wrong number of values, covers no time, or ends no later than the
    /// newest one. The buffer is unchanged then, and the last case is counted.
    pub fn push(
        &mut self,
        end_ns: u64,
        covers_ns: u64,
        values: &[Option<f64>],
    ) -> Result<(), WindowError> {
        let expected = self.shared.config.metrics.len();
        if values.len() != expected {
            return Err(WindowError::WrongWidth { expected, got: values.len() });
        }
        if covers_ns == 0 {
            return Err(WindowError::NoLength { end_ns });
        }
        if end_ns <= self.newest_ns {
            self.shared.out_of_order.fetch_add(1, Ordering::Relaxed);
            return Err(WindowError::OutOfOrder { end_ns, newest_ns: self.newest_ns });
        }
        let mut start_ns = end_ns.saturating_sub(covers_ns);
        if start_ns < self.newest_ns {
            self.shared.trimmed.fetch_add(1, Ordering::Relaxed);
            start_ns = self.newest_ns;
        }
        self.newest_ns = end_ns;
        self.covered_ns += end_ns - start_ns;
        let filled = self.snapshot.open().append(start_ns, end_ns, self.covered_ns, values);
        self.shared.accepted.fetch_add(1, Ordering::Relaxed);
        let mut changed = false;
        if filled == CHUNK {
            self.seal();
            changed = true;
        }
        changed |= self.advance_builds();
        if changed {
            self.shared.snapshot.store(Arc::new(self.snapshot.clone()));
        }
        Ok(())
    }

    /// Starts a new chunk and lets go of what no window can reach any more.
    fn seal(&mut self) {
        let metrics = self.shared.config.metrics.len();
        let full = Arc::clone(self.snapshot.open());
        let number = self.snapshot.end() - 1;
        // Ahead of longer runs under way: until it is sorted, every reader sorts it again.
        self.builds.push_front(Build::new(0, number, Parts::Chunk(full), metrics));
        self.snapshot.chunks.push_back(Arc::new(Chunk::new(metrics)));

        let horizon = self.newest_ns.saturating_sub(self.retention_ns);
        let most_chunks = self.shared.config.capacity.div_ceil(CHUNK) + 1;
        while self.snapshot.chunks.len() > 1 {
            let oldest = &self.snapshot.chunks[0];
            let expired = oldest.end(CHUNK - 1) <= horizon;
            if !expired && self.snapshot.chunks.len() <= most_chunks {
                break;
            }
            if !expired {
                let unexpired = (0..CHUNK).filter(|&at| oldest.end(at) > horizon).count() as u64;
                self.shared.dropped_full.fetch_add(unexpired, Ordering::Relaxed);
            }
            self.snapshot.evict();
        }
    }

    /// Sorts a few columns. Each value is sorted once a level, so doing four times the arrival
    /// rate at every push keeps up, and spreads the work so that no push does much.
    fn advance_builds(&mut self) -> bool {
        let mut budget = 4 * SPANS.len() * self.shared.config.metrics.len();
        let mut changed = false;
        while let Some(build) = self.builds.front_mut() {
            if budget == 0 {
                break;
            }
            build.step(&mut self.scratch);
            budget = budget.saturating_sub(build.step_cost());
            if build.is_done() {
                self.finish_build();
                changed = true;
            }
        }
        changed
    }

    fn finish_build(&mut self) {
        let Some(build) = self.builds.pop_front() else { return };
        let level = build.level;
        let number = build.number;
        if let Some(parts) = self.snapshot.add_run(level, number, Arc::new(build.finish())) {
            let metrics = self.shared.config.metrics.len();
            let per_run = SPANS[level + 1] / SPANS[level];
            let number = (number + 1) / per_run as u64 - 1;
            self.builds.push_back(Build::new(level + 1, number, Parts::Runs(parts), metrics));
        }
    }
}
