//! From the disk to the database.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crosstalk_store::{Observation, Recorded, Rejected};
use tokio::sync::watch;

use super::{Shared, Spool, Written, decode};
use crate::database::Database;
use crate::forward::Backoff;
use crate::metrics::Metrics;
use crate::queue::{Entry, QueueError, Reader};

/// Observations of one transaction, and blocks that are gathered, at most.
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
        let recorded = self.record_all(&observations).await?;
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

    /// Writes all of it, in as many transactions as that takes: one that is too long would end at the database's time limit, and
    /// at each try anew. What fails is tried again in halves, so that one row that cannot be stored costs no other.
    async fn record_all(&mut self, observations: &[Observation]) -> Result<Recorded, Ended> {
        let mut all = Recorded::default();
        let (mut start, mut most) = (0, MAX_OBSERVATIONS);
        while start < observations.len() {
            let end = observations.len().min(start + most);
            match self.record(&observations[start..end]).await? {
                Ok(recorded) => {
                    add(&mut all, recorded, start);
                    most = MAX_OBSERVATIONS.min(most * 2);
                    start = end;
                }
                Err(error) if error.is_of_the_data() && end - start == 1 => {
                    all.rejected.push(Rejected { index: start, reason: error.to_string() });
                    start = end;
                }
                Err(error) => {
                    most = after_failure(&error, end - start);
                    if !error.is_of_the_data() {
                        self.pause().await?;
                    }
                }
            }
        }
        Ok(all)
    }

    /// Tries once to write these.
    async fn record(
        &mut self,
        observations: &[Observation],
    ) -> Result<Result<Recorded, crosstalk_store::Error>, Ended> {
        let database = Arc::clone(&self.database);
        let writing = database.within(async { database.store().await?.record(observations).await });
        let written = tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stop| *stop) => return Err(Ended),
            written = writing => written,
        };
        match &written {
            Ok(_) => {
                self.backoff.reset();
                self.shared.in_time.store(true, Ordering::Relaxed);
            }
            Err(error) => {
                self.shared.in_time.store(false, Ordering::Relaxed);
                self.metrics.workload_event_errors.add(1);
                self.metrics.event_stream_errors.add(1);
                tracing::error!(%error, "cannot store what log lines say; they wait on disk");
            }
        }
        Ok(written)
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
            self.shared.tell(*number, Written { iterations, rejected });
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

/// How many to write at once after so many failed: half as many, unless nobody was there to take any.
fn after_failure(error: &crosstalk_store::Error, count: usize) -> usize {
    match error {
        crosstalk_store::Error::Connect { .. } => count.max(1),
        _ => (count / 2).max(1),
    }
}

/// Adds what became of those that begin at this place.
fn add(all: &mut Recorded, recorded: Recorded, start: usize) {
    all.iterations += recorded.iterations;
    all.runs_opened += recorded.runs_opened;
    for (event, count) in recorded.events {
        *all.events.entry(event).or_default() += count;
    }
    let rejected = recorded.rejected.into_iter();
    all.rejected.extend(rejected.map(|found| Rejected { index: found.index + start, ..found }));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_tried_in_halves_unless_the_database_is_away() {
        let (location, longest) = ("db".to_owned(), Duration::from_secs(1));
        let late = crosstalk_store::Error::Timeout { location: location.clone(), longest };
        assert_eq!(after_failure(&late, 5000), 2500);
        assert_eq!(after_failure(&late, 1), 1);
        let away = crosstalk_store::Error::Connect { location, reason: String::new() };
        assert_eq!(after_failure(&away, 5000), 5000);
    }

    #[test]
    fn what_several_transactions_came_to_is_added_up_by_place() {
        let recorded = |index: usize| Recorded {
            iterations: 2,
            runs_opened: 1,
            events: [("TrainingStart", 1)].into(),
            rejected: vec![Rejected { index, reason: "bad".to_owned() }],
        };
        let mut all = Recorded::default();
        add(&mut all, recorded(3), 0);
        add(&mut all, recorded(4), MAX_OBSERVATIONS);
        assert_eq!((all.iterations, all.runs_opened, all.events["TrainingStart"]), (4, 2, 2));
        let places: Vec<usize> = all.rejected.iter().map(|found| found.index).collect();
        assert_eq!(places, [3, MAX_OBSERVATIONS + 4]);
    }
}
