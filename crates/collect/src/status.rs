use crate::{About, locked};
use crosstalk_host::{Capability, Verdict, monotonic_ns};
use crosstalk_model::Total;
use serde_json::{Map, Value};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How a source stands, and which of its metrics it does not have here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How it stands, why, and what would help.
    pub capability: Capability,
    /// Metrics it has on other machines but not here, each with the reason.
    pub absent: Vec<(&'static str, String)>,
}

impl Standing {
    /// Whether it measures.
    pub fn works(&self) -> bool {
        matches!(self.capability.verdict, Verdict::Ok | Verdict::Limited)
    }
}

/// Time in which a source that had worked did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When it ceased to work, CLOCK_MONOTONIC.
    pub from_ns: u64,
    /// When it worked again; `None` while it does not.
    pub to_ns: Option<u64>,
    /// Why.
    pub why: String,
}

/// The gaps that are remembered of a source: those that came last.
const MOST_GAPS: usize = 64;

type OnNews = Box<dyn Fn(&Capability) + Send + Sync>;

/// One source as everybody else sees it.
pub struct SourceStatus {
    about: &'static About,
    standing: Mutex<Standing>,
    changed: Condvar,
    on_news: OnNews,
    /// What it says about itself in recordings.
    described: Mutex<Map<String, Value>>,
    gaps: Mutex<VecDeque<Gap>>,
    totals: Mutex<Vec<(Total, f64)>>,
    errors: AtomicU64,
    restarts: AtomicU64,
}

impl SourceStatus {
    /// A source that has not begun.
    pub fn new(about: &'static About) -> Self {
        Self::with_news(about, Box::new(|_| {}))
    }

    pub(crate) fn with_news(about: &'static About, on_news: OnNews) -> Self {
        let starting = Capability::new(about.name, Verdict::Starting, "no sample yet");
        Self {
            about,
            standing: Mutex::new(Standing { capability: starting, absent: Vec::new() }),
            changed: Condvar::new(),
            on_news,
            described: Mutex::default(),
            gaps: Mutex::default(),
            totals: Mutex::default(),
            errors: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
        }
    }

    /// What it is.
    pub fn about(&self) -> &'static About {
        self.about
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        locked(&self.standing).clone()
    }

    /// Says how it stands.
    pub fn set(&self, standing: Standing) {
        let mut now = locked(&self.standing);
        let verdict = now.capability.verdict;
        // A probe on a busy machine goes from ok to limited and back by the second: no news.
        let news = verdict != standing.capability.verdict && !(now.works() && standing.works());
        if now.works() != standing.works() {
            self.note_gap(now.works(), &standing.capability);
        }
        *now = standing;
        if news {
            (self.on_news)(&now.capability);
        }
        self.changed.notify_all();
    }

    /// A gap begins where a source that worked does so no more, and ends when it does again.
    fn note_gap(&self, worked: bool, capability: &Capability) {
        let (mut gaps, now_ns) = (locked(&self.gaps), monotonic_ns());
        if worked {
            if gaps.len() == MOST_GAPS {
                gaps.pop_front();
            }
            let why = capability.found.clone();
            gaps.push_back(Gap { from_ns: now_ns, to_ns: None, why });
        } else if let Some(gap) = gaps.back_mut() {
            gap.to_ns.get_or_insert(now_ns);
        }
    }

    /// When it did not work though it had, oldest first; of very many the last.
    pub fn gaps(&self) -> Vec<Gap> {
        locked(&self.gaps).iter().cloned().collect()
    }

    /// Whether it works, or ever did.
    pub(crate) fn has_worked(&self) -> bool {
        let works = self.standing().works();
        works || !locked(&self.gaps).is_empty()
    }

    /// Tells the operator something that is no change of verdict.
    pub(crate) fn announce(&self, capability: &Capability) {
        (self.on_news)(capability);
    }

    /// Waits until it has said how it stands.
    pub fn wait_until_started(&self, longest: Duration) -> Standing {
        let until = Instant::now() + longest;
        let mut now = locked(&self.standing);
        while now.capability.verdict == Verdict::Starting {
            let Some(left) = until.checked_duration_since(Instant::now()) else { break };
            now = self.changed.wait_timeout(now, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        now.clone()
    }

    /// Under the source's name, so that it hides nothing that the machine or another source is described with.
    pub(crate) fn describe(&self, key: &str, value: Value) {
        let name = self.about.name;
        let is_own =
            key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
        let key = if is_own { key.to_owned() } else { format!("{name}_{key}") };
        locked(&self.described).insert(key, value);
    }

    /// What it says about itself.
    pub fn described(&self) -> Map<String, Value> {
        locked(&self.described).clone()
    }

    pub(crate) fn add(&self, total: Total, amount: f64) {
        let mut totals = locked(&self.totals);
        match totals.iter_mut().find(|(known, _)| known.family == total.family) {
            Some((_, sum)) => *sum += amount,
            None => totals.push((total, amount)),
        }
    }

    /// Its sums that only grow.
    pub fn totals(&self) -> Vec<(Total, f64)> {
        locked(&self.totals).clone()
    }

    pub(crate) fn count_errors(&self, count: u64) {
        self.errors.fetch_add(count, Ordering::Relaxed);
    }

    /// What went wrong so far.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    pub(crate) fn count_restarts(&self, count: u64) {
        self.restarts.fetch_add(count, Ordering::Relaxed);
    }

    /// How often it was started anew.
    pub fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for SourceStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(self.about.name).field("standing", &self.standing()).finish_non_exhaustive()
    }
}
