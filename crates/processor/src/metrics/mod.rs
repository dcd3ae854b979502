//! What the processor says of itself, in the Prometheus text format.
//!
//! Every family is bounded: a label value beyond its bound is counted under `other`.

mod counter;
mod latency;
mod process;

pub use counter::{Counter, CounterBy};
pub use latency::Latencies;

use crate::cache::Miss;
use crate::enrich::Counts;
use crosstalk_remote_write::Written;
use crosstalk_serve::Families;
use std::fmt;

/// All counters of the processor.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Float samples taken in.
    pub received_samples: Counter,
    /// Native histograms taken in.
    pub received_histograms: Counter,
    /// Exemplars taken in.
    pub received_exemplars: Counter,
    /// Series left out of a request because they break a rule.
    pub rejected_series: Counter,
    /// Series that got a workload.
    pub enriched_series: Counter,
    /// Series without a workload, by reason.
    pub misses: CounterBy<1>,
    /// Samples left out, by reason.
    pub dropped_samples: CounterBy<1>,
    /// Series that another pod holds now, ended for the one before.
    pub handed_over_series: Counter,
    /// Metadata entries without a place in a 2.0 body.
    pub unplaced_metadata: Counter,
    /// Requests answered 429, by what was full.
    pub throttled: CounterBy<1>,
    /// Samples delivered, by endpoint.
    pub forwarded_samples: CounterBy<1>,
    /// Blocks delivered, by endpoint.
    pub forwarded_blocks: CounterBy<1>,
    /// Tries that failed and will be made again, by endpoint and reason.
    pub forward_retries: CounterBy<2>,
    /// Blocks a store refused for good, by endpoint and status.
    pub dead_letters: CounterBy<2>,
    /// Dead letters deleted to stay within their bound, by endpoint.
    pub dead_letters_evicted: CounterBy<1>,
    /// Refreshes of a cache source that failed, by source.
    pub cache_errors: CounterBy<1>,
    /// Refreshes that worked, by source.
    pub cache_refreshes: CounterBy<1>,
    /// Log records analysed, by what they were.
    pub log_analysis: CounterBy<1>,
    /// Log records refused, by reason.
    pub log_rejected: CounterBy<1>,
    /// Delay between a log line and its arrival, by node.
    pub log_latency: Latencies,
    /// Log lines delivered, by log store.
    pub forwarded_log_lines: CounterBy<1>,
    /// Log lines a log store refused for good, by log store.
    pub refused_log_lines: CounterBy<1>,
    /// Bodies with lines a log store refused for good, by log store and status.
    pub log_dead_letters: CounterBy<2>,
    /// Those deleted to stay within their bound, by log store.
    pub log_dead_letters_evicted: CounterBy<1>,
    /// Tries to deliver log lines that failed and will be made again, by log store.
    pub log_forward_retries: CounterBy<1>,
    /// Rows written to the event stream.
    pub event_stream_created: Counter,
    /// Rows of the event stream that could not be written.
    pub event_stream_errors: Counter,
    /// Workload events written.
    pub workload_events_created: Counter,
    /// Workload events that could not be written.
    pub workload_event_errors: Counter,
    /// Last GPU utilisation seen; `None` until one was.
    pub gpu_utilization: std::sync::Mutex<Option<f64>>,
}

impl Metrics {
    /// Adds what one request brought.
    pub fn add_request(&self, written: &Written, rejected: usize, counts: &Counts) {
        self.received_samples.add(written.samples as u64);
        self.received_histograms.add(written.histograms as u64);
        self.received_exemplars.add(written.exemplars as u64);
        self.rejected_series.add(rejected as u64);
        self.enriched_series.add(counts.enriched);
        for (miss, count) in Miss::ALL.iter().zip(counts.misses) {
            self.misses.add([miss.name()], count);
        }
        self.dropped_samples.add(["no_workload"], counts.dropped_samples);
        self.dropped_samples.add(["negative"], counts.negative_samples);
        self.dropped_samples.add(["collision"], counts.collided_samples);
        self.handed_over_series.add(counts.handed_over);
        self.unplaced_metadata.add(counts.unplaced_metadata);
        if let Some(bits) = counts.gpu_utilization {
            let mut gpu = self.gpu_utilization.lock().unwrap_or_else(|p| p.into_inner());
            *gpu = Some(f64::from_bits(bits));
        }
    }

    /// Writes every family that lives here; `busy` requests were refused before they came here.
    pub(crate) fn write(&self, families: &mut Families<'_>, busy: u64) -> fmt::Result {
        for (name, help, counter) in [
            ("received_samples", "Float samples taken in", &self.received_samples),
            ("received_histograms", "Native histograms taken in", &self.received_histograms),
            ("received_exemplars", "Exemplars taken in", &self.received_exemplars),
            (
                "rejected_series",
                "Series that break a rule of the protocol or a limit",
                &self.rejected_series,
            ),
            ("enriched_series", "Series that got a workload", &self.enriched_series),
            (
                "handed_over_series",
                "Series ended for a pod that no longer holds what they are about",
                &self.handed_over_series,
            ),
            (
                "unplaced_metadata",
                "Metadata a 2.0 endpoint has no place for",
                &self.unplaced_metadata,
            ),
        ] {
            let name = format!("crosstalk_processor_{name}");
            families.counter(&name, help, counter.get() as f64)?;
        }
        for (name, help, label, family) in [
            ("enrichment_misses", "Series without a workload", "reason", &self.misses),
            ("dropped_samples", "Samples left out on purpose", "reason", &self.dropped_samples),
            ("forwarded_samples", "Samples delivered", "endpoint", &self.forwarded_samples),
            ("forwarded_blocks", "Blocks delivered", "endpoint", &self.forwarded_blocks),
            (
                "dead_letters_evicted",
                "Dead letters deleted for room",
                "endpoint",
                &self.dead_letters_evicted,
            ),
            ("cache_refreshes", "Refreshes of a cache source", "source", &self.cache_refreshes),
            ("cache_errors", "Failed refreshes of a cache source", "source", &self.cache_errors),
            ("log_rejected", "Log records refused", "reason", &self.log_rejected),
            ("log_forwarded_lines", "Log lines delivered", "store", &self.forwarded_log_lines),
            (
                "log_forward_refused_lines",
                "Log lines a log store refused for good",
                "store",
                &self.refused_log_lines,
            ),
            ("log_forward_retries", "Failed tries", "store", &self.log_forward_retries),
            (
                "log_forward_dead_letters_evicted",
                "Dead letters of log stores deleted for room",
                "store",
                &self.log_dead_letters_evicted,
            ),
        ] {
            by(families, name, help, [label], family)?;
        }
        by(
            families,
            "forward_retries",
            "Failed tries",
            ["endpoint", "reason"],
            &self.forward_retries,
        )?;
        let refused = "Blocks a store refused for good";
        by(families, "dead_letters", refused, ["endpoint", "code"], &self.dead_letters)?;
        let (name, labels) = ("log_forward_dead_letters", ["store", "code"]);
        by(families, name, "Bodies a log store refused for good", labels, &self.log_dead_letters)?;
        let name = "crosstalk_processor_throttled";
        let mut throttled = families.counters(name, "Requests answered 429")?;
        for full in ["logs", "queries", "queue"] {
            throttled.counter(&[("full", full)], self.throttled.get([full]) as f64)?;
        }
        throttled.counter(&[("full", "requests")], busy as f64)?;
        self.write_log_families(families)?;
        process::write(families)
    }

    /// The names here are those existing dashboards use.
    fn write_log_families(&self, families: &mut Families<'_>) -> fmt::Result {
        let mut analysed =
            families.plain_counter("log_analysis_consume_count", "Log records analysed")?;
        for ([kind], count) in self.log_analysis.all() {
            analysed.gauge(&[("type", &kind)], count as f64)?;
        }
        for (name, help, counter) in [
            ("event_stream_create_count", "Event stream rows written", &self.event_stream_created),
            (
                "event_stream_create_error_count",
                "Event stream rows not written",
                &self.event_stream_errors,
            ),
            (
                "workload_event_create_count",
                "Workload events written",
                &self.workload_events_created,
            ),
            (
                "workload_event_create_error_count",
                "Workload events not written",
                &self.workload_event_errors,
            ),
        ] {
            families.plain_counter(name, help)?.gauge(&[], counter.get() as f64)?;
        }
        self.log_latency.write(families)?;
        let mut gpu = families.gauges("gpu_utilization", "Last GPU utilisation received")?;
        match *self.gpu_utilization.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Some(value) => gpu.gauge(&[], value),
            None => Ok(()),
        }
    }
}

fn by<const N: usize>(
    families: &mut Families<'_>,
    name: &str,
    help: &str,
    labels: [&str; N],
    counters: &CounterBy<N>,
) -> fmt::Result {
    let name = format!("crosstalk_processor_{name}");
    let mut family = families.counters(&name, help)?;
    for (values, count) in counters.all() {
        let values = values.iter().map(String::as_str);
        let pairs: Vec<(&str, &str)> = labels.iter().copied().zip(values).collect();
        family.counter(&pairs, count as f64)?;
    }
    Ok(())
}
