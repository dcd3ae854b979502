//! The interface described, so that clients can be generated from it.

use crate::metric::{NODE, STATISTICS};
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// The OpenAPI document.
pub(crate) fn document() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(build);
    &DOCUMENT
}

fn build() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Crosstalk agent",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "How the last seconds of this node were: exact statistics over any \
                window kept, from whatever sources the machine has. A value that was not \
                measured is absent, never 0.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": {
            "/metrics": { "get": metrics() },
            "/health": { "get": plain("health", "Whether the agent lives.", "Health") },
            "/ready": { "get": ready() },
            "/openapi.json": { "get": {
                "operationId": "openapi",
                "summary": "This document.",
                "responses": { "200": { "description": "OpenAPI 3.1", "content":
                    { "application/json": { "schema": { "type": "object" } } } } },
            } },
        },
        "components": { "schemas": schemas() },
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn response(description: &str, media: &str, schema: Value) -> Value {
    json!({ "description": description, "content": { media: { "schema": schema } } })
}

fn plain(id: &str, summary: &str, schema: &str) -> Value {
    json!({
        "operationId": id,
        "summary": summary,
        "responses": { "200": response(summary, "application/json", reference(schema)) },
    })
}

fn ready() -> Value {
    let summary = "Whether at least one source has fresh data, with a verdict for each.";
    json!({
        "operationId": "ready",
        "summary": summary,
        "responses": {
            "200": response("Ready.", "application/json", reference("Ready")),
            "503": response("No fresh data yet.", "application/json", reference("Ready")),
        },
    })
}

fn metrics() -> Value {
    let window = "Length of the window in seconds, ending now; at most what is kept (30 by \
        default). Without it, or with the Accept header of a Prometheus server, the answer is \
        Prometheus text.";
    let length = json!({ "type": "number", "minimum": 0.001 });
    let parameter = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "query", "description": description, "schema": schema });
    json!({
        "operationId": "metrics",
        "summary": "Statistics over exactly the last so many seconds.",
        "parameters": [
            parameter("window_seconds", window, length.clone()),
            parameter("window_sec", "Another name for window_seconds.", length),
            parameter("subject", "Also list those of a kind with most processor time.", json!({
                "type": "string", "enum": ["node", "pod", "container", "process"],
                "default": "node",
            })),
            parameter("top", "How many of them.", json!({
                "type": "integer", "minimum": 1, "maximum": 1000, "default": 10,
            })),
            parameter("metrics", "Only these, separated by commas: a metric such as cpu_util, \
                or one statistic of it such as p95_cpu_util.", json!({ "type": "string" })),
        ],
        "responses": {
            "200": {
                "description": "The window as JSON, or the newest values as Prometheus text.",
                "content": {
                    "application/json": { "schema": reference("Window") },
                    "text/plain": { "schema": { "type": "string" } },
                    "application/openmetrics-text": { "schema": { "type": "string" } },
                },
            },
            "400": response(
                "A value that cannot be, with the allowed range.",
                "application/problem+json",
                reference("Problem"),
            ),
        },
    })
}

fn schemas() -> Value {
    let number = json!({ "type": "number" });
    let share = json!({ "type": "number", "minimum": 0, "maximum": 1 });
    let count = json!({ "type": "integer", "minimum": 0 });
    let age = json!({ "type": ["number", "null"] });
    let text = json!({ "type": "string" });
    let mut statistics = Map::new();
    for metric in NODE {
        for (key, statistic) in metric.keys.iter().zip(STATISTICS) {
            let description = format!("{statistic} of: {}", metric.help);
            statistics
                .insert((*key).to_owned(), json!({ "type": "number", "description": description }));
        }
    }
    json!({
        "Metrics": {
            "type": "object",
            "description": "Statistics weighted by the time each sample covers in the window. \
                Units: *_bw* bytes/s, *_usage and *_occupancy bytes, freq_mhz MHz, probe_latency_ns and probe_write_back_ns ns, \
                llc_mpki misses per 1000 instructions, runq_wait seconds waited per second.",
            "properties": statistics,
            "additionalProperties": number,
        },
        "Window": {
            "type": "object",
            "required": ["window_seconds", "samples_count", "coverage", "newest_seconds",
                "metrics", "absent", "sources", "timestamp"],
            "properties": {
                "window_seconds": number,
                "samples_count": { "type": "integer", "minimum": 0,
                    "description": "Samples of the leading source that overlap the window." },
                "coverage": share,
                "newest_seconds": age,
                "metrics": reference("Metrics"),
                "partial": { "type": "object", "additionalProperties": share,
                    "description": "Metrics measured in only this part of the window. What is still \
                        to come at its newest edge makes none partial." },
                "absent": { "type": "object", "additionalProperties": text,
                    "description": "Metrics nobody measured, with the reason." },
                "subject": text,
                "subjects_count": count,
                "subjects": { "type": "array", "items": reference("Subject") },
                "sources": { "type": "array", "items": reference("Source") },
                "timestamp": { "type": "number", "description": "Unix time in seconds." },
            },
        },
        "Subject": {
            "type": "object",
            "required": ["samples_count", "coverage", "metrics"],
            "properties": {
                "pid": count, "process_start_ns": count, "comm": text, "container_id": text,
                "pod_uid": text, "samples_count": count, "coverage": share,
                "metrics": reference("Metrics"),
            },
        },
        "Source": {
            "type": "object",
            "required": ["name", "verdict", "found", "newest_seconds", "errors", "restarts"],
            "properties": {
                "name": text,
                "verdict": { "type": "string",
                    "enum": ["starting", "ok", "limited", "absent", "failing", "off"] },
                "found": text, "fix": text, "samples_count": count, "coverage": share,
                "newest_seconds": age, "errors": count, "restarts": count,
                "metrics": { "type": "array", "items": text },
            },
        },
        "Health": {
            "type": "object",
            "required": ["status", "version", "uptime_seconds"],
            "properties": { "status": text, "version": text, "uptime_seconds": number },
        },
        "Ready": {
            "type": "object",
            "required": ["ready", "sources"],
            "properties": {
                "ready": { "type": "boolean" },
                "sources": { "type": "array", "items": reference("Source") },
            },
        },
        "Problem": {
            "type": "object",
            "description": "RFC 9457.",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": text, "title": text, "status": count, "detail": text,
                "parameter": text, "allowed": {},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn every_reference_leads_somewhere() {
        let mut found = Vec::new();
        references(document(), &mut found);
        assert!(found.len() > 5);
        for reference in found {
            let path = reference.strip_prefix('#').unwrap();
            assert!(document().pointer(path).is_some(), "{reference}");
        }
    }
}
