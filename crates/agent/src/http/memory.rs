//! `GET /memory`.

use super::{App, answer};
use crate::memory::{MemoryAnswer, Parameters, parse};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use crosstalk_serve::Problem;

/// What is used of memory under each policy and how much of it is cold: of the node, of the system beside pods and
/// containers, of pods, containers and plain cgroups. A value that is not known is null or absent, never 0.
#[utoipa::path(get, path = "/memory", operation_id = "memory", params(Parameters), responses(
    (status = 200, description = "What is known, and how the source stands", body = MemoryAnswer),
    (status = 400, description = "A value that cannot be, with the allowed ones", body = Problem, content_type = "application/problem+json"),
))]
pub(crate) async fn memory(
    State(app): State<App>,
    pairs: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Response {
    let pairs = match pairs {
        Ok(Query(pairs)) => pairs,
        Err(error) => {
            return Problem::new(StatusCode::BAD_REQUEST, error.body_text()).into_response();
        }
    };
    match parse(&pairs) {
        Ok(wanted) => answer(StatusCode::OK, &MemoryAnswer::of(&app.node, wanted)),
        Err(bad) => Problem::new(StatusCode::BAD_REQUEST, bad.detail)
            .with("parameter", bad.parameter)
            .with("allowed", bad.allowed)
            .into_response(),
    }
}
