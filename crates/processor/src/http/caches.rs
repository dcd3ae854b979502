//! `GET /pods/cache` and `GET /pods/workload/cache`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::App;
use crate::cache::{device_view, workload_view};

/// `{node: {deviceLabel: {device: [podName, podUID]}}}`
pub(super) async fn devices(State(app): State<Arc<App>>) -> Response {
    Json(device_view(&app.cache.snapshot())).into_response()
}

/// `{podName: [[workloadName, workloadUID], ...]}`
pub(super) async fn workloads(State(app): State<Arc<App>>) -> Response {
    Json(workload_view(&app.cache.snapshot())).into_response()
}
