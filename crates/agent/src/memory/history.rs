//! What a subject used before, for an hour at most, and what that comes to over a stretch of time: pure.

use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;

/// How far back histories reach.
pub(crate) const KEPT: Duration = Duration::from_secs(3_600);
/// Samples that come faster are not kept one by one: a history has 240 of them at most.
const STEP_NS: u64 = KEPT.as_nanos() as u64 / 240;

/// Mean and percentiles of what was measured. A percentile is a value that occurred.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub(crate) struct Aggregate {
    pub(crate) avg: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
}

impl Aggregate {
    /// What they are called, in the order of [`Aggregate::values`].
    pub(crate) const NAMES: [&str; 5] = ["avg", "p50", "p90", "p95", "p99"];

    /// All of them.
    pub(crate) fn values(&self) -> [f64; 5] {
        [self.avg, self.p50, self.p90, self.p95, self.p99]
    }

    /// Of values in any order; `None` of none.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let at = |share: f64| {
            let rank = (share * count as f64).ceil() as usize;
            values.get(rank.clamp(1, count.max(1)) - 1).copied()
        };
        let avg = values.iter().sum::<f64>() / count as f64;
        Some(Self { avg, p50: at(0.5)?, p90: at(0.9)?, p95: at(0.95)?, p99: at(0.99)? })
    }
}

/// Samples of several values, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct History<const N: usize = 4> {
    samples: VecDeque<(u64, [Option<f64>; N])>,
}

impl<const N: usize> History<N> {
    /// Adds what was read at `end_ns`, and forgets what is too old. Of samples in quick succession the newest is kept.
    pub(crate) fn push(&mut self, end_ns: u64, values: [Option<f64>; N]) {
        let before_last = self.samples.len().checked_sub(2).and_then(|at| self.samples.get(at));
        // Half a step of leeway: what comes every step comes a little early at times.
        if before_last.is_some_and(|(at, _)| end_ns.saturating_sub(*at) < STEP_NS + STEP_NS / 2) {
            self.samples.pop_back();
        }
        self.samples.push_back((end_ns, values));
        let kept_ns = KEPT.as_nanos() as u64;
        while self.samples.front().is_some_and(|(at, _)| end_ns.saturating_sub(*at) > kept_ns) {
            self.samples.pop_front();
        }
    }

    /// One of the values as it was last, if it was known then.
    pub(crate) fn last(&self, value: usize) -> Option<f64> {
        *self.samples.back()?.1.get(value)?
    }

    /// Whether anything of it is still kept.
    pub(crate) fn is_known_at(&self, now_ns: u64) -> bool {
        let kept_ns = KEPT.as_nanos() as u64;
        self.samples.back().is_some_and(|(at, _)| now_ns.saturating_sub(*at) <= kept_ns)
    }

    /// A sample tells of the time since the one before it, but of no more than this: what lies further back is a gap.
    fn longest_ns(&self) -> u64 {
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        let mut apart: Vec<u64> = pairs.map(|(a, b)| b.0.saturating_sub(a.0)).collect();
        apart.sort_unstable();
        2 * apart.get(apart.len() / 2).copied().unwrap_or(STEP_NS)
    }

    /// One of the values over the `length` up to `now_ns`, how many samples that is, and the time they tell of as a
    /// share of `length`.
    pub(crate) fn over(&self, value: usize, now_ns: u64, length: Duration) -> Option<Over> {
        let from_ns = now_ns.saturating_sub(length.as_nanos() as u64);
        let within = self.samples.iter().filter(|(at, _)| *at > from_ns && *at <= now_ns);
        let known: Vec<(u64, f64)> =
            within.filter_map(|(at, values)| Some((*at, (*values.get(value)?)?))).collect();
        let (longest_ns, samples) = (self.longest_ns(), known.len());
        let mut covered_ns = 0;
        for (at, _) in &known {
            let before = self.samples.iter().rev().find(|(then, _)| then < at);
            let since = before.map_or(*at, |(then, _)| *then).max(from_ns);
            covered_ns += (at - since).min(longest_ns);
        }
        // The next is not due yet.
        covered_ns += (now_ns - known.last()?.0).min(longest_ns);
        let aggregate = Aggregate::of(known.into_iter().map(|(_, value)| value).collect())?;
        let coverage = covered_ns as f64 / length.as_nanos() as f64;
        Some(Over { aggregate, samples, coverage: coverage.min(1.0) })
    }
}

/// What a value came to over a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Over {
    pub(crate) aggregate: Aggregate,
    pub(crate) samples: usize,
    /// How much of it is known, 0 to 1.
    pub(crate) coverage: f64,
}

/// See [`History::over`]; of a subject that may have none.
pub(crate) fn over<const N: usize>(
    history: Option<&History<N>>,
    value: usize,
    now_ns: u64,
    length: Duration,
) -> Option<Over> {
    history.and_then(|history| history.over(value, now_ns, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let all = Aggregate::of((1..=100).rev().map(f64::from).collect()).unwrap();
        let expected = Aggregate { avg: 50.5, p50: 50.0, p90: 90.0, p95: 95.0, p99: 99.0 };
        assert_eq!(all, expected);
        let one = Aggregate::of(vec![7.0]).unwrap();
        assert_eq!((one.avg, one.p50, one.p99), (7.0, 7.0, 7.0));
        assert_eq!(Aggregate::of(Vec::new()), None);
    }

    #[test]
    fn only_what_lies_within_the_time_asked_for_counts_and_what_is_absent_does_not() {
        let mut history = History::<2>::default();
        for minute in 1..=10u64 {
            let value = (minute != 9).then_some(minute as f64);
            history.push(minute * 60 * SECOND, [value, None]);
        }
        let now_ns = 10 * 60 * SECOND;
        let last = history.over(0, now_ns, Duration::from_secs(300)).unwrap();
        assert_eq!((last.samples, last.aggregate.avg), (4, (6 + 7 + 8 + 10) as f64 / 4.0));
        assert_eq!(last.coverage, 0.8, "one of five minutes is absent");
        let long = history.over(0, now_ns, Duration::from_secs(1_080)).unwrap();
        assert_eq!((long.samples, long.coverage), (9, 480.0 / 1_080.0));
        assert_eq!(history.over(1, now_ns, Duration::from_secs(300)), None);
    }

    #[test]
    fn a_gap_in_which_nothing_was_measured_is_not_known() {
        let mut history = History::<1>::default();
        for minute in (1..=10u64).chain(51..=60) {
            history.push(minute * 60 * SECOND, [Some(1.0)]);
        }
        let hour = history.over(0, 3_600 * SECOND, Duration::from_secs(3_600)).unwrap();
        assert_eq!(hour.samples, 20);
        // Nine minutes before the gap, nine behind it, and no more than two of its own.
        assert_eq!((hour.coverage * 60.0).round(), 20.0);
    }

    #[test]
    fn a_history_is_bounded_however_fast_samples_come_and_has_the_newest() {
        let mut history = History::<1>::default();
        for second in 0..10_000u64 {
            history.push(second * SECOND, [Some(second as f64)]);
        }
        assert!((100..=242).contains(&history.samples.len()), "{}", history.samples.len());
        assert_eq!(history.samples.back().unwrap().1, [Some(9_999.0)]);
        assert!(history.is_known_at(9_999 * SECOND) && !history.is_known_at(20_000 * SECOND));
    }
}
