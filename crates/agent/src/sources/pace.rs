//! When a source samples next.

use crate::config::Sampling;
use crosstalk_window::{Rate, RateConfig};
use std::time::{Duration, Instant};

/// A steady period, or one that follows how much values move.
pub(super) enum Pace {
    Steady { period: Duration, next: Instant },
    Adaptive(Box<Rate>),
}

impl Pace {
    /// As configured, but never faster than `fastest`.
    pub(super) fn new(sampling: &Sampling, fastest: Duration) -> Self {
        if sampling.adaptive {
            return Self::Adaptive(Box::new(Rate::new(RateConfig {
                fastest: sampling.fastest.get().max(fastest),
                slowest: sampling.slowest.get().max(fastest),
                start: sampling.period.get(),
                budget: sampling.budget,
                ..RateConfig::default()
            })));
        }
        Self::Steady { period: sampling.period.get().max(fastest), next: Instant::now() }
    }

    /// How long to wait before the next sample, after one with these values at this cost.
    pub(super) fn pause(&mut self, values: &[Option<f64>], cost: Duration) -> Duration {
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
    pub(super) fn period(&mut self, values: &[Option<f64>], cost: Duration) -> Duration {
        match self {
            Self::Steady { period, .. } => *period,
            Self::Adaptive(rate) => rate.next(values, cost),
        }
    }
}
