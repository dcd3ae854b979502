//! `POST /logs`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_ENCODING;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::{App, body};
use crate::logs::Batch;

/// Takes log records. What they say about training is stored when this answers 200; records that cannot be read or
/// stored are listed in the answer. When there are no others the answer is 400; 503 asks the sender to try again.
pub(super) async fn receive(State(app): State<Arc<App>>, request: Request) -> Response {
    if let Some(encoding) = request.headers().get(CONTENT_ENCODING)
        && encoding != "identity"
    {
        let text = "send logs uncompressed (in Fluent Bit, leave compress out)\n";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response();
    }
    let limit = app.config.limits.max_logs_body_bytes;
    let timeout = Duration::from_secs(app.config.listener.body_timeout_seconds);
    let held = match body::read(request, limit, timeout, &app.budget).await {
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
        Err(reason) => (StatusCode::BAD_REQUEST, format!("{reason}\n")).into_response(),
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
                let text = format!("cannot store what the lines say; send them again: {error}\n");
                return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
            }
        }
    }
    let status = match (batch.accepted, batch.rejected) {
        (0, 1..) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let answer = json!({
        "accepted": batch.accepted,
        "rejected": batch.rejected,
        "iterations": iterations,
        "reasons": std::mem::take(&mut batch.examples),
    });
    (status, Json(answer)).into_response()
}
