//! `GET /pods/cache` and `GET /pods/workload/cache`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::App;
use crate::cache::{device_view, workload_view};

/// Devices and the pods that hold them: `{node: {deviceLabel: {device: [podName, podUID]}}}`
#[utoipa::path(get, path = "/pods/cache", responses((status = 200, description = "Known now", body = serde_json::Value)))]
pub(super) async fn devices(State(app): State<Arc<App>>) -> Response {
    Json(device_view(&app.cache.snapshot())).into_response()
}

/// Pods and their workloads: `{podName: [[workloadName, workloadUID], ...]}`
#[utoipa::path(get, path = "/pods/workload/cache", responses((status = 200, description = "Known now", body = serde_json::Value)))]
pub(super) async fn workloads(State(app): State<Arc<App>>) -> Response {
    Json(workload_view(&app.cache.snapshot())).into_response()
}
