//! How late log lines arrive, by node: a summary over the last minutes and a histogram over all time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sketches_ddsketch::{Config, DDSketch};

use super::text::{Kind, Page};

const BUCKETS: [f64; 13] =
    [0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0];
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// Quantiles cover the current window and the one before.
const WINDOW: Duration = Duration::from_secs(300);

/// Nodes told apart; the rest goes under `other`.
const MAX_NODES: usize = 1000;

/// Latencies by node.
#[derive(Debug, Default)]
pub struct Latencies(Mutex<BTreeMap<String, Latency>>);

struct Latency {
    recent: DDSketch,
    before: DDSketch,
    since: Instant,
    counts: [u64; BUCKETS.len() + 1],
    sum: f64,
}

impl Default for Latency {
    fn default() -> Self {
        let empty = || DDSketch::new(Config::defaults());
        Latency {
            recent: empty(),
            before: empty(),
            since: Instant::now(),
            counts: [0; BUCKETS.len() + 1],
            sum: 0.0,
        }
    }
}

impl std::fmt::Debug for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Latency").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Latency {
    fn observe(&mut self, seconds: f64) {
        self.turn();
        self.recent.add(seconds);
        let bucket = BUCKETS.partition_point(|&bound| bound < seconds);
        self.counts[bucket] += 1;
        self.sum += seconds;
    }

    fn turn(&mut self) {
        if self.since.elapsed() >= WINDOW {
            let fresh = DDSketch::new(Config::defaults());
            self.before = std::mem::replace(&mut self.recent, fresh);
            self.since = Instant::now();
        }
    }

    fn quantile(&self, quantile: f64) -> f64 {
        let mut both = self.before.clone();
        let merged = both.merge(&self.recent).is_ok();
        let value = merged.then(|| both.quantile(quantile).ok().flatten()).flatten();
        value.unwrap_or(f64::NAN)
    }
}

impl Latencies {
    /// Notes that a line of `node` came `seconds` after it was written.
    pub fn observe(&self, node: &str, seconds: f64) {
        let mut nodes = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let room = nodes.len() < MAX_NODES || nodes.contains_key(node);
        nodes.entry(if room { node } else { "other" }.to_owned()).or_default().observe(seconds);
    }

    pub(super) fn write(&self, page: &mut Page) {
        let mut nodes = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let name = "log_consume_latency_seconds";
        page.family(name, "Delay of log lines over the last minutes", Kind::Summary);
        for (node, latency) in nodes.iter_mut() {
            latency.turn();
            for quantile in QUANTILES {
                let labels = [("node", node.as_str()), ("quantile", &quantile.to_string())];
                page.sample(name, &labels, latency.quantile(quantile));
            }
            let count: u64 = latency.counts.iter().sum();
            page.sample(&format!("{name}_sum"), &[("node", node)], latency.sum);
            page.sample(&format!("{name}_count"), &[("node", node)], count as f64);
        }
        let name = "log_consume_latency_histogram_seconds";
        page.family(name, "Delay of log lines", Kind::Histogram);
        for (node, latency) in nodes.iter() {
            let mut total = 0;
            for (place, count) in latency.counts.iter().enumerate() {
                total += count;
                let bound = BUCKETS.get(place).map_or("+Inf".to_owned(), f64::to_string);
                let labels = [("node", node.as_str()), ("le", &bound)];
                page.sample(&format!("{name}_bucket"), &labels, total as f64);
            }
            page.sample(&format!("{name}_sum"), &[("node", node)], latency.sum);
            page.sample(&format!("{name}_count"), &[("node", node)], total as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_is_cumulative_and_the_summary_has_its_quantiles() {
        let latencies = Latencies::default();
        for number in 1..=100 {
            latencies.observe("n1", f64::from(number) / 10.0);
        }
        let mut page = Page::default();
        latencies.write(&mut page);
        let text = page.finish();
        let bucket = |le: &str| format!("bucket{{node=\"n1\",le=\"{le}\"}}");
        for (le, count) in [("0.1", 1), ("1", 10), ("8", 80), ("300", 100), ("+Inf", 100)] {
            assert!(text.contains(&format!("{} {count}\n", bucket(le))), "{le}\n{text}");
        }
        let median = text.lines().find(|l| l.contains("quantile=\"0.5\"")).unwrap();
        let median: f64 = median.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((4.8..5.2).contains(&median), "{median}");
    }
}
