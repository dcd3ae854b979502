//! What is said about verdicts: the answer, the log, the sums.

use super::REACH;
use super::totals::{Lost, Pair};
use crate::config::SubjectName;
use crate::node::unix_seconds;
use arc_swap::ArcSwapOption;
use crosstalk_interference::{Evidence, Findings, Subject, Verdict};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A pair that was told of is not news again for so long after it was last seen.
const NEWS_AGAIN: Duration = Duration::from_secs(300);
/// News that one look may have.
const MOST_NEWS: usize = 10;
/// Verdicts, and victims of whom nothing can be said, that an answer lists: the greatest losses.
const MOST_TOLD: usize = 100;

/// Everything found so far, for whoever asks.
#[derive(Debug)]
pub(crate) struct Verdicts {
    kind: SubjectName,
    newest: ArcSwapOption<VerdictsNow>,
    lost: Mutex<Lost>,
    seen: Mutex<BTreeMap<Pair, Instant>>,
}

/// Who slowed whom in the last minute.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct VerdictsNow {
    /// How far back verdicts reach.
    window_seconds: u64,
    /// Who victims and aggressors are: `process`, `container`, `pod` or `workload`; what belongs to none, by the next lesser.
    subject: &'static str,
    /// When it was looked, Unix seconds; absent before the first look.
    looked_at: Option<f64>,
    /// The greatest loss first.
    verdicts: Vec<LiveVerdict>,
    /// Of whom nothing can be said, and why.
    cannot_tell: Vec<Unsaid>,
    /// How many of both are not listed, the least ones.
    left_out: usize,
    /// Unix seconds.
    timestamp: f64,
}

/// One verdict: the keys are those of `crosstalk analyze --json`.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct LiveVerdict {
    victim: String,
    /// Several that cannot be told apart are joined by " + ".
    aggressor: String,
    /// Each by itself.
    aggressors: Vec<String>,
    from_ns: u64,
    to_ns: u64,
    /// Share of the victim's time that it would not have needed.
    slowdown: f64,
    /// Lower end of the 95 % interval.
    low: f64,
    /// Upper end.
    high: f64,
    lost_seconds: f64,
    resource: &'static str,
    signal: &'static str,
    /// Probability that it is none of chance's; of CPU time, that the core was held at all while the victim waited.
    confidence: f64,
    evidence: LiveEvidence,
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct LiveEvidence {
    /// Bins of 40 ms that were compared.
    bins: usize,
    /// Mean exposure in cores; of CPU time, seconds waited.
    exposure: f64,
    /// Rise of the logarithm of cost for one core of exposure.
    effect_per_core: f64,
    /// The effect over its standard error.
    t: f64,
    /// The same of misses per instruction; absent without counters.
    misses_t: Option<f64>,
    /// The same of the probe's latency; absent where it does not tell.
    probe_t: Option<f64>,
}

/// Somebody of whom nothing can be said.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Unsaid {
    victim: String,
    /// The neighbours in question; empty when it is all of them.
    neighbours: Vec<String>,
    because: &'static str,
}

impl Verdicts {
    pub(crate) fn new(kind: SubjectName) -> Self {
        Self {
            kind,
            newest: ArcSwapOption::empty(),
            lost: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// What the newest look found.
    pub(crate) fn current(&self) -> VerdictsNow {
        let nothing_yet = || VerdictsNow {
            window_seconds: REACH.as_secs(),
            subject: self.kind.name(),
            looked_at: None,
            verdicts: Vec::new(),
            cannot_tell: Vec::new(),
            left_out: 0,
            timestamp: 0.0,
        };
        let newest = self.newest.load_full().map_or_else(nothing_yet, |known| (*known).clone());
        VerdictsNow { timestamp: unix_seconds(), ..newest }
    }

    /// The sums so far.
    pub(crate) fn lost<R>(&self, read: impl FnOnce(&Lost) -> R) -> R {
        read(&self.lost.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes what a look found; answers what is news, a sentence each.
    pub(super) fn publish(
        &self,
        findings: &Findings,
        name: impl Fn(Subject) -> String,
    ) -> Vec<String> {
        let verdicts: Vec<LiveVerdict> = findings
            .verdicts
            .iter()
            .map(|verdict| LiveVerdict::new(verdict, &name))
            .take(MOST_TOLD)
            .collect();
        let unsaid = |c: &crosstalk_interference::CannotTell| Unsaid {
            victim: name(c.victim),
            neighbours: c.neighbours.iter().map(|who| name(*who)).collect(),
            because: c.because.words(),
        };
        let cannot_tell = findings.cannot_tell.iter().take(MOST_TOLD).map(unsaid).collect();
        {
            let named = verdicts.iter().map(LiveVerdict::pair).zip(&findings.verdicts);
            let named: Vec<(Pair, &Verdict)> = named.collect();
            self.lost.lock().unwrap_or_else(PoisonError::into_inner).look(&named);
        }
        let news = self.news(&verdicts);
        self.newest.store(Some(Arc::new(VerdictsNow {
            window_seconds: REACH.as_secs(),
            subject: self.kind.name(),
            looked_at: Some(unix_seconds()),
            verdicts,
            cannot_tell,
            left_out: findings.verdicts.len().saturating_sub(MOST_TOLD)
                + findings.cannot_tell.len().saturating_sub(MOST_TOLD),
            timestamp: 0.0,
        })));
        news
    }

    fn news(&self, verdicts: &[LiveVerdict]) -> Vec<String> {
        let now = Instant::now();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, last| now.saturating_duration_since(*last) < NEWS_AGAIN);
        let mut news = Vec::new();
        for verdict in verdicts.iter().take(MOST_NEWS) {
            if seen.insert(verdict.pair(), now).is_none() {
                news.push(verdict.sentence());
            }
        }
        news
    }
}

impl LiveVerdict {
    fn new(verdict: &Verdict, name: impl Fn(Subject) -> String) -> Self {
        let Evidence { bins, exposure, effect_per_core, t, misses_t, probe_t } = verdict.evidence;
        let aggressors: Vec<String> = verdict.aggressors.iter().map(|who| name(*who)).collect();
        Self {
            victim: name(verdict.victim),
            aggressor: aggressors.join(" + "),
            aggressors,
            from_ns: verdict.from_ns,
            to_ns: verdict.to_ns,
            slowdown: verdict.slowdown,
            low: verdict.low,
            high: verdict.high,
            lost_seconds: verdict.lost_seconds,
            resource: verdict.resource.name(),
            signal: verdict.signal.name(),
            confidence: verdict.confidence,
            evidence: LiveEvidence { bins, exposure, effect_per_core, t, misses_t, probe_t },
        }
    }

    fn pair(&self) -> Pair {
        let (victim, aggressor) = (self.victim.clone(), self.aggressor.clone());
        Pair { victim, aggressor, resource: self.resource }
    }

    fn sentence(&self) -> String {
        let Self { victim, aggressor, slowdown, low, high, resource, .. } = self;
        let [share, low, high] = [slowdown, low, high].map(|share| share * 100.0);
        // A process may name itself with control characters; a terminal must not obey them.
        let text = format!(
            "verdict: {victim} lost {share:.0} % of its time ({low:.0} to {high:.0} %) to {aggressor} through {resource}"
        );
        text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_interference::{Resource, Signal};

    fn findings(lost_seconds: f64) -> Findings {
        let verdict = Verdict {
            victim: Subject(1),
            aggressors: vec![Subject(2), Subject(3)],
            from_ns: 0,
            to_ns: 60_000_000_000,
            slowdown: 0.31,
            low: 0.27,
            high: 0.35,
            lost_seconds,
            resource: Resource::MemoryBandwidth,
            signal: Signal::TimePerWakeup,
            confidence: 0.999,
            evidence: Evidence::default(),
        };
        Findings { verdicts: vec![verdict], cannot_tell: Vec::new() }
    }

    #[test]
    fn a_pair_is_news_once_and_its_name_cannot_steer_a_terminal() {
        let verdicts = Verdicts::new(SubjectName::Pod);
        assert_eq!(verdicts.current().looked_at, None, "nobody has looked yet");
        let name = |subject: Subject| format!("w\x1b[2J{}", subject.0);
        let news = verdicts.publish(&findings(6.0), name);
        assert_eq!(
            news,
            [
                "verdict: w?[2J1 lost 31 % of its time (27 to 35 %) to w?[2J2 + w?[2J3 through memory bandwidth"
            ]
        );
        assert!(verdicts.publish(&findings(6.0), name).is_empty());
        let known = verdicts.current().verdicts;
        assert_eq!(
            (known.len(), &known[0].aggressors[..]),
            (1, &[name(Subject(2)), name(Subject(3))][..])
        );
        let sum: f64 = verdicts.lost(|lost| lost.all().map(|(_, seconds)| seconds).sum());
        assert_eq!(sum, 6.0, "the second look saw the same time again");
    }
}
