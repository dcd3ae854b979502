use crate::subscription::Queue;
use crate::{Delivery, Losses, Message, NodeSample, SourceStatus, Standing, SubjectPeriod};
use crosstalk_host::{Capability, Clock, Verdict};
use crosstalk_model::{Batch, Row, Total};
use serde::Serialize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Where a source hands over what it measures, and says how it stands.
pub struct Outlet {
    pub(crate) status: Arc<SourceStatus>,
    pub(crate) queues: Arc<[Queue]>,
    pub(crate) losses: Arc<Losses>,
    pub(crate) clock: Clock,
    /// Nothing is ever sent: it ends by being dropped.
    pub(crate) stop: Receiver<()>,
}

impl Outlet {
    /// Waits so long; `true` when it is time to end.
    #[must_use]
    pub fn pause(&self, pause: Duration) -> bool {
        self.stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout)
    }

    /// The clock of all sources.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Hands over rows.
    pub fn deliver<R: Row>(&self, rows: Vec<R>) {
        if !rows.is_empty() {
            self.offer(Delivery::Rows(Batch::new(rows)));
        }
    }

    /// Hands over rows, and then what says that no more will come for their time. Whose queue had no room for the rows
    /// does not get the second either: what it missed would pass for rest.
    pub fn deliver_whole<R: Row, C: Row>(&self, rows: Vec<R>, coverage: Vec<C>) {
        let rows = (!rows.is_empty()).then(|| self.message(Delivery::Rows(Batch::new(rows))));
        let coverage =
            (!coverage.is_empty()).then(|| self.message(Delivery::Rows(Batch::new(coverage))));
        for queue in self.queues.iter() {
            let has_rows = rows.as_ref().is_none_or(|rows| queue.offer(rows));
            match &coverage {
                Some(coverage) if has_rows => drop(queue.offer(coverage)),
                Some(coverage) => queue.withhold(coverage),
                None => {}
            }
        }
    }

    /// Hands over a sample of the node.
    pub fn sample(&self, end_ns: u64, covers_ns: u64, values: &[Option<f64>]) {
        let values = values.to_vec();
        self.offer(Delivery::Node(Arc::new(NodeSample { end_ns, covers_ns, values })));
    }

    /// Hands over a period of subjects.
    pub fn subjects(&self, period: SubjectPeriod) {
        self.offer(Delivery::Subjects(Arc::new(period)));
    }

    fn offer(&self, delivery: Delivery) {
        let message = self.message(delivery);
        for queue in self.queues.iter() {
            queue.offer(&message);
        }
    }

    fn message(&self, delivery: Delivery) -> Message {
        Message { source: self.status.about(), delivery }
    }

    /// Says how it stands.
    pub fn report(&self, verdict: Verdict, found: impl Into<String>) {
        self.stand(self.capability(verdict, found), Vec::new());
    }

    /// Says how it stands, and which metrics it does not have here and why.
    pub fn stand(&self, capability: Capability, absent: Vec<(&'static str, String)>) {
        self.status.set(Standing { capability, absent });
    }

    /// Tells the operator how it stands though it goes on measuring: what comes and goes by the second must not be told
    /// each time, so that the source decides.
    pub fn announce(&self, capability: &Capability) {
        self.status.announce(capability);
    }

    /// A capability under the source's name.
    pub fn capability(&self, verdict: Verdict, found: impl Into<String>) -> Capability {
        Capability::new(self.status.about().name, verdict, found)
    }

    /// Says something that recordings should tell about the source. Its key there begins with the source's name.
    pub fn describe(&self, key: &str, value: impl Serialize) {
        self.status.describe(key, serde_json::to_value(value).unwrap_or_default());
    }

    /// Counts rows that were measured and did not get as far as here.
    pub fn lost(&self, dataset: &'static str, place: &'static str, rows: u64) {
        self.losses.add(dataset, place, rows);
    }

    /// Adds to a sum that only grows.
    pub fn add(&self, total: Total, amount: f64) {
        self.status.add(total, amount);
    }

    /// Counts what went wrong without ending the source.
    pub fn count_errors(&self, count: u64) {
        self.status.count_errors(count);
    }

    /// Counts starts of what the source itself keeps running.
    pub fn count_restarts(&self, count: u64) {
        self.status.count_restarts(count);
    }
}
