//! How often a burst may run.

use std::time::Duration;

/// Paces bursts so that their measured cost stays within a share of one core.
///
/// It aims at four fifths of the share, because a thread cannot see all of what its waking costs.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    share: f64,
    usual_cost_s: Option<f64>,
}

/// More often than this gains nothing: twenty bursts a second are enough.
const SHORTEST: Duration = Duration::from_millis(25);
/// A probe this slow still says something once a minute.
const LONGEST: Duration = Duration::from_secs(5);
const AIM: f64 = 0.8;
/// Weight of the newest cost. A rise counts at once, so that a burst that suddenly costs tenfold
/// is paid for before the next.
const NEWEST: f64 = 0.1;

impl Budget {
    pub(crate) fn new(share: f64) -> Self {
        Self { share: share.max(1e-6), usual_cost_s: None }
    }

    /// The pause after a burst that cost this much, waking and bookkeeping included.
    pub(crate) fn pause(&mut self, cost: Duration) -> Duration {
        let cost_s = cost.as_secs_f64();
        let usual_s = match self.usual_cost_s {
            Some(before) => before + NEWEST * (cost_s - before),
            None => cost_s,
        };
        self.usual_cost_s = Some(usual_s);
        let seconds = usual_s.max(cost_s) / (self.share * AIM);
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).clamp(SHORTEST, LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bursts_never_cost_more_than_their_share(
            costs in prop::collection::vec(1_u64..20_000, 1..300)
        ) {
            let mut budget = Budget::new(0.005);
            let (mut spent, mut time) = (0.0, 0.0);
            for micros in costs {
                let cost = Duration::from_micros(micros);
                spent += cost.as_secs_f64();
                time += budget.pause(cost).as_secs_f64();
            }
            prop_assert!(spent <= 0.005 * time, "{spent} s in {time} s");
        }
    }

    #[test]
    fn a_cheap_burst_runs_often_but_not_more_often_than_is_of_use() {
        assert_eq!(Budget::new(0.005).pause(Duration::from_micros(10)), SHORTEST);
        assert_eq!(Budget::new(0.005).pause(Duration::from_micros(140)), Duration::from_millis(35));
    }
}
