//! Blocks of one lane on their way to the store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::backoff::Backoff;
use super::client::Client;
use super::coalesce;
use super::verdict::Verdict;
use crate::dead_letters::Keeper;
use crate::ingest::block_protocol;
use crate::metrics::Metrics;
use crate::queue::{Block, Entry};

/// What all lanes of an endpoint share.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) dead_letters: Arc<Mutex<Keeper>>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) shutdown: watch::Receiver<bool>,
}

/// The processor is stopping; what is undelivered stays on disk.
#[derive(Debug)]
pub(super) struct Stopping;

impl Sender {
    /// Sends the blocks, as one where they may go together, until the store has taken or refused every one of them. `done`
    /// counts those of which it has, also where stopping cuts the others off.
    pub(super) async fn deliver(
        &self,
        entries: &[Entry],
        backoff: &mut Backoff,
        done: &mut usize,
    ) -> Result<(), Stopping> {
        if entries.len() > 1
            && let Some(payload) = coalesce::join(entries).await
        {
            let joined = Block { payload, ..entries[0].block.clone() };
            if self.send(&joined, backoff).await? == Verdict::Delivered {
                let samples = entries.iter().map(|entry| u64::from(entry.block.samples)).sum();
                self.count_delivered(samples, entries.len());
                *done = entries.len();
                return Ok(());
            }
            // One bad block must not take its neighbours with it: each is sent alone.
        }
        for entry in entries {
            match self.send(&entry.block, backoff).await? {
                Verdict::Refused { status, reason } => {
                    self.bury(&entry.block, status, reason, backoff).await?;
                }
                _ => self.count_delivered(u64::from(entry.block.samples), 1),
            }
            *done += 1;
        }
        Ok(())
    }

    fn count_delivered(&self, samples: u64, blocks: usize) {
        self.metrics.forwarded_samples.add([&self.name], samples);
        self.metrics.forwarded_blocks.add([&self.name], blocks as u64);
    }

    /// Keeps a block that was refused. It is not done with before that is on disk.
    async fn bury(
        &self,
        block: &Block,
        status: u16,
        reason: String,
        backoff: &mut Backoff,
    ) -> Result<(), Stopping> {
        let endpoint = &self.name;
        tracing::warn!(
            endpoint,
            status,
            reason,
            "store refuses a block for good; kept as a dead letter"
        );
        self.metrics.dead_letters.add([endpoint, &status.to_string()], 1);
        loop {
            let (keeper, block, reason) =
                (Arc::clone(&self.dead_letters), block.clone(), reason.clone());
            let keep = move || {
                let mut keeper = keeper.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                keeper.keep(&block, status, &reason)
            };
            match tokio::task::spawn_blocking(keep).await {
                Ok(Ok(evicted)) => {
                    self.metrics.dead_letters_evicted.add([endpoint], evicted);
                    return Ok(());
                }
                Ok(Err(error)) => tracing::error!(endpoint, %error, "cannot keep a dead letter"),
                Err(error) => tracing::error!(endpoint, %error, "cannot keep a dead letter"),
            }
            self.metrics.forward_retries.add([endpoint, "disk"], 1);
            self.pause(backoff, None).await?;
        }
    }

    /// Sends until the store has decided.
    async fn send(&self, block: &Block, backoff: &mut Backoff) -> Result<Verdict, Stopping> {
        let Some(protocol) = block_protocol(block.kind) else {
            let reason = format!("block of unknown kind {}", block.kind);
            return Ok(Verdict::Refused { status: 0, reason });
        };
        loop {
            // What is begun is finished, which takes `timeout` at most: a store that has taken a block and whose answer
            // nobody waits for would get it again.
            if *self.shutdown.borrow() {
                return Err(Stopping);
            }
            match self.client.send(protocol, block.payload.clone()).await {
                Verdict::Again { reason, detail, after } => {
                    let endpoint = &self.name;
                    tracing::warn!(endpoint, reason, detail, "cannot deliver; will try again");
                    self.metrics.forward_retries.add([endpoint, reason], 1);
                    self.pause(backoff, after).await?;
                }
                decided => {
                    backoff.reset();
                    return Ok(decided);
                }
            }
        }
    }

    async fn pause(
        &self,
        backoff: &mut Backoff,
        at_least: Option<Duration>,
    ) -> Result<(), Stopping> {
        let pause = backoff.next(at_least);
        let mut shutdown = self.shutdown.clone();
        tokio::select! {
            biased;
            _ = shutdown.wait_for(|stop| *stop) => Err(Stopping),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }
}
