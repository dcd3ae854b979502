use crate::{About, Delivery, Losses, Message};
use crosstalk_model::Dataset;
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
    /// Rows of these data sets.
    Datasets(&'static [&'static Dataset]),
    /// Samples, and rows of these data sets.
    Samples(&'static [&'static Dataset]),
    /// Rows and samples.
    Everything,
}

impl Wants {
    fn includes(self, delivery: &Delivery) -> bool {
        match (self, delivery) {
            (Self::Everything, _) | (Self::Rows, Delivery::Rows(_)) => true,
            (_, Delivery::Rows(batch)) => self.has(batch.dataset()),
            (Self::Samples(_), _) => true,
            _ => false,
        }
    }

    fn has(self, dataset: &Dataset) -> bool {
        match self {
            Self::Rows | Self::Everything => true,
            Self::Dataset(name) => dataset.name == name,
            Self::Datasets(some) | Self::Samples(some) => {
                some.iter().any(|wanted| wanted.name == dataset.name)
            }
        }
    }

    /// Whether anything that this source can have is among it.
    fn includes_any_of(self, about: &About) -> bool {
        let samples = matches!(self, Self::Samples(_) | Self::Everything);
        let has_samples = !about.metrics.is_empty() || !about.subjects.is_empty();
        samples && has_samples || about.datasets.iter().any(|dataset| self.has(dataset))
    }
}

/// A consumer's queue, from its end. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    name: &'static str,
    messages: Receiver<Message>,
    paused: Arc<AtomicBool>,
    losses: Arc<Losses>,
}

impl Subscription {
    /// Whose it is.
    pub fn name(&self) -> &'static str {
        self.name
    }

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

    /// Counts a message as lost that was handed over and came to nothing.
    pub(crate) fn lose(&self, message: &Message) {
        lose(&self.losses, self.name, message);
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
        let subscription = Subscription {
            name,
            messages,
            paused: Arc::clone(&paused),
            losses: Arc::clone(&losses),
        };
        (Self { name, wants, messages: sender, paused, losses }, subscription)
    }

    /// Hands a message over if it is wanted; what does not fit is counted. Whether nothing that is wanted was lost.
    pub(crate) fn offer(&self, message: &Message) -> bool {
        if !self.is_for(message) {
            return true;
        }
        match self.messages.try_send(message.clone()) {
            Err(TrySendError::Full(message)) => {
                self.lose(&message);
                false
            }
            // Who has gone misses nothing.
            Ok(()) | Err(TrySendError::Disconnected(_)) => true,
        }
    }

    /// Counts a message as lost if it is wanted.
    pub(crate) fn withhold(&self, message: &Message) {
        if self.is_for(message) {
            self.lose(message);
        }
    }

    /// Whether it would be given anything that this source can have.
    pub(crate) fn is_for_source(&self, about: &About) -> bool {
        self.wants.includes_any_of(about)
    }

    fn is_for(&self, message: &Message) -> bool {
        self.wants.includes(&message.delivery) && !self.paused.load(Ordering::Relaxed)
    }

    fn lose(&self, message: &Message) {
        lose(&self.losses, self.name, message);
    }
}

fn lose(losses: &Losses, consumer: &'static str, message: &Message) {
    let (what, rows) = match &message.delivery {
        Delivery::Rows(batch) => (batch.dataset().name, batch.len()),
        Delivery::Node(_) => (message.source.name, 1),
        Delivery::Subjects(period) => (message.source.name, period.samples.len()),
    };
    losses.add(what, consumer, rows as u64);
}
