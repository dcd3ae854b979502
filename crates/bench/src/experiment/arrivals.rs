//! A container that comes again and again, at times drawn from a seed.

use super::reading::{Seconds, Table};
use super::{Container, Experiment};
use std::time::Duration;

pub(super) const ARRIVALS: &[&str] = &["count", "mean", "length", "seed"];

/// More than a machine could run one after the other in a day.
const MOST: i64 = 1_000;
/// Two of them never start at once: nobody could say who disturbed whom.
const NEAREST: Duration = Duration::from_millis(10);

/// When a container comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trace {
    pub(super) line: usize,
    count: u32,
    /// Time between two, on average.
    mean: Duration,
    /// How long each stays; `None` until it ends by itself or with all others.
    length: Option<Duration>,
    seed: u64,
}

impl Trace {
    pub(super) fn read(table: &Table<'_>) -> Option<Self> {
        let inner = table.table("arrivals")?;
        inner.only(ARRIVALS);
        let seconds = |key: &str| inner.seconds(key).and_then(Seconds::after);
        let above = |time: &Duration| *time > Duration::ZERO;
        let mean = seconds("mean").filter(above).unwrap_or_else(|| {
            inner.wrong("mean", "is needed: seconds between two arrivals on average");
            Duration::from_secs(1)
        });
        Some(Self {
            line: table.line_of("arrivals"),
            count: inner.whole("count", 1..=MOST).unwrap_or(MOST) as u32,
            mean,
            length: seconds("length").filter(above),
            seed: inner.whole("seed", 0..=i64::MAX).unwrap_or(1).unsigned_abs(),
        })
    }

    /// Arrivals as of a Poisson process that begins at `start`; those at or after `end` do not happen.
    fn times(&self, start: Duration, end: Option<Duration>) -> Vec<Duration> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut at = start;
        let next = |_| {
            // 1 - u is never 0, whose logarithm is no time.
            let gap = self.mean.mul_f64(-(1.0 - random.f64()).ln());
            at += gap.max(NEAREST);
            at
        };
        let all = (0..self.count).map(next);
        all.take_while(|at| end.is_none_or(|end| *at < end)).collect()
    }
}

/// Puts a container for each arrival where the file has one that comes several times.
pub(super) fn expand(experiment: &mut Experiment, traces: Vec<Option<Trace>>) {
    let end = experiment.end.after();
    let mut next = experiment.containers.iter().map(|c| c.index + 1).max().unwrap_or(0);
    let read = std::mem::take(&mut experiment.containers);
    for (container, trace) in read.into_iter().zip(traces) {
        let Some(trace) = trace else {
            experiment.containers.push(container);
            continue;
        };
        let last = [container.stop, end].into_iter().flatten().min();
        for (number, start) in (1..).zip(trace.times(container.start, last)) {
            let stop = trace.length.map(|length| start + length);
            let index = if number == 1 { container.index } else { next };
            next += u32::from(number > 1);
            experiment.containers.push(Container {
                name: format!("{}-{number}", container.name),
                index,
                start,
                stop: [stop, container.stop].into_iter().flatten().min(),
                arrival: Some((container.name.clone(), number)),
                ..container.clone()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_arrivals_whose_gaps_have_the_mean_that_was_asked_for() {
        let mean = Duration::from_secs(4);
        let trace = |seed| Trace { line: 1, count: 1_000, mean, length: None, seed };
        let times = trace(3).times(Duration::from_secs(10), None);
        assert_eq!(times, trace(3).times(Duration::from_secs(10), None));
        assert_ne!(times, trace(4).times(Duration::from_secs(10), None));
        assert!(times.is_sorted() && times[0] > Duration::from_secs(10));
        let average = (times[999] - Duration::from_secs(10)).as_secs_f64() / 1_000.0;
        assert!((3.5..4.5).contains(&average), "{average}");
        let some = trace(3).times(Duration::ZERO, Some(Duration::from_secs(40)));
        assert!(some.len() < 30 && some.iter().all(|at| *at < Duration::from_secs(40)));
    }
}
