//! `GET /metrics`.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::App;
use crate::ingest::Target;
use crate::metrics::{Kind, Page};

pub(super) async fn page(State(app): State<Arc<App>>) -> Response {
    let mut page = Page::default();
    app.metrics.write(&mut page);
    queues(&app, &mut page);
    caches(&app, &mut page);
    let content_type = [("content-type", "text/plain; version=0.0.4; charset=utf-8")];
    (content_type, page.finish()).into_response()
}

fn queues(app: &App, page: &mut Page) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let age = |target: &Target| match target.queue.oldest_ms() {
        Some(oldest) => now.saturating_sub(oldest) as f64 / 1000.0,
        None => 0.0,
    };
    type Reading<'a> = &'a dyn Fn(&Target) -> f64;
    let families: [(&str, &str, Kind, Reading<'_>); 4] = [
        ("queue_bytes", "Bytes that wait to be delivered", Kind::Gauge, &|t| {
            t.queue.used_bytes() as f64
        }),
        ("queue_max_bytes", "Bytes that may wait", Kind::Gauge, &|t| t.queue.max_bytes() as f64),
        ("queue_oldest_seconds", "Age of the block being delivered", Kind::Gauge, &age),
        ("queue_damaged_bytes_total", "Bytes found damaged and skipped", Kind::Counter, &|t| {
            t.queue.damaged_bytes() as f64
        }),
    ];
    for (name, help, kind, reading) in families {
        let name = format!("crosstalk_processor_{name}");
        page.family(&name, help, kind);
        for target in app.ingest.targets() {
            page.sample(&name, &[("endpoint", &target.name)], reading(target));
        }
    }
}

fn caches(app: &App, page: &mut Page) {
    let name = "crosstalk_processor_cache_age_seconds";
    page.family(name, "Seconds since a source was last heard", Kind::Gauge);
    for (source, seconds) in app.cache.ages() {
        page.sample(name, &[("source", source)], seconds);
    }
    let snapshot = app.cache.snapshot();
    let pods = snapshot.pods();
    let departed = pods.iter().filter(|pod| pod.departed).count();
    page.gauge("crosstalk_processor_cache_pods", "Pods known", (pods.len() - departed) as f64);
    page.gauge(
        "crosstalk_processor_cache_departed_pods",
        "Deleted pods still known",
        departed as f64,
    );
    page.gauge(
        "crosstalk_processor_cache_devices",
        "Devices known",
        snapshot.devices().count() as f64,
    );
}
