//! `GET /openapi.json`: the service described for machines, from the handlers themselves.

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

/// Data routes are served under /v1 as well. Times are nanoseconds since 1970. Errors are RFC 9457 problems.
#[derive(OpenApi)]
#[openapi(
    info(title = "Crosstalk processor"),
    servers((url = "/"), (url = "/v1")),
    paths(
        super::remote_write::prometheus,
        super::remote_write::api_v1_write,
        super::logs::receive,
        super::devices::report,
        super::caches::devices,
        super::caches::workloads,
        super::query::workloads,
        super::query::training,
        super::query::events,
        super::metrics::page,
        super::healthz,
        super::ready::readyz,
        document,
    ),
    security((), ("bearer" = [])),
    modifiers(&Bearer),
)]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    }
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", responses((status = 200, description = "OpenAPI 3.1", content_type = "application/json")))]
pub(super) async fn document() -> Response {
    static TEXT: LazyLock<String> =
        LazyLock::new(|| Document::openapi().to_json().unwrap_or_default());
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}
