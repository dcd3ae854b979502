//! The consumer that writes everything down: rows of every data set, as they are delivered.

mod notes;
mod work;

use crate::{Error, FinishedFile, Metadata, RecordingOptions, Recovered, Run};
use crosstalk_collect::{Collect, Overview, Subscription, Wants};
use crosstalk_model::Dataset;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use work::Work;

/// Batches that may wait while the disk is slow: several seconds of all sources.
const WAITING: usize = 1024;
/// Where rows are lost that found no room in the queue.
const NAME: &str = "recorder";

/// What to write, and what to do when that fails.
pub struct RecorderOptions {
    /// Where and how.
    pub recording: RecordingOptions,
    /// This node's name.
    pub node: String,
    /// What every file says about itself from the beginning.
    pub metadata: Metadata,
    /// Data sets that have a file even without a row; others have one from their first row on.
    pub always: Vec<&'static Dataset>,
    /// After a failure (a full disk), try again this much later; `None` ends with the first.
    pub retry: Option<Duration>,
    /// Told what goes wrong while it is tried again.
    pub on_error: fn(&Error),
}

/// What was recorded.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The files, oldest first.
    pub files: Vec<FinishedFile>,
    /// The run that they belong to.
    pub run: Option<Run>,
    /// What an earlier recording had left, and is finished now.
    pub recovered: Recovered,
}

/// Writes on a thread of its own, so that a slow disk holds up no source. What it cannot write is
/// counted in the losses of the collection, at `"file"`.
pub struct Recorder {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<Recorded, Error>>,
}

#[derive(Debug, Default)]
struct Shared {
    rows: AtomicU64,
    has_failed: AtomicBool,
    is_up: AtomicBool,
    recovered: Mutex<Recovered>,
}

/// How a recorder stands, for who tells others.
#[derive(Clone, Debug)]
pub struct RecorderStatus(Arc<Shared>);

impl RecorderStatus {
    /// Whether what comes is being written: not while the disk is full, nor after a fault, until it is tried again.
    pub fn is_up(&self) -> bool {
        self.0.is_up.load(Ordering::Relaxed)
    }
}

/// A subscription to all rows, before it is known where they go: sources may be started meanwhile.
pub struct Tap {
    queue: Subscription,
    overview: Overview,
}

impl Tap {
    /// Subscribes to all rows of sources that are started from now on.
    pub fn new(collect: &mut Collect) -> Self {
        let queue = collect.subscribe(NAME, WAITING, Wants::Rows);
        Self { queue, overview: collect.overview().clone() }
    }
}

impl Recorder {
    /// Writes what comes. Where a failure ends it, the folder is made and claimed at once.
    ///
    /// # Errors
    /// The folder cannot be used, or no thread can be started.
    pub fn start(tap: Tap, options: RecorderOptions) -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let out = options.recording.out.clone();
        let mut work = Work::new(options, tap.queue, tap.overview, Arc::clone(&shared));
        work.claim()?;
        let thread = Builder::new()
            .name(NAME.to_owned())
            .spawn(move || work.run())
            .map_err(|source| Error::Io { path: out, source })?;
        Ok(Self { shared, thread })
    }

    /// Rows of all data sets written so far.
    pub fn rows(&self) -> u64 {
        self.shared.rows.load(Ordering::Relaxed)
    }

    /// How it stands from now on.
    pub fn status(&self) -> RecorderStatus {
        RecorderStatus(Arc::clone(&self.shared))
    }

    /// Whether it has given up.
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Relaxed) || self.thread.is_finished()
    }

    /// What was left by an earlier recording, and is finished now.
    pub fn recovered(&self) -> Recovered {
        self.shared.recovered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes what is left and finishes the files. Stop the sources first: it waits for them to end.
    ///
    /// # Errors
    /// What was collected could not be written.
    pub fn finish(self) -> Result<Recorded, Error> {
        self.thread.join().unwrap_or_else(|_| {
            let reason = "the recorder stopped unexpectedly".to_owned();
            Err(Error::Unreadable { path: "recorder".to_owned(), reason })
        })
    }
}
