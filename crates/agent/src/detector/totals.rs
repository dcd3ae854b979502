//! What was lost to whom since the agent started, as sums that only grow.

use super::REACH;
use crosstalk_interference::{Signal, Subject, Verdict};
use std::collections::BTreeMap;

/// Label sets that Prometheus is shown. Beyond, the one that has not grown for longest makes room.
const MOST: usize = 256;
/// Verdicts end within this time of each other: what was counted of others is of no use any more, or of before a clock
/// was set.
const KNOWN_NS: u64 = 2 * REACH.as_nanos() as u64;

/// Who lost to whom, through what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) victim: String,
    pub(crate) aggressor: String,
    pub(crate) resource: &'static str,
}

/// Losses that may be counted beside each other: a victim can wait for a core, run on it at a lower clock and find its
/// memory slow, all in one second and all because of one neighbour. Which of memory's resources it is, or with whom the
/// neighbour forms a group, may change from look to look; the seconds are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Waits,
    Clock,
    Work,
}

impl Kind {
    const fn of(signal: Signal) -> Self {
        match signal {
            Signal::RunQueueWait => Self::Waits,
            Signal::Frequency => Self::Clock,
            Signal::CyclesPerInstruction | Signal::Progress | Signal::TimePerWakeup => Self::Work,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    seconds: f64,
    grew_at_ns: u64,
}

/// Sums of lost time.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    sums: BTreeMap<Pair, Sum>,
    dropped: u64,
    /// Up to where looks have counted what a victim lost to somebody: the next one overlaps with the last. It is known by
    /// whom verdicts are about, not by labels, which change.
    until_ns: BTreeMap<(Subject, Subject, Kind), u64>,
}

impl Lost {
    /// Counts what is new of the verdicts of one look: of each, the part of its time that comes after what looks before
    /// counted of any of its aggressors. Verdicts of one look are about different losses, so none hides another.
    pub(crate) fn look(&mut self, verdicts: &[(Pair, &Verdict)]) {
        let Some(newest_ns) = verdicts.iter().map(|(_, verdict)| verdict.to_ns).max() else {
            return;
        };
        self.until_ns.retain(|_, until_ns| until_ns.abs_diff(newest_ns) <= KNOWN_NS);
        for (pair, verdict) in verdicts {
            let counted_ns = keys(verdict).filter_map(|key| self.until_ns.get(&key)).max().copied();
            self.add(pair, verdict, counted_ns.unwrap_or(0));
        }
        for (_, verdict) in verdicts {
            for key in keys(verdict) {
                let until_ns = self.until_ns.entry(key).or_default();
                *until_ns = verdict.to_ns.max(*until_ns);
            }
        }
    }

    fn add(&mut self, pair: &Pair, verdict: &Verdict, counted_ns: u64) {
        let Verdict { from_ns, to_ns, lost_seconds, .. } = *verdict;
        let span_ns = to_ns.saturating_sub(from_ns).max(1);
        let new_ns = to_ns.saturating_sub(counted_ns.max(from_ns));
        if new_ns == 0 || !lost_seconds.is_finite() || lost_seconds <= 0.0 {
            return;
        }
        if self.sums.len() >= MOST && !self.sums.contains_key(pair) {
            let oldest = self.sums.iter().min_by_key(|(_, sum)| sum.grew_at_ns);
            if let Some(oldest) = oldest.map(|(pair, _)| pair.clone()) {
                self.sums.remove(&oldest);
                self.dropped += 1;
            }
        }
        let sum = self.sums.entry(pair.clone()).or_default();
        sum.seconds += lost_seconds * new_ns as f64 / span_ns as f64;
        sum.grew_at_ns = to_ns;
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Pair, f64)> {
        self.sums.iter().map(|(pair, sum)| (pair, sum.seconds))
    }

    /// Label sets that made room for others.
    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// What is counted by a verdict.
fn keys(verdict: &Verdict) -> impl Iterator<Item = (Subject, Subject, Kind)> {
    let (victim, kind) = (verdict.victim, Kind::of(verdict.signal));
    verdict.aggressors.iter().map(move |who| (victim, *who, kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_interference::{Evidence, Resource};

    const SECOND: u64 = 1_000_000_000;
    const A: Subject = Subject(1);
    const B: Subject = Subject(2);

    /// At so many seconds: a tenth of the last minute lost.
    fn verdict(at: u64, aggressors: &[Subject], resource: Resource, signal: Signal) -> Verdict {
        Verdict {
            victim: Subject(0),
            aggressors: aggressors.to_vec(),
            from_ns: (at - 60) * SECOND,
            to_ns: at * SECOND,
            slowdown: 0.1,
            low: 0.05,
            high: 0.15,
            lost_seconds: 6.0,
            resource,
            signal,
            confidence: 0.99,
            evidence: Evidence::default(),
        }
    }

    fn look(lost: &mut Lost, verdicts: &[Verdict]) {
        let pair = |verdict: &Verdict| Pair {
            victim: format!("{:?}", verdict.victim),
            aggressor: format!("{:?}", verdict.aggressors),
            resource: verdict.resource.name(),
        };
        let told: Vec<(Pair, &Verdict)> = verdicts.iter().map(|one| (pair(one), one)).collect();
        lost.look(&told);
    }

    fn sum(lost: &Lost) -> f64 {
        lost.all().map(|(_, seconds)| seconds).sum()
    }

    #[test]
    fn looks_that_overlap_count_no_second_twice_whatever_they_call_the_resource_and_the_group() {
        let (work, mut lost) = (Signal::TimePerWakeup, Lost::default());
        let mut at = 60;
        let mut next = |aggressors: &[Subject], resource: Resource| {
            look(&mut lost, &[verdict(at, aggressors, resource, work)]);
            at += 5;
            sum(&lost)
        };
        let said = [
            next(&[A], Resource::CacheOrMemory),
            next(&[A], Resource::Cache),
            next(&[A, B], Resource::CacheOrMemory),
            next(&[B], Resource::MemoryBandwidth),
            next(&[A], Resource::CacheOrMemory),
        ];
        // The first look has a whole minute, each other what came since the last that named one of its aggressors.
        let expected = [6.0, 6.5, 7.0, 7.5, 8.5];
        for (said, expected) in said.into_iter().zip(expected) {
            assert!((said - expected).abs() < 1e-9, "{said} instead of {expected}");
        }
    }

    #[test]
    fn verdicts_of_one_look_and_losses_of_different_kinds_hide_none_of_each_other() {
        let mut lost = Lost::default();
        for at in [60, 65] {
            let all = [
                verdict(at, &[A], Resource::Cache, Signal::CyclesPerInstruction),
                verdict(at, &[A], Resource::SiblingThread, Signal::CyclesPerInstruction),
                verdict(at, &[A], Resource::Frequency, Signal::Frequency),
                verdict(at, &[A], Resource::CpuTime, Signal::RunQueueWait),
            ];
            look(&mut lost, &all);
        }
        assert!((sum(&lost) - 4.0 * 6.5).abs() < 1e-9, "{lost:?}");
    }

    #[test]
    fn label_sets_are_bounded_and_the_one_at_rest_for_longest_goes() {
        let mut lost = Lost::default();
        for number in 0..MOST as u32 + 10 {
            let at = 60 + u64::from(number);
            let one = verdict(at, &[Subject(number + 1)], Resource::Cache, Signal::Progress);
            look(&mut lost, &[one]);
        }
        assert_eq!((lost.all().count(), lost.dropped()), (MOST, 10));
        assert!(lost.all().all(|(pair, _)| pair.aggressor != format!("{:?}", [Subject(3)])));
        assert!(lost.until_ns.len() <= 130, "what nobody asks for any more is forgotten");
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_stop_the_sums() {
        let mut lost = Lost::default();
        for at in [36_000, 60] {
            look(&mut lost, &[verdict(at, &[A], Resource::Cache, Signal::Progress)]);
        }
        assert!((sum(&lost) - 12.0).abs() < 1e-9, "{lost:?}");
    }
}
