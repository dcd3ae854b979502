//! `POST /logs`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_ENCODING;
use axum::response::{IntoResponse, Response};
use crosstalk_serve::Problem;
use serde::{Deserialize, Serialize};

use super::App;
use crate::logs::{Batch, RejectedRecord};

/// A log record as Fluent Bit sends it; what else it has is passed over.
#[derive(Deserialize, utoipa::ToSchema)]
#[allow(dead_code)] // records are scanned, not deserialized: this describes them
struct LogRecord {
    /// Unix time with fraction, or a date.
    date: serde_json::Value,
    /// The line; `message` is read too.
    log: String,
    /// What the kubernetes filter adds: `pod_name`, `namespace_name`, `pod_id`, `host`, `container_name`, `labels`.
    kubernetes: serde_json::Value,
}

/// What became of the records.
#[derive(Serialize, utoipa::ToSchema)]
struct LogAnswer {
    /// Records taken.
    accepted: usize,
    /// Records that could not be read or stored.
    rejected: usize,
    /// Iterations stored.
    iterations: u64,
    /// Why some were rejected.
    reasons: Vec<RejectedRecord>,
}

/// Takes log records, a JSON array or one a line. What they say about training is stored when this answers 200; records that cannot be read or
/// stored are listed in the answer. When there are no others the answer is 400; 503 asks the sender to try again.
#[utoipa::path(
    post,
    path = "/logs",
    request_body(content((Vec<LogRecord> = "application/json"), (String = "application/x-ndjson"))),
    responses(
        (status = 200, description = "What the lines say about training is stored", body = LogAnswer),
        (status = 400, description = "Every record was rejected; a body that cannot be read is a problem", body = LogAnswer),
        (status = 413, description = "Over max_logs_body_bytes", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Compressed", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is away: send again", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn receive(State(app): State<Arc<App>>, request: Request) -> Response {
    if let Some(encoding) = request.headers().get(CONTENT_ENCODING)
        && encoding != "identity"
    {
        let detail = "send logs uncompressed (in Fluent Bit, leave compress out)";
        return Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).into_response();
    }
    let limit = app.config.limits.max_logs_body_bytes;
    let timeout = app.config.listener.body_timeout.get();
    let held = match crosstalk_serve::read(request, limit, timeout, &app.budget).await {
        Ok(held) => held,
        Err(unread) => return unread.response("max_logs_body_bytes", limit),
    };
    let for_parsing = Arc::clone(&app);
    let parsing = move || {
        let snapshot = for_parsing.cache.snapshot();
        for_parsing.logs.read(&held.bytes, &snapshot, &for_parsing.metrics)
    };
    let batch = tokio::task::spawn_blocking(parsing).await.expect("parsing does not panic");
    match batch {
        Ok(batch) => store(&app, batch).await,
        Err(reason) => Problem::new(StatusCode::BAD_REQUEST, reason.to_string()).into_response(),
    }
}

async fn store(app: &App, mut batch: Batch) -> Response {
    let mut iterations = 0;
    if !batch.observations.is_empty() {
        let recorded =
            async { app.database.store().await?.record(&batch.observations).await }.await;
        match recorded {
            Ok(recorded) => {
                let events = recorded.events.values().sum();
                app.metrics.workload_events_created.add(events);
                app.metrics.event_stream_created.add(events);
                iterations = recorded.iterations;
                for rejected in recorded.rejected {
                    app.metrics.log_rejected.add(["row"], 1);
                    tracing::warn!(reason = rejected.reason, "cannot store what a log line says");
                    batch.reject_observation(rejected.index, rejected.reason);
                }
            }
            Err(error) => {
                app.metrics.workload_event_errors.add(1);
                app.metrics.event_stream_errors.add(1);
                tracing::error!(%error, "cannot store training performance");
                let detail = format!("cannot store what the lines say; send them again: {error}");
                return Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).into_response();
            }
        }
    }
    let status = match (batch.accepted, batch.rejected) {
        (0, 1..) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let answer = LogAnswer {
        accepted: batch.accepted,
        rejected: batch.rejected,
        iterations,
        reasons: std::mem::take(&mut batch.examples),
    };
    (status, Json(answer)).into_response()
}
