//! What the processor says of itself, in the Prometheus text format.
//!
//! Every family is bounded: a label value beyond its bound is counted under `other`.

mod counter;
mod latency;
mod process;
mod text;

pub use counter::{Counter, CounterBy};
pub use latency::Latencies;
pub(crate) use text::{Kind, Page};

use crate::cache::Miss;
use crate::enrich::Counts;
use crosstalk_remote_write::Written;

/// All counters of the processor.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Answers by route and status.
    pub requests: CounterBy<2>,
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
    pub set_aside_blocks: CounterBy<2>,
    /// Set-aside blocks deleted to stay within their bound, by endpoint.
    pub set_aside_evicted: CounterBy<1>,
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
        self.unplaced_metadata.add(counts.unplaced_metadata);
        if let Some(bits) = counts.gpu_utilization {
            let mut gpu = self.gpu_utilization.lock().unwrap_or_else(|p| p.into_inner());
            *gpu = Some(f64::from_bits(bits));
        }
    }

    /// Writes every family that lives here.
    pub(crate) fn write(&self, page: &mut Page) {
        let p = "crosstalk_processor";
        page.by(
            &format!("{p}_requests_total"),
            "Answers by route and status",
            ["route", "code"],
            &self.requests,
        );
        for (name, help, counter) in [
            ("received_samples_total", "Float samples taken in", &self.received_samples),
            ("received_histograms_total", "Native histograms taken in", &self.received_histograms),
            ("received_exemplars_total", "Exemplars taken in", &self.received_exemplars),
            (
                "rejected_series_total",
                "Series that break a rule of the protocol or a limit",
                &self.rejected_series,
            ),
            ("enriched_series_total", "Series that got a workload", &self.enriched_series),
            (
                "unplaced_metadata_total",
                "Metadata a 2.0 endpoint has no place for",
                &self.unplaced_metadata,
            ),
        ] {
            page.counter(&format!("{p}_{name}"), help, counter);
        }
        for (name, help, label, family) in [
            ("enrichment_misses_total", "Series without a workload", "reason", &self.misses),
            (
                "dropped_samples_total",
                "Samples left out on purpose",
                "reason",
                &self.dropped_samples,
            ),
            ("throttled_total", "Requests answered 429", "full", &self.throttled),
            ("forwarded_samples_total", "Samples delivered", "endpoint", &self.forwarded_samples),
            ("forwarded_blocks_total", "Blocks delivered", "endpoint", &self.forwarded_blocks),
            (
                "set_aside_evicted_total",
                "Set-aside blocks deleted for room",
                "endpoint",
                &self.set_aside_evicted,
            ),
            (
                "cache_refreshes_total",
                "Refreshes of a cache source",
                "source",
                &self.cache_refreshes,
            ),
            (
                "cache_errors_total",
                "Failed refreshes of a cache source",
                "source",
                &self.cache_errors,
            ),
            ("log_rejected_total", "Log records refused", "reason", &self.log_rejected),
        ] {
            page.by(&format!("{p}_{name}"), help, [label], family);
        }
        page.by(
            &format!("{p}_forward_retries_total"),
            "Failed tries",
            ["endpoint", "reason"],
            &self.forward_retries,
        );
        page.by(
            &format!("{p}_set_aside_blocks_total"),
            "Blocks refused for good",
            ["endpoint", "code"],
            &self.set_aside_blocks,
        );
        self.write_log_families(page);
        process::write(page);
    }

    /// The names here are those existing dashboards use.
    fn write_log_families(&self, page: &mut Page) {
        page.by("log_analysis_consume_count", "Log records analysed", ["type"], &self.log_analysis);
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
            page.counter(name, help, counter);
        }
        self.log_latency.write(page);
        page.family("gpu_utilization", "Last GPU utilisation received", Kind::Gauge);
        let gpu = *self.gpu_utilization.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(value) = gpu {
            page.sample("gpu_utilization", &[], value);
        }
    }
}
