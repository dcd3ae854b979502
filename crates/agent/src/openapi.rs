//! The interface described, from the handlers and types themselves, so that clients can be generated from it.

use crate::answer::Measured;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use crosstalk_model::metric::{NODE, STATISTICS};
use std::sync::LazyLock;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{Modify, OpenApi, PartialSchema, ToSchema};

/// How the last seconds of this node were: exact statistics over any window kept, from whatever sources the machine has. A
/// value that was not measured is absent, never 0.
#[derive(OpenApi)]
#[openapi(
    info(title = "Crosstalk agent"),
    servers((url = "/")),
    paths(crate::http::metrics, crate::http::verdicts, crate::http::health, crate::http::ready, serve),
    security((), ("bearer" = [])),
    modifiers(&Finish),
)]
pub(crate) struct Document;

struct Finish;

impl Modify for Finish {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        // The same routes under their older names.
        for (path, alias) in [("/healthz", "/health"), ("/readyz", "/ready")] {
            if let Some(item) = document.paths.paths.get(path).cloned() {
                document.paths.paths.insert(alias.to_owned(), item);
            }
        }
    }
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", responses((status = 200, description = "OpenAPI 3.1", content_type = "application/json")))]
pub(crate) async fn serve() -> Response {
    static TEXT: LazyLock<String> =
        LazyLock::new(|| Document::openapi().to_json().unwrap_or_default());
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

impl ToSchema for Measured {
    fn name() -> std::borrow::Cow<'static, str> {
        "Metrics".into()
    }
}

/// Written as one flat object whose keys follow from the metrics there are.
impl PartialSchema for Measured {
    fn schema() -> RefOr<Schema> {
        let number =
            |about: String| ObjectBuilder::new().schema_type(Type::Number).description(Some(about));
        let mut object = ObjectBuilder::new().description(Some(
            "Statistics weighted by the time each sample covers in the window. Units: *_bw* bytes/s, *_usage and \
             *_occupancy bytes, freq_mhz MHz, probe_latency_ns and probe_write_back_ns ns, llc_mpki misses per 1000 \
             instructions, runq_wait seconds waited per second.",
        ));
        for metric in NODE {
            for (key, statistic) in metric.keys.iter().zip(STATISTICS) {
                object = object.property(*key, number(format!("{statistic} of: {}", metric.help)));
            }
        }
        let other = ObjectBuilder::new().schema_type(Type::Number);
        object.additional_properties(Some(other)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Every `$ref` below a value.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|inner| references(inner, found));
            }
            Value::Array(list) => list.iter().for_each(|inner| references(inner, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_statistic_is_described() {
        let document = serde_json::to_value(Document::openapi()).unwrap();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 5, "{found:?}");
        for reference in found {
            let path = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(path).is_some(), "{reference}");
        }
        let metrics = &document["components"]["schemas"]["Metrics"]["properties"];
        assert!(metrics["p95_cpu_util"]["description"].is_string(), "{metrics}");
    }
}
