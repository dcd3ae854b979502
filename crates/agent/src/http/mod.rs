//! The HTTP interface.

mod guarded;
mod problem;
mod server;

pub use server::Server;

use crate::latency::Handler;
use crate::node::Node;
use crate::openapi;
use crate::query;
use crate::text::Format;
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use problem::Problem;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

type Shared = State<Arc<Node>>;

/// Every route.
pub(crate) fn router(node: Arc<Node>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/openapi.json", get(async || answer(StatusCode::OK, openapi::document())))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Arc::clone(&node), time))
        .with_state(node)
}

/// JSON, not to be kept by anybody: it is about now.
fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    let mut bytes = match serde_json::to_vec(body) {
        Ok(bytes) => bytes,
        Err(error) => return Problem::internal(&error.to_string()).into_response(),
    };
    bytes.push(b'\n');
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, headers, bytes).into_response()
}

async fn metrics(
    State(node): Shared,
    headers: HeaderMap,
    pairs: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Response {
    let asked = match pairs {
        Ok(Query(pairs)) => query::parse(&pairs, &node.catalog, node.retention).and_then(|asked| {
            asked.map(|query| query.refused_unless(node.follows_subjects)).transpose()
        }),
        Err(error) => return Problem::bad_request(&error.body_text()).into_response(),
    };
    match (asked, format(&headers)) {
        (Err(bad), _) => Problem::bad_value(bad).into_response(),
        (Ok(Some(query)), None) => answer(StatusCode::OK, &node.answer(&query)),
        (Ok(_), format) => {
            let format = format.unwrap_or(Format::Classic);
            let kind = [(CONTENT_TYPE, HeaderValue::from_static(format.content_type()))];
            (kind, node.exposition(format)).into_response()
        }
    }
}

/// The text format a Prometheus server asks for; `None` if it is not one that asks.
fn format(headers: &HeaderMap) -> Option<Format> {
    let accept = headers.get(ACCEPT)?.to_str().ok()?;
    if accept.contains("application/openmetrics-text") {
        return Some(Format::OpenMetrics);
    }
    let classic = accept
        .split(',')
        .any(|kind| kind.trim_start().starts_with("text/plain") && kind.contains("version=0.0.4"));
    classic.then_some(Format::Classic)
}

async fn health(State(node): Shared) -> Response {
    let body = json!({
        "status": "ok",
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": node.started.elapsed().as_secs_f64(),
    });
    answer(StatusCode::OK, &body)
}

async fn ready(State(node): Shared) -> Response {
    let ready = node.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, &json!({ "ready": ready, "sources": node.verdicts() }))
}

async fn unknown(uri: Uri) -> Response {
    Problem::not_found(uri.path()).into_response()
}

async fn wrong_method() -> Response {
    Problem::wrong_method().into_response()
}

/// Counts every answer and how long it took to make.
async fn time(State(node): Shared, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let path = request.uri().path().to_owned();
    let response = next.run(request).await;
    let is_json = || {
        let kind = response.headers().get(CONTENT_TYPE);
        kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
    };
    let handler = match path.as_str() {
        "/metrics" if is_json() || !response.status().is_success() => Handler::Window,
        "/metrics" => Handler::Prometheus,
        "/health" => Handler::Health,
        "/ready" => Handler::Ready,
        "/openapi.json" => Handler::OpenApi,
        _ => Handler::Other,
    };
    node.latencies.count(handler, response.status().as_u16(), began.elapsed());
    response
}
