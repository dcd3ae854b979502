//! What was lost to whom since the agent started, as sums that only grow.

use std::collections::BTreeMap;

/// Label sets that Prometheus is shown. Beyond, the one that has not grown for longest makes room.
const MOST: usize = 256;

/// Who lost to whom, through what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) victim: String,
    pub(crate) aggressor: String,
    pub(crate) resource: &'static str,
}

#[derive(Clone, Copy, Debug)]
struct Sum {
    seconds: f64,
    /// Up to here verdicts have been counted: the next one overlaps with the last.
    until_ns: u64,
}

/// Sums of lost time.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    sums: BTreeMap<Pair, Sum>,
    dropped: u64,
}

impl Lost {
    /// Counts what is new of a verdict: the part of its time after what was counted before.
    pub(crate) fn add(&mut self, pair: Pair, (from_ns, to_ns): (u64, u64), lost_seconds: f64) {
        if self.sums.len() >= MOST && !self.sums.contains_key(&pair) {
            let oldest = self.sums.iter().min_by_key(|(_, sum)| sum.until_ns);
            if let Some(oldest) = oldest.map(|(pair, _)| pair.clone()) {
                self.sums.remove(&oldest);
                self.dropped += 1;
            }
        }
        let sum = self.sums.entry(pair).or_insert(Sum { seconds: 0.0, until_ns: 0 });
        let span_ns = to_ns.saturating_sub(from_ns).max(1);
        let new_ns = to_ns.saturating_sub(sum.until_ns.max(from_ns));
        if lost_seconds.is_finite() && lost_seconds > 0.0 {
            sum.seconds += lost_seconds * new_ns as f64 / span_ns as f64;
        }
        sum.until_ns = sum.until_ns.max(to_ns);
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Pair, f64)> {
        self.sums.iter().map(|(pair, sum)| (pair, sum.seconds))
    }

    /// Label sets that made room for others.
    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(victim: &str) -> Pair {
        Pair { victim: victim.to_owned(), aggressor: "b".to_owned(), resource: "cache" }
    }

    #[test]
    fn looks_that_overlap_count_no_second_twice() {
        let mut lost = Lost::default();
        // Ten looks, 5 s apart, each at the last 60 s of which a tenth is lost.
        for look in 0..10_u64 {
            let to_ns = (60 + 5 * look) * 1_000_000_000;
            lost.add(pair("a"), (to_ns - 60_000_000_000, to_ns), 6.0);
        }
        let (_, seconds) = lost.all().next().unwrap();
        assert!((seconds - 0.1 * (60.0 + 45.0)).abs() < 1e-9, "{seconds}");
    }

    #[test]
    fn label_sets_are_bounded_and_the_one_at_rest_for_longest_goes() {
        let mut lost = Lost::default();
        for at in 0..MOST as u64 + 10 {
            lost.add(pair(&at.to_string()), (at, at + 1), 1.0);
        }
        assert_eq!((lost.all().count(), lost.dropped()), (MOST, 10));
        assert!(lost.all().all(|(pair, _)| pair.victim != "3"));
    }
}
