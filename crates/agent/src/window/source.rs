use super::series::Series;
use super::subjects::SubjectTable;
use crosstalk_collect::{SourceStatus, Standing};
use crosstalk_model::{Metric, Total};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What one source measured of late, and how it stands.
#[derive(Debug)]
pub struct SourceWindow {
    /// How it stands.
    pub status: Arc<SourceStatus>,
    /// What it measured of the node; absent for sources of subjects only.
    pub series: Option<Series>,
    /// What it measured of processes, containers and pods.
    pub subjects: SubjectTable,
    /// Sums that were worked out here, of what it delivered.
    totals: Mutex<Vec<(Total, f64)>>,
}

impl SourceWindow {
    /// A source of which nothing is known yet.
    #[must_use]
    pub fn new(status: Arc<SourceStatus>, series: Option<Series>, subjects: SubjectTable) -> Self {
        Self { status, series, subjects, totals: Mutex::default() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.status.about().name
    }

    /// How it stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.status.standing()
    }

    pub(crate) fn add(&self, total: Total, amount: f64) {
        let mut totals = locked(&self.totals);
        match totals.iter_mut().find(|(known, _)| known.family == total.family) {
            Some((_, sum)) => *sum += amount,
            None => totals.push((total, amount)),
        }
    }

    /// Every sum that only grows.
    pub(crate) fn totals(&self) -> Vec<(Total, f64)> {
        let mut totals = locked(&self.totals).clone();
        totals.extend(self.status.totals());
        totals
    }

    /// Takes a sample of the node. One that the buffer refuses is dated wrongly, and counted there.
    pub(crate) fn push(&self, end_ns: u64, covers_ns: u64, values: &[Option<f64>]) {
        if let Some(series) = &self.series {
            let _ = series.push(end_ns, covers_ns, values);
        }
    }

    /// The metrics of the node it can have.
    pub(crate) fn metrics(&self) -> &[Metric] {
        self.series.as_ref().map_or(&[], Series::metrics)
    }

    /// Age of its newest sample of anything, in seconds.
    pub(crate) fn age_s(&self, now_ns: u64) -> Option<f64> {
        let newest = match &self.series {
            Some(series) => series.view().newest_ns(),
            None => self.subjects.newest_ns(),
        };
        newest.map(|newest| now_ns.saturating_sub(newest) as f64 * 1e-9)
    }
}

/// Plain values are whole even if a thread died while it held them.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
