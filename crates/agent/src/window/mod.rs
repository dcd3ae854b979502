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

use crate::log::tell;
use crate::memory::Memory;
use crosstalk_coldmem::{ColdRow, UsageRow};
use crosstalk_collect::{Consumer, Delivery, Message, Overview, Subscription, Wants};
use crosstalk_host::monotonic_ns;
use crosstalk_model::{ProbeReading, Row, SlotCoverage, TaskRow};
use crosstalk_sources::Settings;
use probe::Probe;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use tasks::Tasks;

/// Deliveries that may wait: seconds of all sources.
pub(crate) const WAITING: usize = 1024;
/// What it makes something of.
pub(crate) const WANTS: Wants = Wants::Samples(&[
    TaskRow::DATASET,
    SlotCoverage::DATASET,
    ProbeReading::DATASET,
    ColdRow::DATASET,
    UsageRow::DATASET,
]);

/// Starts filling the windows of these sources; ends when the last source has.
pub(crate) fn start(
    queue: Subscription,
    sources: &[Arc<SourceWindow>],
    settings: &Settings,
    overview: &Overview,
    memory: Arc<Memory>,
) -> io::Result<JoinHandle<()>> {
    let windows: HashMap<&'static str, Arc<SourceWindow>> =
        sources.iter().map(|source| (source.name(), Arc::clone(source))).collect();
    // What came is taken as often as the counters are fetched: answers are older by at most this.
    let pace = settings.fetch_every();
    let (settings, overview) = (settings.clone(), overview.clone());
    queue.consume(pace, tell, move || {
        let offset_ns = overview.clock().offset_ns();
        Fill {
            sources: windows.clone(),
            tasks: Tasks::new(&settings, offset_ns),
            probe: Probe::new(offset_ns, monotonic_ns()),
            overview: overview.clone(),
            memory: Arc::clone(&memory),
        }
    })
}

struct Fill {
    sources: HashMap<&'static str, Arc<SourceWindow>>,
    tasks: Tasks,
    probe: Probe,
    overview: Overview,
    memory: Arc<Memory>,
}

impl Consumer for Fill {
    fn take(&mut self, messages: &[Message]) {
        messages.iter().for_each(|message| self.file(message));
        // Also when nothing came: what the counters do not deliver is a gap.
        self.cut("counters");
    }
}

impl Fill {
    fn file(&mut self, message: &Message) {
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
