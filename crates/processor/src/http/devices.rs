//! `POST /devices`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use crosstalk_serve::{Problem, read};

use super::App;
use crate::cache::reports::{Report, Untaken};

/// Bytes of a report at most.
const MAX_BYTES: usize = 1 << 20;

/// Takes which devices of a node were given to whom, as its agent reads it from the kubelet. A report replaces the one before of
/// the same node; a node that reports nothing for five minutes is forgotten.
#[utoipa::path(post, path = "/devices", request_body = Report, responses(
    (status = 204, description = "Taken"),
    (status = 400, description = "Not a report", body = Problem, content_type = "application/problem+json"),
    (status = 429, description = "More nodes or devices are reported than are kept", body = Problem, content_type = "application/problem+json"),
    (status = 413, description = "Over 1 MiB", body = Problem, content_type = "application/problem+json"),
))]
pub(super) async fn report(State(app): State<Arc<App>>, request: Request) -> Response {
    let timeout = app.config.listener.body_timeout.get();
    let held = match read(request, MAX_BYTES, timeout, &app.budget).await {
        Ok(held) => held,
        Err(unread) => return unread.response("the largest report", MAX_BYTES),
    };
    let report = match serde_json::from_slice::<Report>(&held.bytes) {
        Ok(report) => report,
        Err(error) => {
            return Problem::new(StatusCode::BAD_REQUEST, error.to_string()).into_response();
        }
    };
    match app.reports.take(&report) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal @ Untaken::Full { .. }) => {
            Problem::try_again(StatusCode::TOO_MANY_REQUESTS, &refusal.to_string())
        }
        Err(refusal) => Problem::new(StatusCode::BAD_REQUEST, refusal.to_string()).into_response(),
    }
}
