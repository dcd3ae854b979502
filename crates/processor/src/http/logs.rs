//! `POST /logs`.

use std::io::Read;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use crosstalk_serve::{Held, Problem, discard};
use serde::{Deserialize, Serialize};

use super::App;
use crate::ingest::IngestError;
use crate::logs::{About, Batch, Refusal, RejectedRecord};
use crate::queue::QueueError;

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
    /// Training lines that are on disk and wait for the database.
    waiting: usize,
    /// Why some were rejected.
    reasons: Vec<RejectedRecord>,
}

/// Takes log records, a JSON array or one a line; or lines of text (`text/plain`, or any type but JSON), whose workload
/// the query names. What they say about training is on disk when this answers 200, and in the database but for what
/// `waiting` counts; records that cannot be read or stored are listed in the answer. When there are no others the answer
/// is 400; 429 and 503 ask the sender to try again.
#[utoipa::path(
    post,
    path = "/logs",
    params(About),
    request_body(content((Vec<LogRecord> = "application/json"), (String = "application/x-ndjson"), (String = "text/plain"))),
    responses(
        (status = 200, description = "What the lines say about training is on disk", body = LogAnswer),
        (status = 400, description = "Every record was rejected; a body that cannot be read is a problem", body = LogAnswer),
        (status = 413, description = "Over max_logs_body_bytes, max_logs_records or max_logs_observations", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "Compressed, but not with gzip", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "Too many requests with logs, or a queue is full: send again", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The disk refused, or the body came too slowly: send again", body = Problem, content_type = "application/problem+json"),
    ),
)]
pub(super) async fn receive(State(app): State<Arc<App>>, request: Request) -> Response {
    let timeout = app.config.listener.body_timeout.get();
    let about = match Query::<About>::try_from_uri(request.uri()) {
        Ok(Query(about)) => about,
        Err(error) => {
            discard(request, timeout).await;
            return Problem::new(StatusCode::BAD_REQUEST, error.to_string()).into_response();
        }
    };
    let Ok(place) = Arc::clone(&app.places.logs).try_acquire_owned() else {
        discard(request, timeout).await;
        app.metrics.throttled.add(["logs"], 1);
        let detail = "too many requests with logs at once (logs.requests); try again";
        return Problem::try_again(StatusCode::TOO_MANY_REQUESTS, detail);
    };
    let form = match Form::of(request.headers(), &about) {
        Ok(form) => form,
        Err(problem) => {
            discard(request, timeout).await;
            return problem.into_response();
        }
    };
    let limit = app.config.limits.max_logs_body_bytes;
    let held = match crosstalk_serve::read(request, limit, timeout, &app.places.log_budget).await {
        Ok(held) => held,
        Err(unread) => return unread.response("max_logs_body_bytes", limit),
    };
    // In a task of its own: a client that leaves gives back nothing before the work it began has ended.
    let work = tokio::spawn(async move {
        let response = take(&app, form, about, held).await;
        drop(place);
        response
    });
    work.await.expect("taking logs does not panic")
}

/// How a body is written.
#[derive(Clone, Copy)]
struct Form {
    gzip: bool,
    /// Lines of text rather than records.
    lines: bool,
}

impl Form {
    /// As the headers say. For lines somebody must be named.
    fn of(headers: &HeaderMap, about: &About) -> Result<Form, Problem> {
        let text = |name| headers.get(name).map(|value: &HeaderValue| value.as_bytes());
        let gzip = match text(CONTENT_ENCODING) {
            None | Some(b"identity" | b"") => false,
            Some(b"gzip" | b"x-gzip") => true,
            Some(_) => {
                let detail = "send logs as they are or compressed with gzip";
                return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
            }
        };
        let kind = String::from_utf8_lossy(text(CONTENT_TYPE).unwrap_or_default());
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if kind == "text/plain" && !about.names_somebody() {
            let detail = "say whose lines these are: POST /logs?workload=NAME (with namespace and pod where there are any)";
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
        }
        Ok(Form { gzip, lines: about.names_somebody() && !kind.ends_with("json") })
    }
}

async fn take(app: &Arc<App>, form: Form, about: About, held: Held) -> Response {
    let reader = Arc::clone(&app.places.readers).acquire_owned().await;
    let for_reading = Arc::clone(app);
    let reading = move || {
        let batch = read(&for_reading, form, &about, &held);
        drop((held, reader));
        batch
    };
    let batch = tokio::task::spawn_blocking(reading).await.expect("reading logs does not panic");
    match batch {
        Ok(batch) => store(app, batch).await,
        Err(refusal) => {
            let status = match refusal {
                Refusal::Bytes { .. } | Refusal::Records { .. } | Refusal::Observations { .. } => {
                    StatusCode::PAYLOAD_TOO_LARGE
                }
                _ => StatusCode::BAD_REQUEST,
            };
            Problem::new(status, refusal.to_string()).into_response()
        }
    }
}

fn read(app: &App, form: Form, about: &About, held: &Held) -> Result<Batch, Refusal> {
    let plain;
    let body = match form.gzip {
        true => {
            plain = gunzip(&held.bytes, app.config.limits.max_logs_body_bytes)?;
            &plain
        }
        false => &held.bytes,
    };
    let snapshot = app.cache.snapshot();
    match form.lines {
        true => app.logs.read_lines(body, about, &snapshot, &app.metrics),
        false => app.logs.read(body, &snapshot, &app.metrics),
    }
}

/// A body without its compression, `most` bytes at most; several parts one after the other are one.
fn gunzip(body: &[u8], most: usize) -> Result<Vec<u8>, Refusal> {
    let mut plain = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(body).take(most as u64 + 1);
    let read = decoder.read_to_end(&mut plain);
    read.map_err(|error| Refusal::Unusable(format!("body is not gzip: {error}")))?;
    if plain.len() > most { Err(Refusal::Bytes { most }) } else { Ok(plain) }
}

/// Puts what a body held on disk: first for the database, then as series for every endpoint, then for the log stores. A sender that is told to
/// send again repeats what was taken already, which changes nothing but for log stores.
async fn store(app: &App, mut batch: Batch) -> Response {
    batch.reject_what_cannot_be_stored(&app.metrics);
    let mut told = None;
    if !batch.observations.is_empty() {
        match app.spool.append(&batch.observations).await {
            Ok(heard) => told = heard,
            Err(error) => return not_queued(app, &error, "queue of log lines"),
        }
        if let Err(error) = send_series(app, &batch).await {
            let (IngestError::Full { source, endpoint } | IngestError::Disk { source, endpoint }) =
                &error
            else {
                return Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
                    .into_response();
            };
            return not_queued(app, source, endpoint);
        }
    }
    for (target, bodies) in app.log_targets.iter().zip(&batch.forwards) {
        if let Err(error) = target.append(bodies).await {
            return not_queued(app, &error, &target.name);
        }
    }
    let waiting = if told.is_none() { batch.observations.len() } else { 0 };
    let told = told.unwrap_or_default();
    for (observation, reason) in told.rejected {
        batch.reject_observation(observation, reason);
    }
    let status = match (batch.accepted, batch.rejected) {
        (0, 1..) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let answer = LogAnswer {
        accepted: batch.accepted,
        rejected: batch.rejected,
        iterations: told.iterations,
        waiting,
        reasons: std::mem::take(&mut batch.examples),
    };
    (status, Json(answer)).into_response()
}

/// Forwards what lines say about training, where there is anybody to forward it to.
async fn send_series(app: &App, batch: &Batch) -> Result<(), IngestError> {
    if !app.config.logs.series || app.ingest.targets().is_empty() {
        return Ok(());
    }
    let (series, late) = app.logs.series(batch);
    app.metrics.dropped_samples.add(["late"], late);
    if !series.is_empty() {
        let job = &app.config.enrichment.job;
        app.ingest.store_own(|encoder| series.encode(job, encoder)).await?;
        app.logs.note_sent(&series);
    }
    Ok(())
}

/// The sender keeps the lines and tries again.
fn not_queued(app: &App, error: &QueueError, what: &str) -> Response {
    let detail = format!("{what}: {error}");
    match error {
        QueueError::Full { .. } => {
            app.metrics.throttled.add(["queue"], 1);
            Problem::try_again(StatusCode::TOO_MANY_REQUESTS, &detail)
        }
        _ => {
            tracing::error!(%error, what, "cannot queue log lines");
            Problem::try_again(StatusCode::SERVICE_UNAVAILABLE, &detail)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_bomb_costs_no_more_than_the_limit_and_damage_is_told() {
        let bomb = gzip(&vec![b'x'; 50 << 20]);
        assert!(bomb.len() < 1 << 20);
        assert_eq!(gunzip(&bomb, 1000), Err(Refusal::Bytes { most: 1000 }));
        assert_eq!(gunzip(&[gzip(b"ab"), gzip(b"c")].concat(), 3).unwrap(), b"abc");
        for damaged in [&b"[]"[..], &gzip(b"abc")[..12]] {
            assert!(matches!(gunzip(damaged, 1000), Err(Refusal::Unusable(_))));
        }
    }
}
