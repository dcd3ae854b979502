//! How a source stands, for `/ready`, for the answer's `sources`, and for Prometheus.

use crate::log::say;
use crate::metric::{Metric, Total};
use crate::subjects::SubjectTable;
use crate::tape::Tape;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a source stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It has not said anything yet.
    Starting,
    /// It measures all it can.
    Ok,
    /// It measures, but less than it could on another machine.
    Limited,
    /// This machine does not have what it needs.
    Absent,
    /// It ended with an error and is started anew after a pause.
    Failing,
    /// It is switched off.
    Off,
}

/// A verdict and its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How it stands.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What would make it better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Metrics it has on other machines but not here, each with the reason.
    #[serde(skip)]
    pub absent: Vec<(&'static str, String)>,
}

impl Report {
    /// A verdict and what was found.
    pub fn new(verdict: Verdict, found: impl Into<String>) -> Self {
        Self { verdict, found: found.into(), fix: None, absent: Vec::new() }
    }

    /// With what would make it better.
    #[must_use]
    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    /// Divides an error of the form "what; the way out".
    pub(crate) fn of_error(verdict: Verdict, text: &str) -> Self {
        match text.split_once("; ") {
            Some((found, fix)) => Self::new(verdict, found).fix(fix),
            None => Self::new(verdict, text),
        }
    }
}

/// One source as everybody else sees it: its tape, its subjects, its verdict and its counts.
#[derive(Debug)]
pub struct SourceState {
    /// Its name.
    pub name: &'static str,
    /// What it measures of the node; absent for sources of subjects only.
    pub tape: Option<Tape>,
    /// What it measures of processes, containers and pods.
    pub subjects: SubjectTable,
    report: Mutex<Report>,
    totals: Mutex<Vec<(Total, f64)>>,
    errors: AtomicU64,
    restarts: AtomicU64,
}

impl SourceState {
    /// A source that has not begun.
    #[must_use]
    pub fn new(name: &'static str, tape: Option<Tape>, subjects: SubjectTable) -> Self {
        Self {
            name,
            tape,
            subjects,
            report: Mutex::new(Report::new(Verdict::Starting, "no sample yet")),
            totals: Mutex::new(Vec::new()),
            errors: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
        }
    }

    /// Says how it stands; tells the log when that is news.
    pub fn report(&self, report: Report) {
        let mut now = locked(&self.report);
        let works = |verdict| matches!(verdict, Verdict::Ok | Verdict::Limited);
        // A probe on a busy machine goes from ok to limited and back by the second: no news.
        let news = now.verdict != report.verdict && !(works(now.verdict) && works(report.verdict));
        if news {
            let Report { verdict, found, fix, .. } = &report;
            let fix = fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default();
            say(format_args!("{}: {verdict:?}: {found}{fix}", self.name));
        }
        *now = report;
    }

    /// How it stands.
    #[must_use]
    pub fn current(&self) -> Report {
        locked(&self.report).clone()
    }

    /// Counts what went wrong.
    pub fn count_errors(&self, count: u64) {
        self.errors.fetch_add(count, Ordering::Relaxed);
    }

    /// What went wrong so far.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    pub(crate) fn count_restarts(&self, count: u64) {
        self.restarts.fetch_add(count, Ordering::Relaxed);
    }

    /// How often it was started anew.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Adds to a sum that only grows.
    pub(crate) fn add(&self, total: Total, amount: f64) {
        let mut totals = locked(&self.totals);
        match totals.iter_mut().find(|(known, _)| known.family == total.family) {
            Some((_, sum)) => *sum += amount,
            None => totals.push((total, amount)),
        }
    }

    pub(crate) fn totals(&self) -> Vec<(Total, f64)> {
        locked(&self.totals).clone()
    }

    /// Takes a sample of the node; a refused one is an error counted.
    pub(crate) fn push(&self, end_ns: u64, covers_ns: u64, values: &[Option<f64>]) {
        let Some(tape) = &self.tape else { return };
        if tape.push(end_ns, covers_ns, values).is_err() {
            self.count_errors(1);
        }
    }

    /// The metrics of the node it can have.
    pub(crate) fn metrics(&self) -> &[Metric] {
        self.tape.as_ref().map_or(&[], Tape::metrics)
    }

    /// Age of its newest sample of anything, in seconds.
    pub(crate) fn age_s(&self, now_ns: u64) -> Option<f64> {
        let newest = match &self.tape {
            Some(tape) => tape.view().newest_ns(),
            None => self.subjects.newest_ns(),
        };
        newest.map(|newest| now_ns.saturating_sub(newest) as f64 * 1e-9)
    }
}

/// Plain values are whole even if a thread died while it held them.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
