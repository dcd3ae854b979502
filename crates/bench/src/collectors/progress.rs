//! What workloads got done by their own account.
//!
//! Data set: progress.

use super::http::Http;
use super::meter::{Meters, number_on_page};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{Capability, Verdict};
use crosstalk_model::Row;
use std::sync::Arc;
use std::time::{Duration, Instant};

static ABOUT: About =
    About { name: "progress", datasets: &[ProgressRow::DATASET], metrics: &[], subjects: &[] };
static URL_ABOUT: About =
    About { name: "progress-url", datasets: &[], metrics: &[], subjects: &[] };

/// How often what was said is handed over.
const HAND_OVER: Duration = Duration::from_millis(100);
/// A workload that does not answer costs the others this much at most.
const PATIENCE: Duration = Duration::from_millis(300);

/// What a workload said it had got done: a row of the `progress` data set.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressRow {
    /// Start of the slot in which it was said, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// The round.
    pub round: u32,
    /// The container's index.
    pub index: u32,
    /// Its name.
    pub container: Arc<str>,
    /// Units of work done since it started.
    pub done: f64,
}

crosstalk_model::dataset! {
    ProgressRow: "progress", "one row whenever a workload says what it got done",
    by |row| (row.index, row.slot_start_ns),
    round [int] "" "number of the round" = |row| row.round;
    index [int] "" "index of the container" = |row| row.index;
    container [text] "" "name of the container" = |row| &row.container;
    done [float] "" "units of work done since it started, by its own account" = |row| row.done;
}

pub(super) struct ProgressSource {
    meters: Meters,
}

impl ProgressSource {
    pub(super) const fn new(meters: Meters) -> Self {
        Self { meters }
    }

    fn hand_over(&self, out: &Outlet) {
        let (rows, lost) = self.meters.take();
        out.lost(ProgressRow::DATASET.name, "meter", lost);
        out.deliver(rows);
    }
}

impl Source for ProgressSource {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        out.report(Verdict::Ok, "what workloads say on their output");
        while !out.pause(HAND_OVER) {
            self.hand_over(out);
        }
        self.hand_over(out);
        Ok(())
    }
}

/// Asks the addresses at which workloads say what they got done.
pub(super) struct UrlSource {
    meters: Meters,
    period: Duration,
}

impl UrlSource {
    pub(super) const fn new(meters: Meters, period: Duration) -> Self {
        Self { meters, period }
    }
}

impl Source for UrlSource {
    fn about(&self) -> &'static About {
        &URL_ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        let http =
            Http::new().map_err(|error| out.capability(Verdict::Failing, error.to_string()))?;
        out.report(Verdict::Ok, "what workloads say at their addresses");
        let mut next = Instant::now();
        loop {
            for (url, after, meter) in self.meters.addresses() {
                let body = http.get(&url, PATIENCE);
                let number = body.and_then(|body| match &after {
                    Some(word) => number_on_page(&body, word),
                    None => body.trim().parse().ok().filter(|number: &f64| number.is_finite()),
                });
                match number {
                    Some(done) => meter.tell(out.clock().now_unix_ns(), done),
                    None => out.count_errors(1),
                }
            }
            next = (next + self.period).max(Instant::now());
            if out.pause(next.saturating_duration_since(Instant::now())) {
                return Ok(());
            }
        }
    }
}
