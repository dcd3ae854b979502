//! A report that another program printed as JSON, read back.

use crate::report::{Evidence, NamedVerdict, Report, RunReport, SmallLosses, Unsaid};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

impl Report {
    /// Reads a report as it is serialized. What it says of training runs is left out: engines are not asked for it.
    ///
    /// # Errors
    /// The text is no report.
    ///
    /// ```
    /// use crosstalk_analysis::Report;
    ///
    /// let report = Report { unread: vec!["a.csv: it is empty".to_owned()], ..Report::default() };
    /// let text = serde_json::to_string(&report).expect("it is plain data");
    /// assert_eq!(Report::from_json(&text).expect("it was one").unread, report.unread);
    /// ```
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let said: SaidReport = serde_json::from_str(text)?;
        let runs = said.runs.into_iter().map(RunReport::from).collect();
        Ok(Self { runs, unread: said.unread, ..Self::default() })
    }
}

/// The few words that resources, signals and reasons have. Each is kept for good, once.
fn word(text: String) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(text.as_str()) {
        return known;
    }
    let kept: &'static str = text.leak();
    known.insert(kept);
    kept
}

#[derive(Deserialize)]
struct SaidReport {
    runs: Vec<SaidRun>,
    unread: Vec<String>,
}

#[derive(Deserialize)]
struct SaidRun {
    node: String,
    run: String,
    rows: u64,
    late_rows: u64,
    slots: u64,
    lossy_slots: u64,
    from_ns: u64,
    to_ns: u64,
    verdicts: Vec<SaidVerdict>,
    small_losses: SmallLosses,
    cannot_tell: Vec<SaidUnsaid>,
    caveats: Vec<String>,
}

#[derive(Deserialize)]
struct SaidVerdict {
    victim: String,
    aggressor: String,
    aggressors: Vec<String>,
    from_ns: u64,
    to_ns: u64,
    slowdown: f64,
    low: f64,
    high: f64,
    lost_seconds: f64,
    resource: String,
    signal: String,
    evidence: Evidence,
    node: String,
    run: String,
    confidence: f64,
}

#[derive(Deserialize)]
struct SaidUnsaid {
    victim: String,
    neighbours: Vec<String>,
    because: String,
    node: String,
    run: String,
}

impl From<SaidRun> for RunReport {
    fn from(said: SaidRun) -> Self {
        Self {
            node: said.node,
            run: said.run,
            rows: said.rows,
            late_rows: said.late_rows,
            slots: said.slots,
            lossy_slots: said.lossy_slots,
            from_ns: said.from_ns,
            to_ns: said.to_ns,
            verdicts: said.verdicts.into_iter().map(NamedVerdict::from).collect(),
            small_losses: said.small_losses,
            cannot_tell: said.cannot_tell.into_iter().map(Unsaid::from).collect(),
            caveats: said.caveats,
            ..Self::default()
        }
    }
}

impl From<SaidVerdict> for NamedVerdict {
    fn from(said: SaidVerdict) -> Self {
        Self {
            victim: said.victim,
            aggressor: said.aggressor,
            aggressors: said.aggressors,
            from_ns: said.from_ns,
            to_ns: said.to_ns,
            slowdown: said.slowdown,
            low: said.low,
            high: said.high,
            lost_seconds: said.lost_seconds,
            resource: word(said.resource),
            signal: word(said.signal),
            evidence: said.evidence,
            node: said.node,
            run: said.run,
            confidence: said.confidence,
        }
    }
}

impl From<SaidUnsaid> for Unsaid {
    fn from(said: SaidUnsaid) -> Self {
        Self {
            victim: said.victim,
            neighbours: said.neighbours,
            because: word(said.because),
            node: said.node,
            run: said.run,
        }
    }
}
