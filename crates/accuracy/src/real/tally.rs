use super::{Outcome, PairOutcome, ProbeCounts};

/// True effects from here on must be found, where the truth itself is clearly above none.
pub const MUST_FIND: f64 = 0.08;
/// A neighbour whose true effect is certainly below this is innocent.
pub const LEAST_GUILT: f64 = 0.02;

/// Sums over trials.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Trials.
    pub trials: u32,
    /// Trials in which nobody innocent was named.
    pub clean: u32,
    /// Pairs with an effect that must be found, and of these the found ones.
    pub must: u32,
    /// Of these, the found ones.
    pub found: u32,
    /// Pairs named through cache or memory of which the truth is known.
    pub named: u32,
    /// Of these, the right ones.
    pub rightly: u32,
    /// Innocent pairs.
    pub innocent: u32,
    /// Pairs of which the truth by schedule cannot tell, and of these the ones that were named: neither right nor wrong.
    pub unclear: [u32; 2],
    /// Distance of each right verdict from the truth.
    pub errors: Vec<f64>,
    /// Right verdicts, on one neighbour alone.
    pub intervals: u32,
    /// Of these, the ones whose interval holds the truth,
    pub holding: u32,
    /// or overlaps the interval of the truth, which is measured too.
    pub overlapping: u32,
    /// CPI2: named, rightly named, found.
    pub cpi2: [u32; 3],
    /// Fences: the same.
    pub fences: [u32; 3],
    /// Neighbours on a victim's own core, and the ones named for the time they held it.
    pub same_core: [u32; 2],
    /// The probe's verdicts.
    pub probe: ProbeCounts,
}

/// What the truth by schedule, which is measured too, says of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Guilty,
    Innocent,
    Unclear,
}

impl Truth {
    fn of(pair: &PairOutcome) -> Self {
        match pair.truth {
            truth if truth.low > 0.0 => Self::Guilty,
            truth if truth.high < LEAST_GUILT => Self::Innocent,
            _ => Self::Unclear,
        }
    }
}

impl Tally {
    /// Adds up trials.
    #[must_use]
    pub fn of(outcomes: &[Outcome]) -> Self {
        let mut tally = Self::default();
        for outcome in outcomes {
            tally.add(outcome);
        }
        tally
    }

    fn add(&mut self, outcome: &Outcome) {
        self.trials += 1;
        let mut clean = outcome.strangers.is_empty();
        self.named += outcome.strangers.len() as u32;
        for pair in &outcome.pairs {
            let truth = Truth::of(pair);
            let guilty = truth == Truth::Guilty;
            let must = guilty && pair.truth.effect >= MUST_FIND && !pair.same_core;
            self.must += u32::from(must);
            self.innocent += u32::from(truth == Truth::Innocent);
            if pair.same_core {
                self.same_core[0] += 1;
                self.same_core[1] += u32::from(pair.waited.is_some());
            }
            if truth == Truth::Unclear {
                self.unclear[0] += 1;
                self.unclear[1] += u32::from(pair.said.is_some());
                continue;
            }
            for (sums, named) in [(&mut self.cpi2, pair.cpi2), (&mut self.fences, pair.fences)] {
                sums[0] += u32::from(named);
                sums[1] += u32::from(named && guilty);
                sums[2] += u32::from(named && must);
            }
            let Some(said) = &pair.said else { continue };
            self.found += u32::from(must);
            self.named += 1;
            self.rightly += u32::from(guilty);
            clean &= guilty;
            if guilty && said.group == 1 {
                let truth = pair.truth;
                // The truth's own interval, as a share of the victim's time.
                let scale = truth.lost / truth.effect.max(1e-6);
                self.errors.push((said.slowdown - truth.lost).abs());
                self.intervals += 1;
                self.holding += u32::from((said.low..=said.high).contains(&truth.lost));
                self.overlapping +=
                    u32::from(said.low <= truth.high * scale && truth.low * scale <= said.high);
            }
        }
        let strangers = |named: &[super::NamedPair]| {
            named.iter().filter(|pair| pair.neighbour == "stranger").count() as u32
        };
        self.cpi2[0] += strangers(&outcome.cpi2);
        self.fences[0] += strangers(&outcome.fences);
        self.clean += u32::from(clean);
        let (sum, more) = (&mut self.probe, outcome.probe);
        sum.contended_on += more.contended_on;
        sum.contended_off += more.contended_off;
        sum.quiet_on += more.quiet_on;
        sum.quiet_off += more.quiet_off;
        sum.unknown += more.unknown;
    }

    /// The middle of the errors.
    #[must_use]
    pub fn median_error(&self) -> Option<f64> {
        let mut errors = self.errors.clone();
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Effect, Said};
    use super::*;

    fn pair(effect: f64, low: f64, high: f64, said: bool) -> PairOutcome {
        let said = said.then(|| Said {
            aggressor: "stream (7)".to_owned(),
            group: 1,
            slowdown: effect / 2.0,
            low: 0.0,
            high: effect,
            resource: "cache".to_owned(),
            signal: "time per wake-up".to_owned(),
        });
        PairOutcome {
            victim: "chase 4 MiB".to_owned(),
            neighbour: "stream".to_owned(),
            same_core: false,
            truth: Effect { effect, low, high, lost: effect / 2.0 },
            said,
            waited: None,
            cpi2: true,
            fences: false,
        }
    }

    #[test]
    fn a_truth_that_cannot_tell_makes_no_verdict_right_or_wrong() {
        let pairs = vec![
            pair(0.2, 0.1, 0.3, true),
            pair(0.2, 0.1, 0.3, false),
            pair(0.3, -0.2, 0.7, true),
            pair(0.001, -0.01, 0.013, false),
        ];
        let tally = Tally::of(&[Outcome { pairs, ..Outcome::default() }]);
        assert_eq!((tally.must, tally.found, tally.named, tally.rightly), (2, 1, 1, 1));
        assert_eq!((tally.innocent, tally.unclear, tally.clean), (1, [1, 1], 1));
        assert_eq!(tally.cpi2, [3, 2, 2]);
        let blamed = vec![pair(0.001, -0.01, 0.013, true)];
        assert_eq!(Tally::of(&[Outcome { pairs: blamed, ..Outcome::default() }]).clean, 0);
    }
}
