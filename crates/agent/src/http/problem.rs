use crate::query::BadValue;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

/// What is wrong with a request, as RFC 9457 writes it.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<Value>,
}

impl Problem {
    fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            parameter: None,
            allowed: None,
        }
    }

    pub(super) fn bad_value(bad: BadValue) -> Self {
        Self {
            parameter: Some(bad.parameter),
            allowed: Some(bad.allowed),
            ..Self::new(StatusCode::BAD_REQUEST, bad.detail)
        }
    }

    pub(super) fn bad_request(detail: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn not_found(path: &str) -> Self {
        let allowed = json!(["/metrics", "/health", "/ready", "/openapi.json"]);
        let shown: String = path.chars().take(200).collect();
        let detail = format!("there is nothing at {shown}");
        Self { allowed: Some(allowed), ..Self::new(StatusCode::NOT_FOUND, detail) }
    }

    pub(super) fn wrong_method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "everything here is read with GET")
    }

    pub(super) fn internal(detail: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or_default();
        let kind = [(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))];
        (status, kind, format!("{}\n", json!(self))).into_response()
    }
}
