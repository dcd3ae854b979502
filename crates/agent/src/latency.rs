//! How long answers took, as a histogram a handler.

use crate::text::Text;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    Window,
    Prometheus,
    Health,
    Ready,
    OpenApi,
    Other,
}

const HANDLERS: [&str; 6] = ["window", "prometheus", "health", "ready", "openapi", "other"];
/// Upper bounds in seconds.
const BOUNDS: [f64; 11] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0];
const CLASSES: [&str; 3] = ["2xx", "4xx", "5xx"];

#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_ns: AtomicU64,
    classes: [AtomicU64; CLASSES.len()],
}

/// One histogram for each handler: a fixed set, so that no client can make labels.
#[derive(Debug, Default)]
pub(crate) struct Latencies([Histogram; HANDLERS.len()]);

impl Latencies {
    pub(crate) fn count(&self, handler: Handler, status: u16, took: Duration) {
        let histogram = &self.0[handler as usize];
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        histogram.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        histogram.sum_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        let class = match status {
            ..400 => 0,
            400..500 => 1,
            _ => 2,
        };
        histogram.classes[class].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn write(&self, text: &mut Text) {
        const TOOK: &str = "crosstalk_agent_http_request_duration_seconds";
        text.histogram(TOOK, "Time from a request's arrival to its answer being ready.");
        for (handler, histogram) in HANDLERS.iter().zip(&self.0) {
            let mut sum = 0;
            for (at, bucket) in histogram.buckets.iter().enumerate() {
                sum += bucket.load(Ordering::Relaxed);
                let bound = BOUNDS.get(at).map_or_else(|| "+Inf".to_owned(), f64::to_string);
                let labels = [("handler", *handler), ("le", bound.as_str())];
                text.sample(&format!("{TOOK}_bucket"), &labels, sum as f64);
            }
            let seconds = histogram.sum_ns.load(Ordering::Relaxed) as f64 * 1e-9;
            text.sample(&format!("{TOOK}_sum"), &[("handler", *handler)], seconds);
            text.sample(&format!("{TOOK}_count"), &[("handler", *handler)], sum as f64);
        }
        text.counter("crosstalk_agent_http_requests", "Requests answered, by class of status.");
        for (handler, histogram) in HANDLERS.iter().zip(&self.0) {
            for (class, count) in CLASSES.iter().zip(&histogram.classes) {
                let labels = [("handler", *handler), ("code", *class)];
                let count = count.load(Ordering::Relaxed) as f64;
                text.sample("crosstalk_agent_http_requests_total", &labels, count);
            }
        }
    }
}
