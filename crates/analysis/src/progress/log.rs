//! Iterations out of a training log.

use super::{Iteration, Progress};
use crosstalk_training_log::{Metric, Outcome, Parser, timestamp};
use regex::Regex;
use std::sync::LazyLock;

/// Lines beyond this many are not read: more than any run prints.
const MOST_LINES: usize = 5_000_000;

/// A date and a time of day, as trainers and container engines begin their lines.
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\d{4}[-/]?\d{2}[-/]?\d{2}[T _]\d{2}:\d{2}:\d{2}(?P<fraction>[.,]\d+)?(?P<zone>Z|[+-]\d{2}:?\d{2})?")
        .expect("a constant expression")
});

pub(super) struct Log {
    parser: Parser,
    zone_ns: i64,
    /// Number, time and seconds of each.
    said: Vec<(u64, u64, Option<f64>)>,
    untimed: u64,
}

impl Log {
    pub(super) fn new(zone_seconds: i64) -> Self {
        let zone_ns = zone_seconds.saturating_mul(1_000_000_000);
        Self { parser: Parser::default(), zone_ns, said: Vec::new(), untimed: 0 }
    }

    /// Takes a line; whoever shipped it may know its time.
    pub(super) fn take(&mut self, line: &str, at_ns: Option<u64>) {
        let Outcome::Performance { performance, .. } = self.parser.parse(line.trim_end()) else {
            return;
        };
        let Some(number) = performance.iteration() else { return };
        match at_ns.or_else(|| self.time(line)) {
            Some(_) if self.said.len() >= MOST_LINES => {}
            Some(at_ns) => {
                let ms = performance.get(Metric::ElapsedTimePerIterationMs);
                self.said.push((number, at_ns, ms.map(|ms| ms / 1e3)));
            }
            None => self.untimed += 1,
        }
    }

    fn time(&self, line: &str) -> Option<u64> {
        let found = TIME.captures(line)?;
        let at_ns = timestamp::parse(found.get(0)?.as_str()).ok()?;
        let local = if found.name("zone").is_some() { 0 } else { self.zone_ns };
        // A time that was cut to the second is half a second early on average.
        let cut = if found.name("fraction").is_some() { 0 } else { 500_000_000 };
        u64::try_from(at_ns.saturating_sub(local).saturating_add(cut)).ok()
    }

    pub(super) fn finish(self, progress: &mut Progress) -> Result<(), String> {
        if self.said.is_empty() && self.untimed > 0 {
            return Err(format!(
                "{} iterations, but no line has a date and a time: print them, or add them with `ts '%FT%.TZ'`",
                self.untimed
            ));
        }
        progress.add_iterations(join(self.said.into_iter()));
        Ok(())
    }
}

/// Lines about the same iteration are one; a line after a gap stands for the iterations since the line before; where a
/// line does not say how long one took, the time since the line before does.
pub(super) fn join(said: impl Iterator<Item = (u64, u64, Option<f64>)>) -> Vec<Iteration> {
    let mut iterations: Vec<Iteration> = Vec::new();
    let mut before: Option<(u64, u64)> = None;
    for (number, end_ns, seconds) in said {
        let count = before.map_or(1, |(last, _)| number.saturating_sub(last));
        if count == 0 && before.is_some_and(|(last, _)| last == number) {
            continue;
        }
        // Iterations that go back: the run began anew from a checkpoint.
        let count = count.max(1);
        let began = before.filter(|(last, _)| *last < number).map(|(_, ns)| ns);
        before = Some((number, end_ns));
        let measured = began.map(|ns| end_ns.saturating_sub(ns) as f64 / 1e9 / count as f64);
        let Some(seconds) = seconds.or(measured).filter(|s| s.is_finite() && *s > 0.0) else {
            continue;
        };
        let length_ns = (seconds * count as f64 * 1e9) as u64;
        let start_ns = end_ns.saturating_sub(length_ns);
        iterations.push(Iteration { number, count, start_ns, end_ns, seconds });
    }
    iterations
}
