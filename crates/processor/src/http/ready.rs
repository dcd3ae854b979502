//! `GET /readyz`, and the answer to those who come before everybody was heard.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use crosstalk_serve::{Problem, discard};
use serde::Serialize;

use super::App;

/// Whether series would find their workloads.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(super) struct Ready {
    /// Whether they would.
    ready: bool,
    /// Sources of pods that were heard.
    sources: Vec<&'static str>,
    /// Sources that were never heard.
    waiting: Vec<&'static str>,
    /// Sources that were not heard since the start, of which what was known before is used.
    remembered: Vec<&'static str>,
    /// Sources that may know of somebody who is not known here: those of `remembered`, and those that are away. Samples and
    /// lines of pods that are not known are refused meanwhile (503), so that their senders keep them.
    doubtful: Vec<&'static str>,
}

/// Ready once every source of pods was heard, or is remembered from before the start: until then every series would be one
/// without a workload. Needs no token.
#[utoipa::path(get, path = "/readyz", security(()), responses(
    (status = 200, description = "Ready", body = Ready),
    (status = 503, description = "A source was not heard yet", body = Ready),
))]
pub(super) async fn readyz(State(app): State<Arc<App>>) -> Response {
    let standing = app.cache.standing();
    let heard = app.cache.ages().into_iter().filter(|(_, age)| age.is_finite());
    let ready = standing.is_ready();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let answer = Ready {
        ready,
        sources: heard.map(|(source, _)| source).collect(),
        waiting: standing.waiting.clone(),
        remembered: standing.remembered.clone(),
        doubtful: standing.doubtful(),
    };
    (status, Json(answer)).into_response()
}

/// Takes logs once every source was heard or is remembered: a line of a pod that is not known yet would found a workload of
/// its own.
pub(super) async fn logs(State(app): State<Arc<App>>, request: Request) -> Response {
    let standing = app.cache.standing();
    if standing.is_ready() {
        return super::logs::receive(State(app), request).await;
    }
    discard(request, app.config.listener.body_timeout.get()).await;
    not_ready(&standing.waiting)
}

/// 503 with `Retry-After`: the sender keeps what it has.
pub(super) fn not_ready(missing: &[impl AsRef<str>]) -> Response {
    let missing: Vec<&str> = missing.iter().map(AsRef::as_ref).collect();
    let detail = format!(
        "not ready: {} not heard yet, or not any more, so it is not known whose this is",
        missing.join(", ")
    );
    Problem::try_again(StatusCode::SERVICE_UNAVAILABLE, &detail)
}
