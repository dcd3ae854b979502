//! From a queue to a store, again until the store takes a block or refuses it for good.
//!
//! Blocks lie in the queue in the order they came, each in the lane of its series. Lanes are delivered at the same time, the
//! blocks of one lane one after the other: so many requests are in flight and still every series arrives in order.

mod backoff;
mod client;
mod coalesce;
mod lanes;
mod sender;
mod verdict;

use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::Endpoint;
use crate::dead_letters::Keeper;
use crate::error::Error;
use crate::metrics::Metrics;
use crate::queue::{Entry, QueueError, Reader};
pub(crate) use backoff::Backoff;
pub(crate) use client::{Client, without_user_info};
use lanes::Lanes;
use sender::Sender;
pub(crate) use verdict::Verdict;

/// Delivers one endpoint's queue.
#[derive(Debug)]
pub(crate) struct Forwarder {
    sender: Arc<Sender>,
    reader: Reader,
    lanes: Lanes,
    /// Read errors of the queue itself.
    backoff: Backoff,
    shutdown: watch::Receiver<bool>,
}

/// A lane's blocks that were delivered, and its pauses for the next.
type Sent = (u8, Vec<Entry>, Backoff);

impl Forwarder {
    /// A forwarder for `endpoint` that keeps refused blocks in `dead_letters`.
    pub(crate) fn new(
        endpoint: &Endpoint,
        dead_letters: &Path,
        reader: Reader,
        metrics: Arc<Metrics>,
        shutdown: watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        let keeper = Keeper::open(dead_letters, endpoint.max_dead_letter_bytes)?;
        let sender = Sender {
            name: endpoint.name.clone(),
            client: Client::new(endpoint)?,
            dead_letters: Arc::new(Mutex::new(keeper)),
            metrics,
            shutdown: shutdown.clone(),
        };
        let longest = endpoint.max_backoff.get();
        Ok(Forwarder {
            sender: Arc::new(sender),
            reader,
            lanes: Lanes::new(longest),
            backoff: Backoff::new(longest),
            shutdown,
        })
    }

    /// Whether the files that `endpoint` names can be used.
    pub(crate) fn check(endpoint: &Endpoint) -> Result<(), Error> {
        Client::new(endpoint).map(drop)
    }

    /// Runs until shutdown. What is undelivered then stays on disk.
    pub(crate) async fn run(mut self) {
        let mut sending: JoinSet<Option<Sent>> = JoinSet::new();
        loop {
            let readable = match self.read() {
                Ok(()) => true,
                Err(error) => {
                    tracing::error!(endpoint = self.sender.name, %error, "cannot read the forward queue");
                    self.sender.metrics.forward_retries.add([&self.sender.name, "disk"], 1);
                    false
                }
            };
            while let Some((lane, entries, mut backoff)) = self.lanes.start() {
                let dropped = |entry: &&Entry| self.reader.is_dropped(entry);
                let live: Vec<Entry> = entries.iter().filter(|e| !dropped(e)).cloned().collect();
                let sender = Arc::clone(&self.sender);
                sending.spawn(async move {
                    sender.deliver(&live, &mut backoff).await.ok()?;
                    Some((lane, entries, backoff))
                });
            }
            let pause = if readable { None } else { Some(self.backoff.next(None)) };
            let Forwarder { reader, lanes, shutdown, .. } = &mut self;
            let more = async {
                match pause {
                    Some(pause) => {
                        tokio::time::sleep(pause).await;
                        Ok(())
                    }
                    None if lanes.has_room() => reader.wait().await,
                    None => std::future::pending().await,
                }
            };
            let sent = tokio::select! {
                biased;
                _ = shutdown.wait_for(|stop| *stop) => return,
                Some(sent) = sending.join_next(), if !sending.is_empty() => sent,
                more = more => match more {
                    Err(QueueError::Closed) => return,
                    _ => continue,
                },
            };
            let (lane, entries, backoff) = match sent {
                Ok(Some(sent)) => sent,
                // Told to stop.
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(endpoint = self.sender.name, %error, "forwarding ended");
                    return;
                }
            };
            entries.iter().for_each(|entry| self.note_delivered(entry));
            self.lanes.finish(lane, &entries, backoff);
        }
    }

    /// Reads as many blocks ahead as there is room for.
    fn read(&mut self) -> Result<(), QueueError> {
        while self.lanes.has_room()
            && let Some(entry) = self.reader.try_next()?
        {
            self.backoff.reset();
            self.lanes.push(entry);
        }
        Ok(())
    }

    /// A cursor that cannot be written only means that a restart delivers the block once more.
    fn note_delivered(&mut self, entry: &Entry) {
        if let Err(error) = self.reader.delivered_alone(entry) {
            tracing::error!(endpoint = self.sender.name, %error, "cannot note a delivery");
        }
    }
}
