use crate::{Delivery, Losses, Message};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::time::Duration;

/// What a consumer wants to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Rows of every data set.
    Rows,
    /// Rows of one data set.
    Dataset(&'static str),
    /// Rows and samples.
    Everything,
}

impl Wants {
    fn includes(self, delivery: &Delivery) -> bool {
        match (self, delivery) {
            (Self::Everything, _) | (Self::Rows, Delivery::Rows(_)) => true,
            (Self::Dataset(name), Delivery::Rows(batch)) => batch.dataset().name == name,
            _ => false,
        }
    }
}

/// A consumer's queue, from its end. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    messages: Receiver<Message>,
    paused: Arc<AtomicBool>,
}

impl Subscription {
    /// The next message; `None` when none came in time, or none will come any more.
    pub fn next(&self, wait: Duration) -> Option<Message> {
        self.messages.recv_timeout(wait).ok()
    }

    /// The next message, or whether all sources have ended.
    ///
    /// # Errors
    /// Nothing came in time, or nothing will.
    pub fn recv(&self, wait: Duration) -> Result<Message, RecvTimeoutError> {
        self.messages.recv_timeout(wait)
    }

    /// What came within so long, in one go: waking for every message costs more than what is done with most of them,
    /// here and in the source that would have to wake somebody. `None` when all sources have ended and nothing is left.
    pub fn gather(&self, pace: Duration) -> Option<Vec<Message>> {
        #[allow(clippy::disallowed_methods)] // a pace is meant
        std::thread::sleep(pace);
        let mut gathered = Vec::new();
        loop {
            match self.messages.try_recv() {
                Ok(message) => gathered.push(message),
                Err(TryRecvError::Disconnected) if gathered.is_empty() => return None,
                Err(_) => return Some(gathered),
            }
        }
    }

    /// Wants nothing for now, and what is waiting is thrown away; or again something. What comes meanwhile is no loss:
    /// nobody would have used it.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
        if paused {
            self.messages.try_iter().for_each(drop);
        }
    }

    /// What is waiting.
    pub fn waiting(&self) -> impl Iterator<Item = Message> {
        self.messages.try_iter()
    }
}

/// A consumer's queue, from the sources' end.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    name: &'static str,
    wants: Wants,
    messages: SyncSender<Message>,
    paused: Arc<AtomicBool>,
    losses: Arc<Losses>,
}

impl Queue {
    pub(crate) fn new(
        name: &'static str,
        capacity: usize,
        wants: Wants,
        losses: Arc<Losses>,
    ) -> (Self, Subscription) {
        let (sender, messages) = sync_channel(capacity);
        let paused = Arc::new(AtomicBool::new(false));
        let queue = Self { name, wants, messages: sender, paused: Arc::clone(&paused), losses };
        (queue, Subscription { messages, paused })
    }

    /// Hands a message over if it is wanted; what does not fit is counted.
    pub(crate) fn offer(&self, message: &Message) {
        if !self.wants.includes(&message.delivery) || self.paused.load(Ordering::Relaxed) {
            return;
        }
        if let Err(TrySendError::Full(message)) = self.messages.try_send(message.clone()) {
            let (what, rows) = match &message.delivery {
                Delivery::Rows(batch) => (batch.dataset().name, batch.len()),
                Delivery::Node(_) => (message.source.name, 1),
                Delivery::Subjects(period) => (message.source.name, period.samples.len()),
            };
            self.losses.add(what, self.name, rows as u64);
        }
    }
}
