//! The HTTP service: routes, access, answers. What the routes do lives elsewhere.

mod access;
mod body;
mod caches;
mod logs;
mod metrics;
mod openapi;
mod query;
mod remote_write;
mod server;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use tokio::sync::Semaphore;

use crate::cache::Cache;
use crate::config::Config;
use crate::database::Database;
use crate::ingest::Ingest;
use crate::logs::LogIntake;
use crate::metrics::Metrics;
pub(crate) use access::Token;
pub(crate) use body::Budget;
pub(crate) use server::{Server, tls_acceptor};

/// What every route can reach.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) config: Config,
    pub(crate) ingest: Arc<Ingest>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) database: Arc<Database>,
    pub(crate) logs: LogIntake,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) token: Option<Token>,
    pub(crate) budget: Budget,
    pub(crate) requests: Semaphore,
}

/// All routes. The data routes are served under `/v1` as well, where they were deployed before.
pub(crate) fn router(app: Arc<App>) -> Router {
    let data = || {
        Router::new()
            .route(remote_write::ROUTES[0], any(remote_write::receive))
            .route(remote_write::ROUTES[1], any(remote_write::receive))
            .route("/logs", post(logs::receive))
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
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard))
        .route("/healthz", get(|| async { "ok\n" }))
        .fallback(|| async { (StatusCode::NOT_FOUND, "no such route\n") })
        .with_state(app)
}

/// Checks the token, bounds the requests in work, counts the answers.
async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let response = if !access::allowed(&app.token, request.headers()) {
        refuse(&app, route, request, access::refusal()).await
    } else if let Ok(_permit) = app.requests.try_acquire() {
        next.run(request).await
    } else {
        app.metrics.throttled.add(["requests"], 1);
        let busy = too_busy("too many requests in work (listener.max_requests); try again");
        refuse(&app, route, request, busy).await
    };
    app.metrics.requests.add([route, response.status().as_str()], 1);
    response
}

/// Answers without a look at the request, in a way that its sender gets to see.
async fn refuse(app: &App, route: &str, request: Request, response: Response) -> Response {
    let timeout = Duration::from_secs(app.config.listener.body_timeout_seconds);
    body::discard(request, timeout).await;
    remote_write::refused(route, response)
}

/// An answer that tells a sender to keep its data and come back.
pub(crate) fn too_busy(reason: &str) -> Response {
    let headers = [("retry-after", "1")];
    (StatusCode::TOO_MANY_REQUESTS, headers, format!("{reason}\n")).into_response()
}
