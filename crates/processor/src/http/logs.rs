//! `POST /logs`.

use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use crosstalk_serve::{Held, Problem, discard, keep_only};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use super::App;
use super::log_answer::{LogAnswer, store};
use super::packed::Packing;
use super::ready::not_ready;
use crate::logs::{About, Batch, Refusal};

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
        (status = 415, description = "Compressed, but neither with gzip nor with zstd", body = Problem, content_type = "application/problem+json"),
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
    let mut held =
        match crosstalk_serve::read(request, limit, timeout, &app.places.log_budget).await {
            Ok(held) => held,
            Err(unread) => return unread.response("max_logs_body_bytes", limit),
        };
    // In a task of its own: a client that leaves gives back nothing before the work it began has ended.
    let place = (place, held.place.take());
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
    packing: Option<Packing>,
    /// Lines of text rather than records.
    lines: bool,
}

impl Form {
    /// As the headers say. For lines somebody must be named.
    fn of(headers: &HeaderMap, about: &About) -> Result<Form, Problem> {
        let packing = Packing::of(headers)?;
        let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        let kind = String::from_utf8_lossy(kind);
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if kind == "text/plain" && !about.names_somebody() {
            let detail = "say whose lines these are: POST /logs?workload=NAME (with namespace and pod where there are any)";
            return Err(Problem::new(StatusCode::BAD_REQUEST, detail));
        }
        Ok(Form { packing, lines: about.names_somebody() && !kind.ends_with("json") })
    }
}

async fn take(app: &Arc<App>, form: Form, about: About, held: Held) -> Response {
    let limit = app.config.limits.max_logs_body_bytes;
    // Room for what it may come to, before it does.
    let room = match form.packing {
        Some(packing) => {
            Some(app.places.unpacked_budget.take(packing.at_most(&held.bytes, limit)).await)
        }
        None => None,
    };
    let reader = Arc::clone(&app.places.readers).acquire_owned().await;
    // Before anything is looked up: a source that is heard meanwhile was not there for that.
    let standing = app.cache.standing();
    let for_reading = Arc::clone(app);
    let reading = move || {
        // With the body goes its share.
        let (body, _share) = unpack(form, held, room, limit)?;
        read(&for_reading, form, &about, &body)
    };
    let batch = tokio::task::spawn_blocking(reading).await.expect("reading logs does not panic");
    // Short lines say a lot: what was read may be many times the body. Whoever has no room for it yet lets nobody else read.
    let share = app.places.batch_budget.take(batch.as_ref().map_or(0, Batch::bytes)).await;
    drop(reader);
    let response = match batch {
        // The pod may be new: the sender keeps its lines until that is known.
        Ok(batch) => match batch.waits_for(&standing) {
            missing if missing.is_empty() => store(app, batch).await,
            missing => not_ready(&missing),
        },
        Err(refusal) => {
            let status = match refusal {
                Refusal::Bytes { .. } | Refusal::Records { .. } | Refusal::Observations { .. } => {
                    StatusCode::PAYLOAD_TOO_LARGE
                }
                _ => StatusCode::BAD_REQUEST,
            };
            Problem::new(status, refusal.to_string()).into_response()
        }
    };
    drop(share);
    response
}

/// A body as it was before its sender compressed it, with its share of memory.
fn unpack(
    form: Form,
    held: Held,
    room: Option<OwnedSemaphorePermit>,
    limit: usize,
) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Refusal> {
    let (Some(packing), Some(mut room)) = (form.packing, room) else {
        return Ok((held.bytes, held.share));
    };
    let plain = packing.unpack(&held.bytes, limit)?;
    keep_only(&mut room, plain.len());
    Ok((plain, Some(room)))
}

fn read(app: &App, form: Form, about: &About, body: &[u8]) -> Result<Batch, Refusal> {
    let snapshot = app.cache.snapshot();
    match form.lines {
        true => app.logs.read_lines(body, about, &snapshot, &app.metrics),
        false => app.logs.read(body, &snapshot, &app.metrics),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_serve::Budget;
    use std::io::Write;

    #[tokio::test]
    async fn a_compressed_body_takes_its_share_by_what_it_comes_to() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&vec![b' '; 3 << 20]).unwrap();
        let bytes = encoder.finish().unwrap();
        let (sent, limit) = (Budget::new(1 << 20), 8 << 20);
        let unpacked = Budget::new(limit);
        let form = Form { packing: Some(Packing::Gzip), lines: true };
        let most = Packing::Gzip.at_most(&bytes, limit);
        let room = unpacked.take(most).await;
        let held = Held { share: Some(sent.take(bytes.len()).await), bytes, place: None };
        let (plain, share) = unpack(form, held, Some(room), limit).unwrap();
        assert_eq!(plain.len(), 3 << 20);
        assert_eq!(share.unwrap().num_permits(), 3 << 10, "in KiB");
        drop(sent.take(1 << 20).await);
    }
}
