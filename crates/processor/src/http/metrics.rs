//! `GET /metrics`.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use crosstalk_serve::{Families, Format, exposition};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::App;
use crate::ingest::Target;

/// The processor's own metrics, as Prometheus text or OpenMetrics.
#[utoipa::path(get, path = "/metrics", responses((status = 200, description = "Prometheus text", body = String)))]
pub(super) async fn page(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let format = Format::asked(&headers).unwrap_or(Format::Classic);
    let summaries = app.metrics.log_latency.summary();
    let text =
        exposition(format, [Box::new(ProcessorCollector(app)) as Box<dyn Collector>], &summaries);
    ([(CONTENT_TYPE, format.content_type())], text).into_response()
}

/// Everything known at the time of a scrape.
#[derive(Debug)]
struct ProcessorCollector(Arc<App>);

impl Collector for ProcessorCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families::new(encoder);
        self.0.server.write(&mut families)?;
        self.0.metrics.write(&mut families, self.0.server.throttled())?;
        queues(&self.0, &mut families)?;
        caches(&self.0, &mut families)
    }
}

fn queues(app: &App, families: &mut Families<'_>) -> fmt::Result {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let age = |target: &Target| match target.queue.oldest_ms() {
        Some(oldest) => now.saturating_sub(oldest) as f64 / 1000.0,
        None => 0.0,
    };
    type Reading<'a> = &'a dyn Fn(&Target) -> f64;
    let gauges: [(&str, &str, Reading<'_>); 3] = [
        ("bytes", "Bytes that wait to be delivered", &|t| t.queue.used_bytes() as f64),
        ("max_bytes", "Bytes that may wait", &|t| t.queue.max_bytes() as f64),
        ("oldest_seconds", "Age of the block being delivered", &age),
    ];
    for (name, help, reading) in gauges {
        let name = format!("crosstalk_processor_queue_{name}");
        let mut family = families.gauges(&name, help)?;
        for target in app.ingest.targets() {
            family.gauge(&[("endpoint", &target.name)], reading(target))?;
        }
    }
    type Count<'a> = &'a dyn Fn(&Target) -> u64;
    let counters: [(&str, &str, Count<'_>); 2] = [
        ("samples", "Samples dropped because the queue was full", &|t| t.queue.dropped().samples),
        ("bytes", "Bytes dropped because the queue was full", &|t| t.queue.dropped().bytes),
    ];
    for (name, help, count) in counters {
        let name = format!("crosstalk_processor_queue_dropped_{name}");
        let mut family = families.counters(&name, help)?;
        for target in app.ingest.targets() {
            family.counter(&[("endpoint", &target.name)], count(target) as f64)?;
        }
    }
    let name = "crosstalk_processor_queue_damaged_bytes";
    let mut family = families.counters(name, "Bytes found damaged and skipped")?;
    for target in app.ingest.targets() {
        family.counter(&[("endpoint", &target.name)], target.queue.damaged_bytes() as f64)?;
    }
    let name = "crosstalk_processor_log_forward_queue_bytes";
    let mut family = families.gauges(name, "Bytes of log lines that wait to be delivered")?;
    for target in &app.log_targets {
        family.gauge(&[("store", &target.name)], target.queue.used_bytes() as f64)?;
    }
    let name = "crosstalk_processor_log_forward_dropped_lines";
    let mut family =
        families.counters(name, "Log lines dropped because the queue of the log store was full")?;
    for target in &app.log_targets {
        family.counter(&[("store", &target.name)], target.queue.dropped().samples as f64)?;
    }
    let spool = &app.spool.queue;
    for (name, help, value) in [
        ("bytes", "Bytes of training lines that wait for the database", spool.used_bytes()),
        ("max_bytes", "Bytes of training lines that may wait", spool.max_bytes()),
    ] {
        families.gauge(&format!("crosstalk_processor_log_queue_{name}"), help, value as f64)?;
    }
    Ok(())
}

fn caches(app: &App, families: &mut Families<'_>) -> fmt::Result {
    let name = "crosstalk_processor_cache_age_seconds";
    let help = "Seconds since something came of a source; +Inf before the first time";
    let mut family = families.gauges(name, help)?;
    for (source, seconds) in app.cache.ages() {
        family.gauge(&[("source", source)], seconds)?;
    }
    let standing = app.cache.standing();
    let name = "crosstalk_processor_cache_remembered";
    let help =
        "1 while what a source said before the start is used, because it was not heard since";
    let mut family = families.gauges(name, help)?;
    for (source, _) in app.cache.ages() {
        let remembered = standing.remembered.contains(&source);
        family.gauge(&[("source", source)], f64::from(u8::from(remembered)))?;
    }
    let snapshot = app.cache.snapshot();
    let all = snapshot.pods().count();
    let departed = snapshot.pods().filter(|pod| pod.valid.valid_to_ns.is_some()).count();
    let devices = snapshot.devices().count();
    for (name, help, count) in [
        ("pods", "Pods known", all - departed),
        ("departed_pods", "Deleted pods still known", departed),
        ("devices", "Devices known", devices),
        (
            "silent_nodes",
            "Nodes whose agent is silent, of whose devices nobody knows whose they are",
            app.reports.silent_nodes(),
        ),
    ] {
        families.gauge(&format!("crosstalk_processor_cache_{name}"), help, count as f64)?;
    }
    Ok(())
}
