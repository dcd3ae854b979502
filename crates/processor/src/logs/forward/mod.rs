//! Every log record on to a log store, with the workload on it, through a durable queue of its own.

mod document_id;
mod encode;
mod refused;
mod verdict;
mod way;

use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::config::LogForward;
use crate::dead_letters::{self, Keeper};
use crate::error::Error;
use crate::forward::Backoff;
use crate::logs::disk;
use crate::metrics::Metrics;
use crate::queue::{Block, Entry, Queue, QueueError, Reader, Reservation, WhenFull};
pub(super) use encode::Encoder;
pub(crate) use encode::LogBody;
pub(crate) use verdict::Verdict as LogVerdict;
pub(crate) use way::LogWay;

/// Mark of a block of log lines.
pub(crate) const KIND: u8 = 32;

/// A log store's queue.
#[derive(Debug)]
pub(crate) struct LogTarget {
    pub(crate) name: String,
    pub(crate) queue: Queue,
}

impl LogTarget {
    /// Sets room aside for bodies.
    pub(crate) fn reserve(
        &self,
        bodies: &[LogBody],
    ) -> Result<(Reservation, Vec<Block>), QueueError> {
        let reservation = self.queue.reserve_all(bodies.iter().map(|body| body.bytes.len()))?;
        let block = |body: &LogBody| disk::block(KIND, body.lines, body.bytes.clone());
        Ok((reservation, bodies.iter().map(block).collect()))
    }
}

/// Delivers one log store's queue.
#[derive(Debug)]
pub(crate) struct LogForwarder {
    name: String,
    way: LogWay,
    dead_letters: Arc<Mutex<Keeper>>,
    reader: Reader,
    backoff: Backoff,
    metrics: Arc<Metrics>,
    stopping: watch::Receiver<bool>,
}

/// The processor is stopping; what is not delivered stays on disk.
struct Ended;

impl LogForwarder {
    /// Opens the queue of `forward` in the data folder, and what empties it.
    pub(crate) fn open(
        forward: &LogForward,
        when_full: WhenFull,
        data_dir: &Path,
        metrics: Arc<Metrics>,
        stopping: watch::Receiver<bool>,
    ) -> Result<(LogTarget, LogForwarder), Error> {
        let way = LogWay::new(forward)?;
        let name = forward.name.clone();
        let folder = data_dir.join("log-forward").join(&name);
        let opened = disk::open(&folder, forward.max_queue_bytes, when_full);
        let (queue, reader) =
            opened.map_err(|cause| Error::Queue { endpoint: name.clone(), cause })?;
        let letters = dead_letters::folder_of_logs(data_dir, &name);
        let keeper = Keeper::open(&letters, forward.max_dead_letter_bytes)?;
        let forwarder = LogForwarder {
            name: name.clone(),
            way,
            dead_letters: Arc::new(Mutex::new(keeper)),
            reader,
            backoff: Backoff::new(forward.max_backoff.get()),
            metrics,
            stopping,
        };
        Ok((LogTarget { name, queue }, forwarder))
    }

    /// Whether the files that `forward` names can be used.
    pub(crate) fn check(forward: &LogForward) -> Result<(), Error> {
        LogWay::new(forward).map(drop)
    }

    /// Runs until shutdown.
    pub(crate) async fn run(mut self) {
        while self.step().await.is_ok() {}
    }

    async fn step(&mut self) -> Result<(), Ended> {
        let entry = tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stop| *stop) => return Err(Ended),
            entry = self.reader.next() => entry,
        };
        match entry {
            Ok(entry) => {
                self.deliver(&entry).await?;
                if let Err(error) = self.reader.delivered(&entry) {
                    tracing::error!(store = self.name, %error, "cannot note a delivery");
                }
                Ok(())
            }
            Err(QueueError::Closed) => Err(Ended),
            Err(error) => {
                tracing::error!(store = self.name, %error, "cannot read the queue of a log store");
                self.pause(None).await
            }
        }
    }

    /// Sends until the store has decided.
    async fn deliver(&mut self, entry: &Entry) -> Result<(), Ended> {
        let lines = u64::from(entry.block.samples);
        loop {
            // What is begun is finished, as for metrics.
            if *self.stopping.borrow() {
                return Err(Ended);
            }
            let verdict = self.way.send(&entry.block.payload).await;
            let store = &self.name;
            match verdict {
                LogVerdict::Taken => {
                    self.backoff.reset();
                    self.metrics.forwarded_log_lines.add([store], lines);
                    return Ok(());
                }
                LogVerdict::Refused { lines: which, status, reason } => {
                    self.backoff.reset();
                    let bad = refused::only(&entry.block, &which);
                    let taken = lines.saturating_sub(u64::from(bad.samples));
                    self.metrics.forwarded_log_lines.add([store], taken);
                    return self.bury(bad, status, reason).await;
                }
                LogVerdict::Again { reason, after } => {
                    self.metrics.log_forward_retries.add([store], 1);
                    tracing::warn!(store, reason, "cannot deliver log lines; will try again");
                    self.pause(after).await?;
                }
            }
        }
    }

    /// Keeps lines that were refused. They are not done with before that is on disk.
    async fn bury(&mut self, block: Block, status: u16, reason: String) -> Result<(), Ended> {
        let (store, lines) = (self.name.clone(), block.samples);
        tracing::warn!(
            store,
            status,
            lines,
            reason,
            "log store refuses lines for good; kept as a dead letter"
        );
        self.metrics.refused_log_lines.add([&store], u64::from(lines));
        self.metrics.log_dead_letters.add([&store, &status.to_string()], 1);
        loop {
            match refused::keep(&self.dead_letters, block.clone(), status, reason.clone()).await {
                Ok(evicted) => {
                    self.metrics.log_dead_letters_evicted.add([&store], evicted);
                    return Ok(());
                }
                Err(error) => tracing::error!(store, %error, "cannot keep a dead letter"),
            }
            self.pause(None).await?;
        }
    }

    async fn pause(&mut self, at_least: Option<std::time::Duration>) -> Result<(), Ended> {
        let pause = self.backoff.next(at_least);
        tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stop| *stop) => Err(Ended),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }
}
