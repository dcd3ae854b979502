//! The consumer that keeps the last seconds: whatever sources deliver becomes samples in rolling
//! buffers, on one thread, which readers never hold up.

mod cutter;
mod probe;
mod series;
mod source;
mod subjects;
mod sums;
mod tasks;

pub use series::Series;
pub use source::SourceWindow;
pub use subjects::{Labels, Subject, SubjectTable};

#[cfg(test)]
pub(crate) use subjects::tests::process;

use crate::memory::Memory;
use crosstalk_coldmem::{ColdRow, UsageRow};
use crosstalk_collect::{Delivery, Message, Overview, Subscription};
use crosstalk_host::monotonic_ns;
use crosstalk_model::{ProbeReading, Row, SlotCoverage, TaskRow};
use crosstalk_sources::Settings;
use probe::Probe;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use tasks::Tasks;

/// Deliveries that may wait: seconds of all sources.
pub(crate) const WAITING: usize = 1024;
/// How often what came is taken: answers are older by at most this, and the counters are fetched no more often.
const PACE: Duration = Duration::from_millis(50);

/// Starts filling the windows of these sources; ends when the last source has.
pub(crate) fn start(
    queue: Subscription,
    sources: &[Arc<SourceWindow>],
    settings: &Settings,
    overview: &Overview,
    memory: Arc<Memory>,
) -> io::Result<JoinHandle<()>> {
    let offset_ns = overview.clock().offset_ns();
    let mut fill = Fill {
        sources: sources.iter().map(|source| (source.name(), Arc::clone(source))).collect(),
        tasks: Tasks::new(settings, offset_ns),
        probe: Probe::new(offset_ns, monotonic_ns()),
        overview: overview.clone(),
        memory,
    };
    Builder::new().name("window".to_owned()).spawn(move || fill.run(&queue))
}

struct Fill {
    sources: HashMap<&'static str, Arc<SourceWindow>>,
    tasks: Tasks,
    probe: Probe,
    overview: Overview,
    memory: Arc<Memory>,
}

impl Fill {
    fn run(&mut self, queue: &Subscription) {
        while let Some(messages) = queue.gather(PACE) {
            messages.iter().for_each(|message| self.take(message));
            // Also when nothing came: what the counters do not deliver is a gap.
            self.cut("counters");
        }
    }

    fn take(&mut self, message: &Message) {
        let Some(source) = self.sources.get(message.source.name) else { return };
        match &message.delivery {
            Delivery::Node(sample) => source.push(sample.end_ns, sample.covers_ns, &sample.values),
            Delivery::Subjects(period) => source.subjects.take(period),
            Delivery::Rows(batch) => {
                if let Some(rows) = batch.rows::<TaskRow>() {
                    self.tasks.tasks(rows);
                } else if let Some(slots) = batch.rows::<SlotCoverage>() {
                    self.tasks.slots(slots);
                } else if let Some(readings) = batch.rows::<ProbeReading>() {
                    self.probe.take(readings, source);
                } else if let Some(ages) = batch.rows::<ColdRow>() {
                    self.memory.take_ages(ages);
                } else if let Some(usage) = batch.rows::<UsageRow>() {
                    self.memory.take_usage(usage, monotonic_ns());
                }
            }
        }
    }

    fn cut(&mut self, source: &'static str) {
        let Some(source) = self.sources.get(source) else { return };
        self.tasks.cut(source);
        let late = self.tasks.take_late_rows();
        self.overview.losses().add(TaskRow::DATASET.name, "window", late);
    }
}
