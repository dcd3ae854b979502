//! Pool and sampler as one running source: told who ran, it hands out a row per process, L3 domain and slot.
//!
//! Two threads work behind it. One puts processes into groups, which takes milliseconds; the other reads at slot edges
//! and never waits for the first. Both queues are bounded: what does not fit is dropped and counted.
//!
//! A mount that goes away ends the source, not the program: [`SourceStatus::ended_because`] says so.
//!
//! ```no_run
//! use crosstalk_host::HostRoot;
//! use crosstalk_resctrl::Resctrl;
//! use crosstalk_resctrl::pool::Pool;
//! use crosstalk_resctrl::source::{CacheSource, Seen, SourceConfig};
//! # let seen: Vec<Seen> = Vec::new();
//! let config = SourceConfig::default();
//! let pool = Pool::start(Resctrl::locate(&HostRoot::default())?, config.pool.clone())?;
//! let mut source = CacheSource::start(pool, config)?;
//! source.saw(seen); // every few tens of milliseconds
//! let rows = source.take();
//! source.stop()?;
//! # Ok::<(), crosstalk_resctrl::Error>(())
//! ```

mod children;
mod place;
mod subjects;
mod tick;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crosstalk_host::{Clock, HostRoot, ProcStat};

use crate::pool::{Pool, PoolConfig, PoolReport, Roster, SubjectKey};
use crate::sampler::{CacheReading, SamplerConfig};
use crate::{Error, MonitoringInfo};
use children::Children;

/// Batches of rows that may wait, one a slot: a second at 1 kHz.
const WAITING_SLOTS: usize = 1024;
/// Lists of who ran that may wait while processes are being moved.
const WAITING_LISTS: usize = 64;

/// How a source behaves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SourceConfig {
    /// Who gets a group.
    pub pool: PoolConfig,
    /// How often groups are read, and what that may cost.
    pub sampler: SamplerConfig,
    /// What Unix time is.
    pub clock: Clock,
}

/// A process that was on a processor since the last time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Which process.
    pub key: SubjectKey,
    /// Its name.
    pub comm: Arc<str>,
    /// The container it runs in, if any.
    pub container: Option<Arc<str>>,
    /// The number of its parent when it was first seen; without it, `/proc` is asked while the process lives.
    pub parent: Option<u32>,
    /// For how long it was.
    pub cpu_ns: u64,
}

/// What a source has done so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceStatus {
    /// Slots that have rows.
    pub slots: u64,
    /// Slots that passed before the reader got a processor again.
    pub missed_slots: u64,
    /// Values read.
    pub reads: u64,
    /// CPU time of the reads, ns.
    pub read_cpu_ns: u64,
    /// Readings put off to a later slot by the CPU budget.
    pub put_off: u64,
    /// Rows dropped because nobody took them.
    pub dropped_rows: u64,
    /// Lists of who ran dropped because processes were being moved.
    pub dropped_lists: u64,
    /// Times processes were put into groups.
    pub updates: u64,
    /// Updates the kernel refused; each is tried again.
    pub failed_updates: u64,
    /// Rows that are of a process and of children that had no group of their own yet.
    pub rows_with_children: u64,
    /// What the last update came to.
    pub pool: PoolReport,
    /// Why nothing is read any more.
    pub ended_because: Option<String>,
}

/// What the threads share.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// A group was gone when it was read: the placing thread should look.
    gone: AtomicBool,
    dropped_lists: AtomicU64,
    roster: Mutex<Option<Arc<Roster>>>,
    ran: Mutex<Arc<[SubjectKey]>>,
    status: Mutex<SourceStatus>,
}

impl Shared {
    fn status(&self) -> MutexGuard<'_, SourceStatus> {
        locked(&self.status)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// None of the locks is held while something can panic half-way through a change.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running source. Removes its groups when stopped or dropped.
#[derive(Debug)]
pub struct CacheSource {
    shared: Arc<Shared>,
    monitoring: MonitoringInfo,
    host: HostRoot,
    clock: Clock,
    children: Mutex<Children>,
    lists: Option<SyncSender<Vec<Seen>>>,
    rows: Receiver<Vec<CacheReading>>,
    placing: Option<JoinHandle<Result<(), Error>>>,
    ticking: Option<JoinHandle<()>>,
}

impl CacheSource {
    /// Starts both threads.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(pool: Pool, config: SourceConfig) -> Result<Self, Error> {
        let failed = |source| Error::Thread { source };
        let shared = Arc::new(Shared::default());
        let monitoring = pool.monitoring().clone();
        let (lists, lists_in) = sync_channel(WAITING_LISTS);
        let (rows_out, rows) = sync_channel(WAITING_SLOTS);
        let mut source = Self {
            shared,
            monitoring,
            host: config.pool.host.clone(),
            clock: config.clock.clone(),
            children: Mutex::new(Children::new(config.pool.stale_for_ns)),
            lists: Some(lists),
            rows,
            placing: None,
            ticking: None,
        };
        let (clock, shared) = (config.clock.clone(), Arc::clone(&source.shared));
        let place = thread::Builder::new().name("cache-groups".to_owned());
        let host = config.pool.host.clone();
        let placing = place.spawn(move || place::run(pool, &host, &clock, &lists_in, &shared));
        source.placing = Some(placing.map_err(failed)?);
        let shared = Arc::clone(&source.shared);
        let tick = thread::Builder::new().name("cache-sampler".to_owned());
        let ticking =
            tick.spawn(move || tick::run(config.sampler, &config.clock, &rows_out, &shared));
        source.ticking = Some(ticking.map_err(failed)?);
        Ok(source)
    }

    /// What the machine can monitor.
    #[must_use]
    pub fn monitoring(&self) -> &MonitoringInfo {
        &self.monitoring
    }

    /// Tells who was on a processor since the last call; an empty list says that nobody was.
    pub fn saw(&self, seen: Vec<Seen>) {
        let roster = locked(&self.shared.roster).clone();
        let parent_of = |pid| ProcStat::of_process(&self.host, pid)?.parent();
        let now_ns = self.clock.now_unix_ns();
        locked(&self.children).saw(&seen, roster.as_deref(), now_ns, parent_of);
        *locked(&self.shared.ran) = seen.iter().map(|seen| seen.key).collect();
        let sent = self.lists.as_ref().map(|lists| lists.try_send(seen));
        if matches!(sent, Some(Err(TrySendError::Full(_)))) {
            self.shared.dropped_lists.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The rows of the slots read since the last call, but for the newest: they wait until it is known whether children
    /// ran in them.
    #[must_use]
    pub fn take(&self) -> Vec<CacheReading> {
        let rows = self.rows.try_iter().flatten();
        locked(&self.children).flag(rows, self.clock.now_unix_ns())
    }

    /// What was done so far.
    #[must_use]
    pub fn status(&self) -> SourceStatus {
        let dropped_lists = self.shared.dropped_lists.load(Ordering::Relaxed);
        let rows_with_children = locked(&self.children).rows_with_children;
        SourceStatus { dropped_lists, rows_with_children, ..self.shared.status().clone() }
    }

    /// Ends both threads and removes the groups; returns the rows nobody had taken yet.
    ///
    /// # Errors
    /// Groups are left: the mount refuses.
    pub fn stop(&mut self) -> Result<Vec<CacheReading>, Error> {
        self.shared.stop.store(true, Ordering::Relaxed);
        drop(self.lists.take());
        if let Some(ticking) = self.ticking.take() {
            // A thread that panicked has said so already.
            let _ = ticking.join();
        }
        let removed = self.placing.take().map(JoinHandle::join);
        locked(&self.children).end();
        match removed {
            Some(Ok(Err(error))) => Err(error),
            _ => Ok(self.take()),
        }
    }
}

impl Drop for CacheSource {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next start.
        let _ = self.stop();
    }
}
