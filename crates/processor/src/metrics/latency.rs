//! How late log lines arrive, by node: a summary over the last minutes and a histogram over all time.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sketches_ddsketch::{Config, DDSketch};

use crosstalk_serve::Families;

const BUCKETS: [f64; 13] =
    [0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0];
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.95, 0.99];

/// Quantiles cover the current window and the one before.
const WINDOW: Duration = Duration::from_secs(300);

/// Nodes told apart; the rest goes under `other`.
const MAX_NODES: usize = 1000;

/// A node that says nothing for so long gives its place to another; nodes come and go.
const REST: Duration = Duration::from_secs(3600);

/// Latencies by node.
#[derive(Debug, Default)]
pub struct Latencies(Mutex<BTreeMap<String, Latency>>);

struct Latency {
    recent: DDSketch,
    before: DDSketch,
    since: Instant,
    last: Instant,
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
            last: Instant::now(),
            counts: [0; BUCKETS.len() + 1],
            sum: 0.0,
        }
    }
}

impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latency").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Latency {
    fn observe(&mut self, seconds: f64) {
        self.turn();
        self.last = Instant::now();
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
        if nodes.len() >= MAX_NODES && !nodes.contains_key(node) {
            free(&mut nodes, REST);
        }
        let room = nodes.len() < MAX_NODES || nodes.contains_key(node);
        nodes.entry(if room { node } else { "other" }.to_owned()).or_default().observe(seconds);
    }

    /// The quantiles, as text: `prometheus-client` has no summaries, and existing dashboards ask for this one.
    pub(crate) fn summary(&self) -> String {
        let mut nodes = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let name = "log_consume_latency_seconds";
        let mut text = format!(
            "# HELP {name} Delay of log lines over the last minutes\n# TYPE {name} summary\n"
        );
        for (node, latency) in nodes.iter_mut() {
            latency.turn();
            let node = node.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            // Writing to a String cannot fail.
            for quantile in QUANTILES {
                let value = latency.quantile(quantile);
                let _ = writeln!(text, "{name}{{node=\"{node}\",quantile=\"{quantile}\"}} {value}");
            }
            let count: u64 = latency.counts.iter().sum();
            let _ = writeln!(text, "{name}_sum{{node=\"{node}\"}} {}", latency.sum);
            let _ = writeln!(text, "{name}_count{{node=\"{node}\"}} {count}");
        }
        text
    }

    /// The buckets.
    pub(super) fn write(&self, families: &mut Families<'_>) -> fmt::Result {
        let nodes = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let name = "log_consume_latency_histogram_seconds";
        let mut family = families.histograms(name, "Delay of log lines")?;
        for (node, latency) in nodes.iter() {
            let bounds = BUCKETS.into_iter().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(latency.counts).collect();
            family.histogram(&[("node", node)], latency.sum, &buckets)?;
        }
        Ok(())
    }
}

/// Frees the place of the node that was silent longest, if that is for `rest` at least.
fn free(nodes: &mut BTreeMap<String, Latency>, rest: Duration) {
    let silent = nodes.iter().filter(|(_, latency)| latency.last.elapsed() >= rest);
    let longest = silent.min_by_key(|(_, latency)| latency.last).map(|(node, _)| node.clone());
    if let Some(node) = longest {
        nodes.remove(&node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_serve::{Format, exposition};
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::DescriptorEncoder;

    impl Collector for Latencies {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            self.write(&mut Families::new(encoder))
        }
    }

    #[test]
    fn the_histogram_is_cumulative_and_the_summary_has_its_quantiles() {
        let latencies = Latencies::default();
        for number in 1..=100 {
            latencies.observe("n1", f64::from(number) / 10.0);
        }
        let summary = latencies.summary();
        let text = exposition(Format::Classic, [Box::new(latencies) as _], &summary);
        let bucket = |le: &str| format!("bucket{{le=\"{le}\",node=\"n1\"}}");
        for (le, count) in [("0.1", 1), ("1", 10), ("8", 80), ("300", 100), ("+Inf", 100)] {
            assert!(text.contains(&format!("{} {count}\n", bucket(le))), "{le}\n{text}");
        }
        let median = text.lines().find(|l| l.contains("quantile=\"0.5\"")).unwrap();
        let median: f64 = median.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((4.8..5.2).contains(&median), "{median}");
    }

    #[test]
    fn a_node_that_is_gone_gives_its_place_to_a_new_one() {
        let latencies = Latencies::default();
        for number in 0..MAX_NODES {
            latencies.observe(&format!("n{number}"), 1.0);
        }
        latencies.observe("new", 1.0);
        assert!(latencies.0.lock().unwrap().contains_key("other"), "nobody rests for an hour yet");
        free(&mut latencies.0.lock().unwrap(), Duration::ZERO);
        free(&mut latencies.0.lock().unwrap(), Duration::ZERO);
        latencies.observe("new", 1.0);
        let nodes = latencies.0.lock().unwrap();
        assert!(nodes.contains_key("new") && !nodes.contains_key("n0"));
    }
}
