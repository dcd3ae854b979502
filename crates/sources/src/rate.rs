//! How often to sample next.

use std::time::Duration;

/// Bounds and temper of an adaptive sampling rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateConfig {
    /// Sample at least this far apart.
    pub fastest: Duration,
    /// Sample at most this far apart.
    pub slowest: Duration,
    /// Where to begin and, as long as nothing moves much or rests long, to stay.
    pub start: Duration,
    /// A value moves if it differs from its recent level by more than this share of that level.
    pub moves: f64,
    /// After this many samples without movement the pace slackens.
    pub calm_samples: u32,
    /// Share of one core that sampling may cost; the pace never exceeds what fits.
    pub budget: f64,
}

impl Default for RateConfig {
    /// 1 Hz, between 10 Hz and once in 5 s, at most 1 % of a core.
    fn default() -> Self {
        Self {
            fastest: Duration::from_millis(100),
            slowest: Duration::from_secs(5),
            start: Duration::from_secs(1),
            moves: 0.1,
            calm_samples: 10,
            budget: 0.01,
        }
    }
}

/// Chooses the time to the next sample: half of it while values move, a quarter more when they
/// rest, never faster than the budget allows, always within bounds. Pure: it reads no clock.
///
/// ```
/// use crosstalk_sources::{Rate, RateConfig};
/// use std::time::Duration;
///
/// let mut rate = Rate::new(RateConfig::default());
/// let cost = Duration::from_micros(200);
/// assert_eq!(rate.next(&[Some(0.50)], cost), Duration::from_secs(1));
/// assert_eq!(rate.next(&[Some(0.95)], cost), Duration::from_millis(500));
/// ```
#[derive(Debug, Clone)]
pub struct Rate {
    config: RateConfig,
    /// What values and calm ask for, before the budget has its say.
    wanted: Duration,
    calm: u32,
    cost_s: Option<f64>,
    levels: Vec<Option<f64>>,
}

/// Weight of the newest sample in the recent level and cost.
const NEWEST: f64 = 0.25;

impl Rate {
    /// Begins at the configured start. Bounds in the wrong order are swapped.
    #[must_use]
    pub fn new(mut config: RateConfig) -> Self {
        if config.fastest > config.slowest {
            std::mem::swap(&mut config.fastest, &mut config.slowest);
        }
        let wanted = config.start.clamp(config.fastest, config.slowest);
        Self { config, wanted, calm: 0, cost_s: None, levels: Vec::new() }
    }

    /// Takes a sample and what it cost to take; returns the time until the next.
    pub fn next(&mut self, values: &[Option<f64>], cost: Duration) -> Duration {
        if self.update_levels(values) {
            self.calm = 0;
            self.wanted = self.wanted.div_f64(2.0);
        } else {
            self.calm = self.calm.saturating_add(1);
            if self.calm > self.config.calm_samples {
                self.wanted = self.wanted.mul_f64(1.25);
            }
        }
        self.wanted = self.wanted.clamp(self.config.fastest, self.config.slowest);
        self.wanted.max(self.affordable(cost)).min(self.config.slowest)
    }

    /// Whether any value left its recent level; then follows it there.
    fn update_levels(&mut self, values: &[Option<f64>]) -> bool {
        self.levels.resize(values.len(), None);
        let mut moved = false;
        for (level, value) in self.levels.iter_mut().zip(values) {
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            let before = level.unwrap_or(value);
            moved |= (value - before).abs() > self.config.moves * before.abs().max(value.abs());
            *level = Some(before + NEWEST * (value - before));
        }
        moved
    }

    /// The shortest period whose cost stays within budget.
    fn affordable(&mut self, cost: Duration) -> Duration {
        let cost = cost.as_secs_f64();
        let usual = self.cost_s.map_or(cost, |before| before + NEWEST * (cost - before));
        self.cost_s = Some(usual);
        let seconds = usual / self.config.budget.max(f64::MIN_POSITIVE);
        Duration::try_from_secs_f64(seconds).unwrap_or(self.config.slowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHEAP: Duration = Duration::from_micros(10);

    #[test]
    fn flat_values_slow_the_pace_to_its_bound() {
        let mut rate = Rate::new(RateConfig::default());
        let last = (0..100).map(|_| rate.next(&[Some(1.0), None], CHEAP)).last();
        assert_eq!(last, Some(RateConfig::default().slowest));
    }

    #[test]
    fn moving_values_quicken_the_pace_to_its_bound() {
        let mut rate = Rate::new(RateConfig::default());
        let values = [1.0, 5.0].into_iter().cycle();
        let last = values.take(20).map(|v| rate.next(&[Some(v)], CHEAP)).last();
        assert_eq!(last, Some(RateConfig::default().fastest));
    }

    #[test]
    fn a_cost_over_budget_holds_the_pace_back_however_much_values_move() {
        let mut rate = Rate::new(RateConfig::default());
        let values = [1.0, 5.0].into_iter().cycle();
        let costly = Duration::from_millis(8);
        let last = values.take(20).map(|v| rate.next(&[Some(v)], costly)).last();
        assert_eq!(last, Some(Duration::from_millis(800)));
    }

    #[test]
    fn a_metric_that_appears_is_not_movement() {
        let mut rate = Rate::new(RateConfig::default());
        rate.next(&[None], CHEAP);
        assert_eq!(rate.next(&[Some(9.0)], CHEAP), RateConfig::default().start);
    }

    proptest! {
        #[test]
        fn the_pace_stays_within_bounds_whatever_comes(
            samples in prop::collection::vec((any::<Option<f64>>(), 0_u64..u64::MAX), 1..200)
        ) {
            let config = RateConfig::default();
            let mut rate = Rate::new(config);
            for (value, cost) in samples {
                let next = rate.next(&[value], Duration::from_nanos(cost));
                prop_assert!(next >= config.fastest && next <= config.slowest);
            }
        }
    }
}
