use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};

/// What is wrong with a request, as RFC 9457 writes it.
///
/// ```
/// use crosstalk_serve::Problem;
/// use axum::http::StatusCode;
///
/// let problem = Problem::new(StatusCode::BAD_REQUEST, "top=0: ask for 1 to 10").with("parameter", "top");
/// assert!(problem.to_string().contains(r#""parameter":"top""#));
/// ```
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the status says which kind it is.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The status.
    status: u16,
    /// What is wrong with this request, and what would be right.
    detail: String,
    /// What a program may want to know beside that.
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl Problem {
    /// A problem with this status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            more: Map::new(),
        }
    }

    /// Says one thing more.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.more.insert(key.to_owned(), value.into());
        self
    }

    /// Nothing is at this path; `known` are the paths there are.
    #[must_use]
    pub fn not_found(path: &str, known: &[&str]) -> Self {
        let shown: String = path.chars().take(200).collect();
        let detail = format!("there is nothing at {shown}");
        Self::new(StatusCode::NOT_FOUND, detail).with("allowed", known.to_vec())
    }

    /// A refusal of what may be sent again after a moment.
    #[must_use]
    pub fn try_again(status: StatusCode, detail: &str) -> Response {
        let mut response = Self::new(status, detail).into_response();
        response.headers_mut().insert("retry-after", HeaderValue::from_static("1"));
        response
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", serde_json::to_string(self).unwrap_or_default())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or_default();
        let kind = [(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))];
        (status, kind, self.to_string()).into_response()
    }
}
