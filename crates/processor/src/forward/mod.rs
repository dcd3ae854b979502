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

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
use sender::{Sender, Stopping};
pub(crate) use verdict::Verdict;

/// Delivers one endpoint's queue.
#[derive(Debug)]
pub(crate) struct Forwarder {
    sender: Arc<Sender>,
    reader: Reader,
    lanes: Lanes,
    /// Read errors of the queue itself.
    backoff: Backoff,
    /// What every task that sends is at, to be sent anew if it panics.
    in_work: HashMap<tokio::task::Id, (u8, Vec<Entry>)>,
    longest_pause: Duration,
    shutdown: watch::Receiver<bool>,
}

/// Pause before blocks are sent again over which a task panicked: that is a defect, and seldom gone at once.
const AFTER_PANIC: Duration = Duration::from_secs(5);

/// A lane's blocks that were delivered.
#[derive(Debug)]
struct Sent {
    lane: u8,
    entries: Vec<Entry>,
    /// Its pauses for the next; `None` where it was told to stop.
    backoff: Option<Backoff>,
}

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
            in_work: HashMap::new(),
            longest_pause: longest,
            shutdown,
        })
    }

    /// Whether the files that `endpoint` names can be used.
    pub(crate) fn check(endpoint: &Endpoint) -> Result<(), Error> {
        Client::new(endpoint).map(drop)
    }

    /// Runs until shutdown, and until the requests that are in flight then are over. What is undelivered stays on disk.
    pub(crate) async fn run(mut self) {
        let mut sending: JoinSet<Sent> = JoinSet::new();
        self.forward(&mut sending).await;
        while let Some(sent) = sending.join_next().await {
            if let Ok(Sent { entries, .. }) = sent {
                entries.iter().for_each(|entry| self.note_delivered(entry));
            }
        }
    }

    async fn forward(&mut self, sending: &mut JoinSet<Sent>) {
        loop {
            let readable = match self.read() {
                Ok(()) => true,
                Err(error) => {
                    tracing::error!(endpoint = self.sender.name, %error, "cannot read the forward queue");
                    self.sender.metrics.forward_retries.add([&self.sender.name, "disk"], 1);
                    false
                }
            };
            while let Some((lane, entries, backoff)) = self.lanes.start() {
                self.send(sending, lane, entries, backoff, Duration::ZERO);
            }
            let pause = if readable { None } else { Some(self.backoff.next(None)) };
            let Forwarder { reader, lanes, shutdown, .. } = &mut *self;
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
                Some(sent) = sending.join_next_with_id(), if !sending.is_empty() => sent,
                more = more => match more {
                    Err(QueueError::Closed) => return,
                    _ => continue,
                },
            };
            let Sent { lane, entries, backoff } = match sent {
                Ok((id, sent)) => {
                    self.in_work.remove(&id);
                    sent
                }
                Err(error) => {
                    let name = &self.sender.name;
                    tracing::error!(endpoint = name, %error, "sending blocks panicked; will try again");
                    self.sender.metrics.forward_retries.add([name, "panic"], 1);
                    let Some((lane, entries)) = self.in_work.remove(&error.id()) else { return };
                    let backoff = Backoff::new(self.longest_pause);
                    self.send(sending, lane, entries, backoff, AFTER_PANIC);
                    continue;
                }
            };
            entries.iter().for_each(|entry| self.note_delivered(entry));
            let Some(backoff) = backoff else { return };
            self.lanes.finish(lane, &entries, backoff);
        }
    }

    /// Sends a lane's blocks after a pause.
    fn send(
        &mut self,
        sending: &mut JoinSet<Sent>,
        lane: u8,
        entries: Vec<Entry>,
        mut backoff: Backoff,
        pause: Duration,
    ) {
        let dropped = |entry: &&Entry| self.reader.is_dropped(entry);
        let mut live: Vec<Entry> =
            entries.iter().filter(|entry| !dropped(entry)).cloned().collect();
        let (sender, in_work) = (Arc::clone(&self.sender), (lane, entries.clone()));
        let task = sending.spawn(async move {
            tokio::time::sleep(pause).await;
            let mut done = 0;
            match sender.deliver(&live, &mut backoff, &mut done).await {
                Ok(()) => Sent { lane, entries, backoff: Some(backoff) },
                Err(Stopping) => {
                    live.truncate(done);
                    Sent { lane, entries: live, backoff: None }
                }
            }
        });
        self.in_work.insert(task.id(), in_work);
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
