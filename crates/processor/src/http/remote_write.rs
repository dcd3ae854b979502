//! `ANY /prometheus` and `/api/v1/write`.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use crosstalk_remote_write::{Outcome, Written, body_format};
use crosstalk_serve::{Problem, discard, read};

use super::App;
use crate::ingest::IngestError;

/// Where remote write is taken.
pub(super) const ROUTES: [&str; 2] = ["/prometheus", "/api/v1/write"];

/// The two paths are one route to us and two to whoever reads the description.
macro_rules! described {
    ($name:ident, $path:literal) => {
        /// Receives Prometheus remote write 1.0 or 2.0. Every answer says in `X-Prometheus-Remote-Write-*-Written` how many
        /// samples, histograms and exemplars were taken.
        #[utoipa::path(
            post,
            path = $path,
            request_body(content = Vec<u8>, content_type = "application/x-protobuf"),
            responses(
                (status = 204, description = "Everything is on disk"),
                (status = 400, description = "The body is damaged, or some series break a rule; the others are stored", body = Problem, content_type = "application/problem+json"),
                (status = 413, description = "Over a limit, which is named", body = Problem, content_type = "application/problem+json"),
                (status = 415, description = "Another type or encoding than snappy or zstd protobuf", body = Problem, content_type = "application/problem+json"),
                (status = 429, description = "A queue is full: keep the data and try again", body = Problem, content_type = "application/problem+json"),
                (status = 503, description = "Not ready, the disk refused, or the body came too slowly: keep the data and try again", body = Problem, content_type = "application/problem+json"),
            ),
        )]
        #[allow(dead_code)] // only described; `receive` does the work
        pub(super) async fn $name() {}
    };
}
described!(prometheus, "/prometheus");
described!(api_v1_write, "/api/v1/write");

/// Takes a remote write request.
pub(super) async fn receive(State(app): State<Arc<App>>, request: Request) -> Response {
    match store(&app, request).await {
        Ok(outcome) => saying(&outcome.written, answer(&outcome)),
        Err(response) => saying(&Written::default(), response),
    }
}

/// Adds to a refusal that nothing was written, if `route` is one of ours.
pub(super) fn refused(route: &str, response: Response) -> Response {
    let ours = ROUTES.iter().any(|ours| route.strip_prefix("/v1").unwrap_or(route) == *ours);
    if ours { saying(&Written::default(), response) } else { response }
}

/// Every answer says what was written, also when that is nothing.
fn saying(written: &Written, mut response: Response) -> Response {
    for (name, count) in written.headers() {
        let value = HeaderValue::from(count as u64);
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
    response
}

async fn store(app: &App, request: Request) -> Result<Outcome, Response> {
    let (content_type, encoding) =
        (header(request.headers(), CONTENT_TYPE), header(request.headers(), CONTENT_ENCODING));
    let timeout = app.config.listener.body_timeout.get();
    let format = body_format(content_type.as_deref(), encoding.as_deref());
    let wanted = format.map_err(IngestError::from).and_then(|format| {
        app.ingest.has_room()?;
        Ok(format)
    });
    let (protocol, compression) = match wanted {
        Ok(format) => format,
        Err(error) => {
            discard(request, timeout).await;
            return Err(throttled(app, &error));
        }
    };
    let limit = app.ingest.limits().max_body_bytes;
    let held = read(request, limit, timeout, &app.budget).await;
    let held = held.map_err(|unread| unread.response("max_body_bytes", limit))?;
    let crosstalk_serve::Held { bytes, share, place } = held;
    let stored = app.ingest.store(protocol, compression, bytes, (share, place)).await;
    stored.map_err(|error| throttled(app, &error))
}

/// A header as text; bytes that are none become a value that matches nothing.
fn header(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// 204 when everything was taken; 400 with the reasons when some series were not, though the others are stored.
fn answer(outcome: &Outcome) -> Response {
    if outcome.rejected == 0 {
        return StatusCode::NO_CONTENT.into_response();
    }
    let mut text = format!("{} series rejected, {} stored\n", outcome.rejected, outcome.series);
    for example in &outcome.examples {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}: {}", example.series, example.reason);
    }
    Problem::new(StatusCode::BAD_REQUEST, text).into_response()
}

fn throttled(app: &App, error: &IngestError) -> Response {
    if matches!(error, IngestError::Full { .. }) {
        app.metrics.throttled.add(["queue"], 1);
    }
    refusal(error)
}

fn refusal(error: &IngestError) -> Response {
    match error {
        IngestError::Body(body) => {
            let status = StatusCode::from_u16(body.status()).unwrap_or(StatusCode::BAD_REQUEST);
            Problem::new(status, error.to_string()).into_response()
        }
        IngestError::NotReady { missing } => super::ready::not_ready(missing),
        IngestError::Full { .. } => {
            Problem::try_again(StatusCode::TOO_MANY_REQUESTS, &error.to_string())
        }
        IngestError::TooLarge { .. } => {
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()).into_response()
        }
        IngestError::Disk { .. } => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
        }
    }
}
