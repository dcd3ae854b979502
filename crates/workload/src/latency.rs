use serde::Serialize;
use std::time::Duration;

/// Steps of the histogram between a value and its double.
const STEPS: usize = 8;
/// From 1 us to some 4 s.
const BUCKETS: usize = 22 * STEPS;

/// Latencies of requests in steps of 9 %, in memory that does not grow.
#[derive(Clone, Debug)]
pub struct Latencies {
    counts: [u64; BUCKETS],
    count: u64,
    most: Duration,
}

/// What the requests of some time took, from arrival to answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// How many there were.
    pub requests: u64,
    /// Half took at most this, in microseconds.
    pub p50_us: f64,
    /// Nine of ten.
    pub p90_us: f64,
    /// All but one in a hundred.
    pub p99_us: f64,
    /// The slowest.
    pub max_us: f64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], count: 0, most: Duration::ZERO }
    }
}

impl Latencies {
    /// Adds a request.
    pub fn add(&mut self, latency: Duration) {
        let us = latency.as_secs_f64() * 1e6;
        let bucket = (us.max(1.0).log2() * STEPS as f64) as usize;
        self.counts[bucket.min(BUCKETS - 1)] += 1;
        self.count += 1;
        self.most = self.most.max(latency);
    }

    /// Says what was added since the last time, and forgets it; `None` if nothing was.
    pub fn take(&mut self) -> Option<Quantiles> {
        let taken = std::mem::take(self);
        (taken.count > 0).then(|| Quantiles {
            requests: taken.count,
            p50_us: taken.quantile(0.5),
            p90_us: taken.quantile(0.9),
            p99_us: taken.quantile(0.99),
            max_us: taken.most.as_secs_f64() * 1e6,
        })
    }

    /// The upper end of the step that holds the quantile.
    fn quantile(&self, share: f64) -> f64 {
        let wanted = (share * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return ((bucket + 1) as f64 / STEPS as f64).exp2();
            }
        }
        self.most.as_secs_f64() * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_step_of_the_truth_and_what_was_told_is_forgotten() {
        let mut latencies = Latencies::default();
        for us in 1..=1_000 {
            latencies.add(Duration::from_micros(us));
        }
        let told = latencies.take().unwrap();
        for (quantile, truth) in [(told.p50_us, 500.0), (told.p90_us, 900.0), (told.p99_us, 990.0)]
        {
            assert!(quantile >= truth && quantile <= truth * 1.1, "{told:?}");
        }
        assert_eq!((told.requests, told.max_us), (1_000, 1_000.0));
        assert_eq!(latencies.take(), None);
    }
}
