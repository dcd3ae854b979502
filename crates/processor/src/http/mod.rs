//! The HTTP service: routes and answers. What the routes do lives elsewhere; who may ask is the listener's to know.

mod caches;
mod devices;
mod log_answer;
mod logs;
mod metrics;
mod openapi;
mod packed;
mod places;
mod query;
mod ready;
mod remote_write;

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::routing::{any, get, post};
use crosstalk_serve::{Budget, Names, Problem, Rules, ServerMetrics};

use crate::cache::Cache;
use crate::cache::reports::Reports;
use crate::config::Config;
use crate::database::Database;
use crate::ingest::Ingest;
use crate::logs::LogIntake;
use crate::logs::forward::LogTarget;
use crate::logs::spool::Spool;
use crate::metrics::Metrics;

pub(crate) use places::Places;

/// What every route can reach.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) ingest: Arc<Ingest>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) database: Arc<Database>,
    pub(crate) logs: LogIntake,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) server: Arc<ServerMetrics>,
    pub(crate) budget: Budget,
    pub(crate) spool: Spool,
    pub(crate) log_targets: Vec<LogTarget>,
    pub(crate) places: Places,
    pub(crate) reports: Arc<Reports>,
}

/// Every route, as metrics tell them apart.
const ROUTES: [&str; 23] = [
    "/prometheus",
    "/api/v1/write",
    "/logs",
    "/devices",
    "/v1/devices",
    "/pods/cache",
    "/pods/workload/cache",
    "/workloads",
    "/workloads/{uid}/training",
    "/events",
    "/v1/prometheus",
    "/v1/api/v1/write",
    "/v1/logs",
    "/v1/pods/cache",
    "/v1/pods/workload/cache",
    "/v1/workloads",
    "/v1/workloads/{uid}/training",
    "/v1/events",
    "/metrics",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/health",
];

/// Senders may fill the service; who looks after it must still see it.
pub(crate) const RULES: Rules = Rules {
    essential: &["/metrics"],
    written: &[
        "/prometheus",
        "/api/v1/write",
        "/logs",
        "/devices",
        "/v1/devices",
        "/v1/prometheus",
        "/v1/api/v1/write",
        "/v1/logs",
    ],
    longest_head: None,
    on_refusal: remote_write::refused,
};

/// The listener's metrics, by route.
pub(crate) fn server_metrics() -> ServerMetrics {
    let names = Names {
        prefix: "crosstalk_processor_http",
        requests: "crosstalk_processor_requests",
        route: "route",
        exact_codes: true,
    };
    ServerMetrics::new(names, &ROUTES.map(|route| (route, route)))
}

/// All routes. The data routes are served under `/v1` as well, where they were deployed before.
pub(crate) fn router(app: Arc<App>) -> Router {
    let data = || {
        Router::new()
            .route(remote_write::ROUTES[0], any(remote_write::receive))
            .route(remote_write::ROUTES[1], any(remote_write::receive))
            .route("/logs", post(ready::logs))
            .route("/devices", post(devices::report))
            .route("/pods/cache", get(caches::devices))
            .route("/pods/workload/cache", get(caches::workloads))
            .route("/workloads", get(query::workloads))
            .route("/workloads/{uid}/training", get(query::training))
            .route("/events", get(query::events))
    };
    Router::new()
        .merge(data())
        .nest("/v1", data())
        .route("/metrics", get(metrics::page))
        .route("/openapi.json", get(openapi::document))
        .route("/healthz", get(healthz))
        .route("/health", get(healthz))
        .route("/readyz", get(ready::readyz))
        .route("/ready", get(ready::readyz))
        .fallback(async |uri: Uri| Problem::not_found(uri.path(), &ROUTES))
        .method_not_allowed_fallback(async || {
            let detail = "this is asked in another way; see /openapi.json";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
        })
        .with_state(app)
}

/// Whether the service answers; needs no token.
#[utoipa::path(get, path = "/healthz", security(()), responses((status = 200, description = "It does", body = String)))]
async fn healthz() -> &'static str {
    "ok\n"
}
