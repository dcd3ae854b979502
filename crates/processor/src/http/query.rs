//! `GET /workloads`, `GET /workloads/{uid}/training`, `GET /events`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use crosstalk_store::{Error, EventFilter, Page, TrainingQuery};
use serde::{Deserialize, Serialize};

use super::App;

/// Workloads, a page at a time.
pub(super) async fn workloads(State(app): State<Arc<App>>, Query(page): Query<Page>) -> Response {
    answer(async { app.database.store().await?.workloads(&page).await }.await)
}

/// Which part of a run, and how finely.
#[derive(Debug, Deserialize)]
pub(super) struct TrainingParameters {
    run: Option<i64>,
    data_source: Option<String>,
    from_iteration: Option<i64>,
    to_iteration: Option<i64>,
    max_points: Option<u32>,
}

/// One run of a workload, thinned to the points asked for.
pub(super) async fn training(
    State(app): State<Arc<App>>,
    Path(uid): Path<String>,
    Query(parameters): Query<TrainingParameters>,
) -> Response {
    let defaults = TrainingQuery::new(&uid);
    let query = TrainingQuery {
        run: parameters.run,
        data_source: parameters.data_source.unwrap_or(defaults.data_source),
        from_iteration: parameters.from_iteration,
        to_iteration: parameters.to_iteration,
        max_points: parameters.max_points.unwrap_or(defaults.max_points),
        workload_uid: defaults.workload_uid,
    };
    let series = async {
        let store = app.database.store().await?;
        match store.workload(&uid).await? {
            Some(_) => store.training(&query).await.map(Some),
            None => Ok(None),
        }
    };
    match series.await {
        Ok(Some(series)) => Json(series).into_response(),
        Ok(None) => {
            let text = format!("no workload {uid:?}; GET /workloads lists them\n");
            (StatusCode::NOT_FOUND, text).into_response()
        }
        Err(error) => answer::<()>(Err(error)),
    }
}

/// The page of a list of events; flattening two structures would lose the numbers' type.
#[derive(Debug, Deserialize)]
pub(super) struct EventParameters {
    workload_uid: Option<String>,
    r#type: Option<String>,
    cursor: Option<String>,
    limit: Option<u32>,
}

/// Events, the newest first.
pub(super) async fn events(
    State(app): State<Arc<App>>,
    Query(parameters): Query<EventParameters>,
) -> Response {
    let filter = EventFilter { workload_uid: parameters.workload_uid, kind: parameters.r#type };
    let page = Page { cursor: parameters.cursor, limit: parameters.limit };
    answer(async { app.database.store().await?.events(&filter, &page).await }.await)
}

fn answer<T: Serialize>(result: Result<T, Error>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(error @ Error::Cursor { .. }) => {
            (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "query failed");
            (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response()
        }
    }
}
