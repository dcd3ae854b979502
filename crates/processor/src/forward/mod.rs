//! From a queue to a store: one block at a time in order, again until the store takes it or refuses it for good.

mod backoff;
mod client;
mod coalesce;
mod dead_letter;
mod verdict;

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use crate::config::Endpoint;
use crate::error::Error;
use crate::ingest::block_protocol;
use crate::metrics::Metrics;
use crate::queue::{Entry, QueueError, Reader};
pub(crate) use backoff::Backoff;
use client::Client;
pub(crate) use client::without_user_info;
use dead_letter::DeadLetters;
use verdict::Verdict;

/// Delivers one endpoint's queue.
#[derive(Debug)]
pub(crate) struct Forwarder {
    name: String,
    client: Client,
    reader: Reader,
    dead_letters: DeadLetters,
    backoff: Backoff,
    metrics: Arc<Metrics>,
    shutdown: watch::Receiver<bool>,
}

/// The processor is stopping; what is undelivered stays on disk.
struct Stopping;

impl Forwarder {
    /// A forwarder for `endpoint` that keeps refused blocks below `folder`.
    pub(crate) fn new(
        endpoint: &Endpoint,
        folder: &Path,
        reader: Reader,
        metrics: Arc<Metrics>,
        shutdown: watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        Ok(Forwarder {
            name: endpoint.name.clone(),
            client: Client::new(endpoint)?,
            reader,
            dead_letters: DeadLetters::open(folder, endpoint.max_dead_letter_bytes)?,
            backoff: Backoff::new(endpoint.max_backoff.get()),
            metrics,
            shutdown,
        })
    }

    /// Whether the files that `endpoint` names can be used.
    pub(crate) fn check(endpoint: &Endpoint) -> Result<(), Error> {
        Client::new(endpoint).map(drop)
    }

    /// Runs until shutdown.
    pub(crate) async fn run(mut self) {
        loop {
            match self.step().await {
                Ok(()) => {}
                Err(StepError::Stopping) => return,
                Err(StepError::Queue(QueueError::Closed)) => return,
                Err(StepError::Queue(error)) => {
                    tracing::error!(endpoint = self.name, %error, "cannot read the forward queue");
                    self.metrics.forward_retries.add([&self.name, "disk"], 1);
                    if self.pause(None).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn step(&mut self) -> Result<(), StepError> {
        let first = tokio::select! {
            biased;
            _ = self.shutdown.wait_for(|stop| *stop) => return Err(StepError::Stopping),
            entry = self.reader.next() => entry?,
        };
        let mut entries = vec![first];
        // A read that fails here is met again by the next step; what was read is delivered first.
        while coalesce::takes_more(&entries)
            && let Ok(Some(entry)) = self.reader.try_next()
        {
            entries.push(entry);
        }
        if entries.len() > 1
            && let Some(payload) = coalesce::join(&entries)
        {
            let samples = entries.iter().map(|entry| u64::from(entry.block.samples)).sum();
            if self.deliver(&entries[0], payload).await? == Verdict::Delivered {
                self.count_delivered(samples, entries.len());
                entries.iter().for_each(|entry| self.note_delivered(entry));
                return Ok(());
            }
            // One bad block must not take its neighbours with it: each is sent alone.
        }
        for entry in &entries {
            self.deliver_alone(entry).await?;
            self.note_delivered(entry);
        }
        Ok(())
    }

    /// A cursor that cannot be written only means that a restart delivers the block once more.
    fn note_delivered(&mut self, entry: &Entry) {
        if let Err(error) = self.reader.delivered(entry) {
            tracing::error!(endpoint = self.name, %error, "cannot note a delivery");
        }
    }

    async fn deliver_alone(&mut self, entry: &Entry) -> Result<(), StepError> {
        let verdict = self.deliver(entry, entry.block.payload.clone()).await?;
        match verdict {
            Verdict::Refused { status, reason } => {
                tracing::warn!(
                    endpoint = self.name,
                    status,
                    reason,
                    "store refuses a block for good; kept as a dead letter"
                );
                self.metrics.dead_letters.add([&self.name, &status.to_string()], 1);
                let evicted = self.dead_letters.keep(entry, status, &reason);
                self.metrics.dead_letters_evicted.add([&self.name], evicted);
            }
            _ => self.count_delivered(u64::from(entry.block.samples), 1),
        }
        Ok(())
    }

    fn count_delivered(&self, samples: u64, blocks: usize) {
        self.metrics.forwarded_samples.add([&self.name], samples);
        self.metrics.forwarded_blocks.add([&self.name], blocks as u64);
    }

    /// Sends until the store has decided.
    async fn deliver(
        &mut self,
        entry: &Entry,
        payload: bytes::Bytes,
    ) -> Result<Verdict, StepError> {
        let Some(protocol) = block_protocol(entry.block.kind) else {
            let reason = format!("block of unknown kind {}", entry.block.kind);
            return Ok(Verdict::Refused { status: 0, reason });
        };
        loop {
            let verdict = tokio::select! {
                biased;
                _ = self.shutdown.wait_for(|stop| *stop) => return Err(StepError::Stopping),
                verdict = self.client.send(protocol, payload.clone()) => verdict,
            };
            match verdict {
                Verdict::Again { reason, detail, after } => {
                    tracing::warn!(
                        endpoint = self.name,
                        reason,
                        detail,
                        "cannot deliver; will try again"
                    );
                    self.metrics.forward_retries.add([&self.name, reason], 1);
                    self.pause(after).await?;
                }
                decided => {
                    self.backoff.reset();
                    return Ok(decided);
                }
            }
        }
    }

    async fn pause(&mut self, at_least: Option<std::time::Duration>) -> Result<(), Stopping> {
        let pause = self.backoff.next(at_least);
        tokio::select! {
            biased;
            _ = self.shutdown.wait_for(|stop| *stop) => Err(Stopping),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }
}

enum StepError {
    Stopping,
    Queue(QueueError),
}

impl From<Stopping> for StepError {
    fn from(Stopping: Stopping) -> Self {
        StepError::Stopping
    }
}

impl From<QueueError> for StepError {
    fn from(error: QueueError) -> Self {
        StepError::Queue(error)
    }
}
