//! What the stretches that are kept of a long recording say of all of it.

use crate::Subject;
use crate::tail::student_975;
use std::collections::BTreeMap;

/// Time on cores of who ran in a stretch.
pub(crate) type Ran = BTreeMap<Subject, f64>;

/// Pairs whose time in common is summed. Beyond, those of whom nobody is in a stretch that is kept are forgotten.
const MOST_PAIRS: usize = 1 << 17;

/// Sums over all stretches, kept or not, in memory that does not grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Census {
    pub(crate) stretches: u64,
    /// Of two subjects, the lesser first: the sum over stretches of their times multiplied.
    met: BTreeMap<(Subject, Subject), f64>,
}

impl Census {
    pub(crate) fn add(&mut self, ran: &Ran, is_kept: impl Fn(Subject) -> bool) {
        self.stretches += 1;
        for (at, (&one, mine)) in ran.iter().enumerate() {
            for (&other, theirs) in ran.iter().skip(at + 1) {
                *self.met.entry((one, other)).or_default() += mine * theirs;
            }
        }
        if self.met.len() > MOST_PAIRS {
            self.met.retain(|pair, _| is_kept(pair.0) && is_kept(pair.1));
        }
    }

    fn of(&self, one: Subject, other: Subject) -> f64 {
        self.met.get(&(one.min(other), one.max(other))).copied().unwrap_or(0.0)
    }
}

/// A stretch that is kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    /// How many stretches it stands for.
    pub(crate) weight: f64,
    pub(crate) ran: Ran,
}

/// How the stretches that are kept stand for all of them.
///
/// Who ran for how long is known of every stretch; what it cost, of those that are kept. A loss to a neighbour is taken to
/// go with the time that both ran, victim and neighbour (a ratio estimate), so that a neighbour that was there for half a
/// minute of an hour is not taken to have been there all the time. What stretches were kept hangs on who ran, never on
/// what it cost, so that costs are not distorted by the choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub(crate) stretch_ns: u64,
    pub(crate) kept: BTreeMap<u64, Kept>,
    pub(crate) all: Census,
}

/// What a loss that was measured in the stretches that are kept comes to in all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Whole {
    /// So many times what was measured.
    pub(crate) times: f64,
    /// The ends of the 95 % interval of the whole loss, as shares of it, as far as the choice of stretches is concerned.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Whole {
    /// Everything was measured.
    pub(crate) const MEASURED: Self = Self { times: 1.0, low: 1.0, high: 1.0 };

    /// The ends of an interval that the choice of stretches widens.
    pub(crate) fn widen(&self, value: f64, low: f64, high: f64) -> (f64, f64) {
        let below = (value - low).hypot(value * (1.0 - self.low));
        let above = (high - value).hypot(value * (self.high - 1.0));
        ((value - below).max(0.0), (value + above).min(1.0))
    }
}

impl Sample {
    fn stretch(&self, start_ns: u64) -> u64 {
        start_ns - start_ns % self.stretch_ns.max(1)
    }

    /// How many bins the one at `start_ns` stands for.
    pub(crate) fn weight(&self, start_ns: u64) -> f64 {
        self.kept.get(&self.stretch(start_ns)).map_or(1.0, |kept| kept.weight)
    }

    /// What the loss of a victim to others comes to, of which so much was measured in bins with these starts.
    ///
    /// With `y` lost in a stretch and `c` the time in common, `y = R c` and an error whose variance goes with `c`: the
    /// whole is `R` times the sum of all `c`, and what was not measured of it is as uncertain as stretches differ (Royall
    /// 1970). One stretch does not say how they differ: then only what was measured is sure.
    pub(crate) fn whole(
        &self,
        victim: Subject,
        others: &[Subject],
        lost: impl Iterator<Item = (u64, f64)>,
    ) -> Whole {
        let mut measured: BTreeMap<u64, f64> = BTreeMap::new();
        for (start_ns, lost) in lost {
            *measured.entry(self.stretch(start_ns)).or_default() += lost;
        }
        let common = |kept: &Kept| {
            let of = |who: &Subject| kept.ran.get(who).copied().unwrap_or(0.0);
            of(&victim) * others.iter().map(of).sum::<f64>()
        };
        let mut known: Vec<(f64, f64)> = Vec::new();
        for (start_ns, kept) in &self.kept {
            known.push((measured.get(start_ns).copied().unwrap_or(0.0), common(kept)));
        }
        let mut all: f64 = others.iter().map(|other| self.all.of(victim, *other)).sum();
        // Somebody without a seat is timed nowhere: then every stretch counts alike.
        if known.iter().any(|(lost, common)| *lost > 0.0 && *common <= 0.0) {
            known.iter_mut().for_each(|one| one.1 = 1.0);
            all = self.all.stretches as f64;
        }
        known.retain(|one| one.1 > 0.0);
        let lost: f64 = known.iter().map(|one| one.0).sum();
        let seen: f64 = known.iter().map(|one| one.1).sum();
        let all = all.max(seen);
        if lost <= 0.0 || seen <= 0.0 || all - seen <= 1e-9 * all {
            return Whole::MEASURED;
        }
        let (times, share) = (all / seen, seen / all);
        let more = known.len().saturating_sub(1) as f64;
        let reach = if more > 0.0 {
            let off = |&(one, common): &(f64, f64)| (one - lost / seen * common).powi(2) / common;
            let variance = known.iter().map(off).sum::<f64>() / more;
            student_975(more) * (variance * (all - seen) * times).sqrt() / (lost * times)
        } else {
            1.0 - share
        };
        Whole { times, low: (1.0 - reach).max(share), high: 1.0 + reach }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const VICTIM: Subject = Subject(0);
    const CULPRIT: Subject = Subject(1);

    /// A recording of so many stretches of a second, of which these are kept; the culprit runs in some.
    fn sample(stretches: u64, kept: &[u64], runs: impl Fn(u64) -> bool) -> Sample {
        let ran = |at: u64| -> Ran {
            let culprit = runs(at).then_some((CULPRIT, 0.5e9));
            [(VICTIM, 1e9)].into_iter().chain(culprit).collect()
        };
        let mut all = Census::default();
        (0..stretches).for_each(|at| all.add(&ran(at), |_| true));
        let keep = |&at: &u64| (at * SECOND, Kept { weight: 1.0, ran: ran(at) });
        Sample { stretch_ns: SECOND, kept: kept.iter().map(keep).collect(), all }
    }

    #[test]
    fn a_loss_is_scaled_by_the_time_in_common_and_not_by_the_length_of_the_recording() {
        let sample = sample(360, &[0, 7, 100, 101, 300], |at| (100..103).contains(&at));
        let lost = [(100 * SECOND, 0.1), (101 * SECOND + 5, 0.1)];
        let whole = sample.whole(VICTIM, &[CULPRIT], lost.into_iter());
        assert!((whole.times - 1.5).abs() < 1e-9, "{whole:?}");
        assert!(whole.low > 0.99 && whole.high < 1.01, "both said the same: {whole:?}");
        let once = sample.whole(VICTIM, &[CULPRIT], [(100 * SECOND, 0.1)].into_iter());
        assert!(once.low < 0.7 && once.high > 1.3, "they differ: {once:?}");
    }

    #[test]
    fn of_one_stretch_alone_only_what_was_measured_is_sure() {
        let sample = sample(40, &[0, 10], |at| (10..14).contains(&at));
        let whole = sample.whole(VICTIM, &[CULPRIT], [(10 * SECOND, 0.1)].into_iter());
        assert!((whole.times - 4.0).abs() < 1e-9 && (whole.low - 0.25).abs() < 1e-9, "{whole:?}");
    }

    #[test]
    fn who_is_timed_nowhere_is_taken_to_be_everywhere_alike() {
        let sample = sample(40, &[0, 10, 20, 30], |_| false);
        let whole = sample.whole(VICTIM, &[CULPRIT], [(0, 0.1), (10 * SECOND, 0.3)].into_iter());
        assert!((whole.times - 10.0).abs() < 1e-9 && whole.high > 2.0, "{whole:?}");
    }
}
