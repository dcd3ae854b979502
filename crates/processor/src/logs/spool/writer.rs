//! From the disk to the database.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crosstalk_store::{Observation, Recorded};
use tokio::sync::watch;

use super::{Shared, Spool, Told, decode};
use crate::database::Database;
use crate::forward::Backoff;
use crate::metrics::Metrics;
use crate::queue::{Entry, QueueError, Reader};

/// Observations and blocks of one transaction at most; a block is never divided.
const MAX_OBSERVATIONS: usize = 5_000;
const MAX_BLOCKS: usize = 64;

/// Longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// Writes observations to the database, in the order they came.
#[derive(Debug)]
pub(crate) struct Writer {
    reader: Reader,
    shared: Arc<Shared>,
    database: Arc<Database>,
    metrics: Arc<Metrics>,
    stopping: watch::Receiver<bool>,
    backoff: Backoff,
}

/// The processor is stopping, or the queue is closed; what is not written stays on disk.
struct Ended;

impl Writer {
    pub(crate) fn new(
        spool: &Spool,
        reader: Reader,
        database: Arc<Database>,
        metrics: Arc<Metrics>,
        stopping: watch::Receiver<bool>,
    ) -> Writer {
        let shared = Arc::clone(&spool.shared);
        shared.in_time.store(database.is_open(), Ordering::Relaxed);
        Writer { reader, shared, database, metrics, stopping, backoff: Backoff::new(MAX_PAUSE) }
    }

    /// Runs until shutdown.
    pub(crate) async fn run(mut self) {
        while self.step().await.is_ok() {}
    }

    async fn step(&mut self) -> Result<(), Ended> {
        let first = tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stop| *stop) => return Err(Ended),
            entry = self.reader.next() => entry,
        };
        let entries = match first {
            Ok(first) => self.gather(first),
            Err(QueueError::Closed) => return Err(Ended),
            Err(error) => {
                tracing::error!(%error, "cannot read the queue of log lines");
                return self.pause().await;
            }
        };
        let mut observations = Vec::new();
        let mut blocks = Vec::with_capacity(entries.len());
        for entry in &entries {
            let start = observations.len();
            match decode(&entry.block) {
                Some((number, decoded)) => {
                    observations.extend(decoded);
                    blocks.push((number, start..observations.len()));
                }
                None => {
                    self.metrics.log_rejected.add(["block"], u64::from(entry.block.samples));
                    tracing::error!(
                        block = entry.name(),
                        "a block of log lines cannot be read; left out"
                    );
                }
            }
        }
        let recorded = self.record(&observations).await?;
        self.tell(&blocks, &observations, recorded);
        if let Some(last) = entries.last()
            && let Err(error) = entries.iter().try_for_each(|entry| self.reader.delivered(entry))
        {
            // A restart then writes them once more, which changes nothing.
            tracing::error!(block = last.name(), %error, "cannot note what was written");
        }
        Ok(())
    }

    /// The blocks that wait, as many as go well together.
    fn gather(&mut self, first: Entry) -> Vec<Entry> {
        let mut count = first.block.samples as usize;
        let mut entries = vec![first];
        while count < MAX_OBSERVATIONS
            && entries.len() < MAX_BLOCKS
            && let Ok(Some(entry)) = self.reader.try_next()
        {
            count += entry.block.samples as usize;
            entries.push(entry);
        }
        entries
    }

    /// Writes until it is written.
    async fn record(&mut self, observations: &[Observation]) -> Result<Recorded, Ended> {
        loop {
            let database = Arc::clone(&self.database);
            let writing =
                database.within(async { database.store().await?.record(observations).await });
            let written = tokio::select! {
                biased;
                _ = self.stopping.wait_for(|stop| *stop) => return Err(Ended),
                written = writing => written,
            };
            match written {
                Ok(recorded) => {
                    self.backoff.reset();
                    self.shared.in_time.store(true, Ordering::Relaxed);
                    return Ok(recorded);
                }
                Err(error) => {
                    self.shared.in_time.store(false, Ordering::Relaxed);
                    self.metrics.workload_event_errors.add(1);
                    self.metrics.event_stream_errors.add(1);
                    tracing::error!(%error, "cannot store what log lines say; they wait on disk");
                    self.pause().await?;
                }
            }
        }
    }

    fn tell(
        &self,
        blocks: &[(u64, std::ops::Range<usize>)],
        observations: &[Observation],
        recorded: Recorded,
    ) {
        let events = recorded.events.values().sum();
        self.metrics.workload_events_created.add(events);
        self.metrics.event_stream_created.add(events);
        for rejected in &recorded.rejected {
            self.metrics.log_rejected.add(["row"], 1);
            tracing::warn!(reason = rejected.reason, "cannot store what a log line says");
        }
        for (number, range) in blocks {
            let inside =
                recorded.rejected.iter().filter(|rejected| range.contains(&rejected.index));
            let rejected: Vec<_> =
                inside.map(|found| (found.index - range.start, found.reason.clone())).collect();
            let iterations = match blocks.len() {
                1 => recorded.iterations,
                _ => iterations_of(&observations[range.clone()], &rejected),
            };
            self.shared.tell(*number, Told { iterations, rejected });
        }
    }

    async fn pause(&mut self) -> Result<(), Ended> {
        let pause = self.backoff.next(None);
        tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stop| *stop) => Err(Ended),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }
}

/// The iterations of one request among those of a transaction: each counts once for a workload.
fn iterations_of(observations: &[Observation], rejected: &[(usize, String)]) -> u64 {
    let mut seen = std::collections::HashSet::new();
    for (index, observation) in observations.iter().enumerate() {
        if let crosstalk_store::Sighting::Performance(performance) = &observation.sighting
            && !rejected.iter().any(|(place, _)| *place == index)
        {
            seen.insert((&observation.workload_uid, performance.iteration()));
        }
    }
    seen.len() as u64
}
