use super::{Outcome, PairOutcome, ProbeCounts};

/// True effects from here on must be found.
pub const MUST_FIND: f64 = 0.08;
/// A neighbour whose true effect is below this, and not clearly above none, is innocent.
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
    /// Pairs named through cache or memory.
    pub named: u32,
    /// Of these, the right ones.
    pub rightly: u32,
    /// Innocent pairs.
    pub innocent: u32,
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

/// Whether the truth says that the neighbour did it.
fn is_guilty(pair: &PairOutcome) -> bool {
    pair.truth.effect >= LEAST_GUILT || pair.truth.low > 0.0
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
            let (must, guilty) =
                (pair.truth.effect >= MUST_FIND && !pair.same_core, is_guilty(pair));
            self.must += u32::from(must);
            self.innocent += u32::from(!guilty);
            if pair.same_core {
                self.same_core[0] += 1;
                self.same_core[1] += u32::from(pair.waited.is_some());
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
