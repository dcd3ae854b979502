//! The HTTP interface.

pub(crate) mod memory;
mod server;

pub use server::Server;

use crate::exposition::NodeCollector;
use crate::node::Node;
use crate::openapi;
use crate::query;
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use crosstalk_host::WithFix;
use crosstalk_serve::{CountAs, Format, Problem, ServerMetrics, exposition};
use serde::Serialize;
use std::sync::Arc;

/// What every route can reach.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) node: Arc<Node>,
    pub(crate) server: Arc<ServerMetrics>,
}

/// Every path, and what its answers are counted as. `/metrics` is counted as one of two things by what it answers.
pub(crate) const ROUTES: [(&str, &str); 9] = [
    ("/metrics", "window"),
    ("", "prometheus"),
    ("/verdicts", "verdicts"),
    ("/memory", "memory"),
    ("/healthz", "health"),
    ("/readyz", "ready"),
    ("/health", "health"),
    ("/ready", "ready"),
    ("/openapi.json", "openapi"),
];

/// Every route.
pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/verdicts", get(verdicts))
        .route("/memory", get(memory::memory))
        .route("/healthz", get(health))
        .route("/health", get(health))
        .route("/readyz", get(ready))
        .route("/ready", get(ready))
        .route("/openapi.json", get(openapi::serve))
        .fallback(unknown)
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "everything here is read with GET")
        })
        .with_state(app)
}

/// JSON, not to be kept by anybody: it is about now.
fn answer(status: StatusCode, body: &impl Serialize) -> Response {
    let mut bytes = match serde_json::to_vec(body) {
        Ok(bytes) => bytes,
        Err(error) => {
            let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
            return problem.into_response();
        }
    };
    bytes.push(b'\n');
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (status, headers, bytes).into_response()
}

/// Statistics over exactly the last so many seconds, as JSON; without a window, or with the Accept header of a Prometheus
/// server, the newest values as Prometheus text.
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", params(query::Parameters), responses(
    (status = 200, description = "The window, or the newest values", content(
        (crate::answer::Answer = "application/json"),
        (String = "text/plain"),
        (String = "application/openmetrics-text"),
    )),
    (status = 400, description = "A value that cannot be, with the allowed range", body = Problem, content_type = "application/problem+json"),
))]
pub(crate) async fn metrics(
    State(app): State<App>,
    headers: HeaderMap,
    pairs: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Response {
    let node = &app.node;
    let asked = match pairs {
        Ok(Query(pairs)) => query::parse(&pairs, &node.catalog, node.retention).and_then(|asked| {
            asked.map(|query| query.refused_unless(node.follows_subjects)).transpose()
        }),
        Err(error) => {
            return Problem::new(StatusCode::BAD_REQUEST, error.body_text()).into_response();
        }
    };
    match (asked, Format::asked(&headers)) {
        (Err(bad), _) => Problem::new(StatusCode::BAD_REQUEST, bad.detail)
            .with("parameter", bad.parameter)
            .with("allowed", bad.allowed)
            .into_response(),
        (Ok(Some(query)), None) => answer(StatusCode::OK, &node.answer(&query)),
        (Ok(_), format) => {
            let format = format.unwrap_or(Format::Classic);
            let kind = [(CONTENT_TYPE, HeaderValue::from_static(format.content_type()))];
            let text = exposition(format, [Box::new(NodeCollector(app)) as _], "");
            let mut response = (kind, text).into_response();
            response.extensions_mut().insert(CountAs("prometheus"));
            response
        }
    }
}

/// Who slowed whom in the last minute, by how much, through what and how sure, and of whom nothing can be said.
#[utoipa::path(get, path = "/verdicts", operation_id = "verdicts", responses(
    (status = 200, description = "What the newest look found", body = crate::detector::VerdictsNow),
    (status = 404, description = "Verdicts are switched off", body = Problem, content_type = "application/problem+json"),
))]
pub(crate) async fn verdicts(State(app): State<App>) -> Response {
    match &app.node.verdicts {
        Some(verdicts) => answer(StatusCode::OK, &verdicts.current()),
        None => {
            let why = "verdicts are switched off: set verdicts.enabled = true";
            Problem::new(StatusCode::NOT_FOUND, why).into_response()
        }
    }
}

/// Whether the agent lives.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Health {
    /// Always `ok`.
    status: &'static str,
    /// Which version it is.
    version: &'static str,
    /// For how long it has been.
    uptime_seconds: f64,
}

/// Whether the agent lives; needs no token.
#[utoipa::path(get, path = "/healthz", operation_id = "health", responses((status = 200, description = "It does", body = Health)))]
pub(crate) async fn health(State(app): State<App>) -> Response {
    let body = Health {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: app.node.started.elapsed().as_secs_f64(),
    };
    answer(StatusCode::OK, &body)
}

/// Whether there is fresh data.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Ready {
    /// Whether at least one source has some.
    ready: bool,
    /// How each stands.
    sources: Vec<crate::answer::SourceAnswer>,
    /// Where the names of containers and pods come from.
    inventory: Vec<NamesAnswer>,
}

/// A source of names.
#[derive(Serialize, utoipa::ToSchema)]
struct NamesAnswer {
    name: &'static str,
    /// Seconds since it was last heard.
    heard_seconds: Option<f64>,
    /// Why it says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<String>,
    /// What would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl NamesAnswer {
    fn all(node: &Node) -> Vec<Self> {
        let statuses = node.inventory.as_ref().map(|inventory| inventory.statuses());
        let answer = |status: crosstalk_inventory::SourceStatus| Self {
            name: status.name,
            heard_seconds: status.age.map(|age| age.as_secs_f64()),
            found: status.error.as_ref().map(|error| error.found.clone()),
            fix: status.error.and_then(|error| error.fix().map(str::to_owned)),
        };
        statuses.unwrap_or_default().into_iter().map(answer).collect()
    }
}

/// Whether at least one source has fresh data, with a verdict for each; needs no token.
#[utoipa::path(get, path = "/readyz", operation_id = "ready", responses(
    (status = 200, description = "Ready", body = Ready),
    (status = 503, description = "No fresh data yet", body = Ready),
))]
pub(crate) async fn ready(State(app): State<App>) -> Response {
    let ready = app.node.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let inventory = NamesAnswer::all(&app.node);
    answer(status, &Ready { ready, sources: app.node.verdicts(), inventory })
}

async fn unknown(uri: Uri) -> Problem {
    let known: Vec<&str> = ROUTES.iter().map(|route| route.0).filter(|p| !p.is_empty()).collect();
    Problem::not_found(uri.path(), &known)
}
