use crate::subscription::Queue;
use crate::supervise::Supervised;
use crate::{About, Losses, Source, SourceStatus, Standing, Subscription, Wants, locked};
use crosstalk_host::{Capability, Clock, Verdict};
use std::io;
use std::sync::{Arc, Mutex};

/// How everything stands, for who does not start or stop it: consumers among others.
#[derive(Clone, Debug)]
pub struct Overview {
    clock: Clock,
    losses: Arc<Losses>,
    statuses: Arc<Mutex<Vec<Arc<SourceStatus>>>>,
    consumers: Arc<Mutex<Vec<&'static str>>>,
}

impl Overview {
    /// The sources so far, in the order they were started.
    pub fn statuses(&self) -> Vec<Arc<SourceStatus>> {
        locked(&self.statuses).clone()
    }

    /// The source of this name.
    pub fn status(&self, name: &str) -> Option<Arc<SourceStatus>> {
        self.statuses().into_iter().find(|status| status.about().name == name)
    }

    /// What was lost so far.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Who subscribed: places where rows are lost for that consumer and for nobody else.
    pub fn consumers(&self) -> Vec<&'static str> {
        locked(&self.consumers).clone()
    }

    /// The clock of all sources.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// Sources and who reads them. Dropping it ends the sources, the last started first.
pub struct Collect {
    overview: Overview,
    queues: Vec<Queue>,
    running: Vec<Supervised>,
    on_news: fn(&Capability),
}

impl Collect {
    /// Nothing yet, on this clock.
    pub fn new(clock: Clock) -> Self {
        Self {
            overview: Overview {
                clock,
                losses: Arc::default(),
                statuses: Arc::default(),
                consumers: Arc::default(),
            },
            queues: Vec::new(),
            running: Vec::new(),
            on_news: |_| {},
        }
    }

    /// Tells `tell` whenever a source begins or ceases to work.
    #[must_use]
    pub fn on_news(mut self, tell: fn(&Capability)) -> Self {
        self.on_news = tell;
        self
    }

    /// A queue of `capacity` messages for a consumer. Only sources that are started later fill it.
    pub fn subscribe(&mut self, name: &'static str, capacity: usize, wants: Wants) -> Subscription {
        let (queue, subscription) =
            Queue::new(name, capacity, wants, Arc::clone(&self.overview.losses));
        self.queues.push(queue);
        locked(&self.overview.consumers).push(name);
        subscription
    }

    /// Starts a source on a thread of its own and keeps it running.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(&mut self, source: Box<dyn Source>) -> io::Result<Arc<SourceStatus>> {
        let status = self.status(source.about());
        let running = Supervised::start(
            source,
            Arc::clone(&status),
            self.queues.clone().into(),
            Arc::clone(&self.overview.losses),
            self.overview.clock.clone(),
        )?;
        self.running.push(running);
        Ok(status)
    }

    /// Whether anybody subscribed to what this source can have.
    pub fn is_wanted(&self, about: &About) -> bool {
        self.queues.iter().any(|queue| queue.is_for_source(about))
    }

    /// Knows of a source that is not started because nobody would read it, so that answers can say so.
    pub fn unread(&mut self, about: &'static About, fix: &str) -> Arc<SourceStatus> {
        let found = "not started: nobody here reads what it measures";
        self.off(about, Capability::new(about.name, Verdict::Off, found).fix(fix))
    }

    /// Knows of a source that is switched off, so that answers can say so.
    pub fn switched_off(&mut self, about: &'static About, fix: &str) -> Arc<SourceStatus> {
        self.off(about, Capability::new(about.name, Verdict::Off, "switched off").fix(fix))
    }

    fn off(&mut self, about: &'static About, capability: Capability) -> Arc<SourceStatus> {
        let status = self.status(about);
        status.set(Standing { capability, absent: Vec::new() });
        status
    }

    fn status(&mut self, about: &'static About) -> Arc<SourceStatus> {
        let status = Arc::new(SourceStatus::with_news(about, Box::new(self.on_news)));
        locked(&self.overview.statuses).push(Arc::clone(&status));
        status
    }

    /// How everything stands.
    pub fn overview(&self) -> &Overview {
        &self.overview
    }

    /// Ends the sources one after the other, the last started first: what builds on another is over
    /// before it. Consumers then find the end of their queues.
    pub fn stop(&mut self) {
        while let Some(source) = self.running.pop() {
            drop(source);
        }
        self.queues.clear();
    }

    /// Tells all sources to end before the first is waited for: quicker than [`Collect::stop`].
    pub fn stop_at_once(&mut self) {
        self.running.iter_mut().for_each(Supervised::stop);
        self.stop();
    }
}

impl Drop for Collect {
    fn drop(&mut self) {
        self.stop();
    }
}
