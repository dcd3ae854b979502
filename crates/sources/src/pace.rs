//! When a source samples next.

use crate::Sampling;
use crate::rate::{Rate, RateConfig};
use std::time::{Duration, Instant};

/// A steady period, or one that follows how much values move.
pub enum Pace {
    /// Always the same.
    Steady {
        /// The time between samples.
        period: Duration,
        /// When the next is due.
        next: Instant,
    },
    /// As often as values move.
    Adaptive(Box<Rate>),
}

impl Pace {
    /// As configured, but never faster than `fastest`.
    pub fn new(sampling: &Sampling, fastest: Duration) -> Self {
        if sampling.adaptive {
            return Self::Adaptive(Box::new(Rate::new(RateConfig {
                fastest: sampling.fastest.max(fastest),
                slowest: sampling.slowest.max(fastest),
                start: sampling.period,
                budget: sampling.budget,
                ..RateConfig::default()
            })));
        }
        Self::Steady { period: sampling.period.max(fastest), next: Instant::now() }
    }

    /// How long to wait before the next sample, after one with these values at this cost.
    pub fn pause(&mut self, values: &[Option<f64>], cost: Duration) -> Duration {
        match self {
            Self::Adaptive(rate) => rate.next(values, cost),
            Self::Steady { period, next } => {
                let now = Instant::now();
                *next += *period;
                // After a long stall (a suspended machine) the rhythm begins anew: no catching up.
                if *next + *period < now {
                    *next = now;
                }
                next.saturating_duration_since(now)
            }
        }
    }

    /// The period it keeps now, for sources that cut time at slot edges.
    pub fn period(&mut self, values: &[Option<f64>], cost: Duration) -> Duration {
        match self {
            Self::Steady { period, .. } => *period,
            Self::Adaptive(rate) => rate.next(values, cost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_pace_does_not_drift_and_does_not_catch_up_after_a_stall() {
        let period = Duration::from_millis(100);
        let mut pace = Pace::new(&Sampling::default(), Duration::ZERO);
        assert_eq!(pace.period(&[], Duration::ZERO), Duration::from_secs(1));
        let stalled = Instant::now().checked_sub(Duration::from_secs(5)).expect("up for 5 s");
        pace = Pace::Steady { period, next: stalled };
        assert_eq!(pace.pause(&[], Duration::ZERO), Duration::ZERO);
        // The second waits again: the 49 samples missed are a gap, not a burst.
        assert!(pace.pause(&[], Duration::ZERO) > Duration::from_millis(50));
    }

    #[test]
    fn an_adaptive_pace_quickens_while_values_move_but_not_beyond_the_source() {
        let sampling = Sampling { adaptive: true, ..Sampling::default() };
        let floor = Duration::from_millis(300);
        let mut pace = Pace::new(&sampling, floor);
        let moving = [1.0, 9.0].into_iter().cycle().take(20);
        let last = moving.map(|value| pace.pause(&[Some(value)], Duration::ZERO)).last();
        assert_eq!(last, Some(floor));
    }
}
