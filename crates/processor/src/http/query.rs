//! `GET /workloads`, `GET /workloads/{uid}/training`, `GET /events`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use crosstalk_serve::Problem;
use crosstalk_store::{
    Error, Event, EventFilter, Listing, Page, TrainingQuery, TrainingSeries, WorkloadSummary,
};
use serde::{Deserialize, Serialize};

use super::App;

/// Which workloads, and which page of them; flattening two structures would lose the numbers' type.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WorkloadParameters {
    /// Only those below this top controller.
    group_uid: Option<String>,
    /// The `next` of the page before.
    cursor: Option<String>,
    /// Entries, 100 unless given, 1000 at most.
    limit: Option<u32>,
}

/// Workloads, a page at a time.
#[utoipa::path(get, path = "/workloads", params(WorkloadParameters), responses(
    (status = 200, description = "A page", body = Listing<WorkloadSummary>),
    (status = 400, description = "Not a cursor", body = Problem, content_type = "application/problem+json"),
    (status = 503, description = "The database is away", body = Problem, content_type = "application/problem+json"),
))]
pub(super) async fn workloads(
    State(app): State<Arc<App>>,
    Query(parameters): Query<WorkloadParameters>,
) -> Response {
    let WorkloadParameters { group_uid, cursor, limit } = parameters;
    let page = Page { cursor, limit };
    let group = group_uid.as_deref();
    asked(&app, async { app.database.store().await?.workloads_of(group, &page).await }).await
}

/// Which part of a run, and how finely.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct TrainingParameters {
    /// The run; the latest unless given.
    run: Option<i64>,
    /// Where it comes from; log unless given.
    data_source: Option<String>,
    /// First iteration.
    from_iteration: Option<i64>,
    /// Last iteration.
    to_iteration: Option<i64>,
    /// Points, 1000 unless given, 10000 at most.
    max_points: Option<u32>,
}

/// One run of a workload, thinned to the points asked for.
#[utoipa::path(
    get,
    path = "/workloads/{uid}/training",
    params(("uid" = String, Path, description = "The workload"), TrainingParameters),
    responses(
        (status = 200, description = "The run", body = TrainingSeries),
        (status = 404, description = "No such workload", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The database is away", body = Problem, content_type = "application/problem+json"),
    ),
)]
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
    let series = ask(&app, async {
        let store = app.database.store().await?;
        match store.workload(&uid).await? {
            Some(_) => store.training(&query).await.map(Some),
            None => Ok(None),
        }
    });
    match series.await {
        Err(busy) => busy,
        Ok(Ok(Some(series))) => Json(series).into_response(),
        Ok(Ok(None)) => {
            let detail = format!("no workload {uid:?}; GET /workloads lists them");
            Problem::new(StatusCode::NOT_FOUND, detail).into_response()
        }
        Ok(Err(error)) => answer::<()>(Err(error)),
    }
}

/// The page of a list of events; flattening two structures would lose the numbers' type.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct EventParameters {
    /// Of this workload only.
    workload_uid: Option<String>,
    /// Of this type only.
    r#type: Option<String>,
    /// The `next` of the page before.
    cursor: Option<String>,
    /// Entries, 100 unless given, 1000 at most.
    limit: Option<u32>,
}

/// Events, the newest first.
#[utoipa::path(get, path = "/events", params(EventParameters), responses(
    (status = 200, description = "A page", body = Listing<Event>),
    (status = 400, description = "Not a cursor", body = Problem, content_type = "application/problem+json"),
    (status = 503, description = "The database is away", body = Problem, content_type = "application/problem+json"),
))]
pub(super) async fn events(
    State(app): State<Arc<App>>,
    Query(parameters): Query<EventParameters>,
) -> Response {
    let filter = EventFilter { workload_uid: parameters.workload_uid, kind: parameters.r#type };
    let page = Page { cursor: parameters.cursor, limit: parameters.limit };
    asked(&app, async { app.database.store().await?.events(&filter, &page).await }).await
}

/// Asks the database, as long as that may take; or says that too many do.
async fn ask<T>(
    app: &App,
    question: impl Future<Output = Result<T, Error>>,
) -> Result<Result<T, Error>, Response> {
    let Ok(_place) = app.places.queries.try_acquire() else {
        app.metrics.throttled.add(["queries"], 1);
        let detail = "too many questions wait for the database; try again";
        return Err(Problem::try_again(StatusCode::TOO_MANY_REQUESTS, detail));
    };
    Ok(app.database.within(question).await)
}

async fn asked<T: Serialize>(
    app: &App,
    question: impl Future<Output = Result<T, Error>>,
) -> Response {
    match ask(app, question).await {
        Ok(result) => answer(result),
        Err(busy) => busy,
    }
}

fn answer<T: Serialize>(result: Result<T, Error>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(error @ Error::Cursor { .. }) => {
            Problem::new(StatusCode::BAD_REQUEST, error.to_string()).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "query failed");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
        }
    }
}
