//! What a body of logs held on its way to disk, and the answer to its sender.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use crosstalk_serve::Problem;
use serde::Serialize;

use super::App;
use crate::ingest::IngestError;
use crate::logs::forward::LogTarget;
use crate::logs::spool::Written;
use crate::logs::{Batch, RejectedRecord};
use crate::queue::{Block, QueueError, Reservation};

/// What became of the records.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct LogAnswer {
    /// Records taken.
    accepted: usize,
    /// Records that could not be read or stored.
    rejected: usize,
    /// Iterations stored.
    iterations: u64,
    /// Training lines that are on disk and wait for the database.
    waiting: usize,
    /// Why some were rejected.
    reasons: Vec<RejectedRecord>,
}

/// Why a body is not on disk: the queue that says so, and what it says.
struct NotQueued {
    queue: String,
    cause: QueueError,
}

impl NotQueued {
    fn by(queue: &str) -> impl FnOnce(QueueError) -> NotQueued + '_ {
        move |cause| NotQueued { queue: queue.to_owned(), cause }
    }
}

impl From<IngestError> for NotQueued {
    fn from(error: IngestError) -> NotQueued {
        match error {
            IngestError::Full { endpoint: queue, source: cause }
            | IngestError::TooLarge { endpoint: queue, source: cause }
            | IngestError::Disk { endpoint: queue, source: cause } => NotQueued { queue, cause },
            // Series that were made here are neither refused nor waited for.
            other => NotQueued { queue: other.to_string(), cause: QueueError::Closed },
        }
    }
}

/// Answers a sender when what its body held is on disk.
pub(super) async fn store(app: &App, mut batch: Batch) -> Response {
    batch.reject_what_cannot_be_stored(&app.metrics);
    let written = match queue(app, &batch).await {
        Ok(written) => written,
        Err(not_queued) => return not_queued_answer(app, &not_queued),
    };
    let waiting = if written.is_none() { batch.observations.len() } else { 0 };
    let written = written.unwrap_or_default();
    for (observation, reason) in written.rejected {
        batch.reject_observation(observation, reason);
    }
    let status = match (batch.accepted, batch.rejected) {
        (0, 1..) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    let answer = LogAnswer {
        accepted: batch.accepted,
        rejected: batch.rejected,
        iterations: written.iterations,
        waiting,
        reasons: std::mem::take(&mut batch.examples),
    };
    (status, Json(answer)).into_response()
}

/// Puts a body into the queue of the database, as series into those of the endpoints, and into those of the log stores; `None`
/// where the database has not taken it yet.
///
/// Where the database's queue has no room, nobody gets anything, and of the log stores all do or none: the sender will send it
/// again. But log stores without room keep nothing from the database and the endpoints, for which what comes again is the same.
async fn queue(app: &App, batch: &Batch) -> Result<Option<Written>, NotQueued> {
    let observations = &batch.observations;
    let pending = match observations.is_empty() {
        true => None,
        false => {
            Some(app.spool.reserve(observations).map_err(NotQueued::by("queue of log lines"))?)
        }
    };
    let (stores, refused) = match reserve_log_stores(app, batch) {
        Ok(stores) => (stores, Ok(())),
        Err(refused) => (Vec::new(), Err(refused)),
    };
    let (series, left_out) = match app.config.logs.series && !app.ingest.targets().is_empty() {
        true => app.logs.series(batch),
        false => Default::default(),
    };
    let job = &app.config.enrichment.job;
    let reserved = app.ingest.reserve_own(|encoder| series.encode(job, encoder));
    let written = async {
        match pending {
            Some(pending) => {
                app.spool.append(pending).await.map_err(NotQueued::by("queue of log lines"))
            }
            None => Ok(Some(Written::default())),
        }
    };
    let sent = async { reserved.write().await.map_err(NotQueued::from) };
    let (written, sent, stored) = tokio::join!(written, sent, write(stores));
    sent?;
    app.metrics.dropped_samples.add(["late"], left_out.late);
    app.metrics.dropped_samples.add(["ahead"], left_out.ahead);
    app.logs.note_sent(&series);
    stored?;
    refused?;
    written
}

type Room<'a> = (&'a LogTarget, Reservation, Vec<Block>);

/// Room for a body in the queues of all log stores, or in none.
fn reserve_log_stores<'a>(app: &'a App, batch: &Batch) -> Result<Vec<Room<'a>>, NotQueued> {
    let mut stores = Vec::with_capacity(app.log_targets.len());
    for (target, bodies) in app.log_targets.iter().zip(&batch.forwards) {
        if !bodies.is_empty() {
            let (room, blocks) = target.reserve(bodies).map_err(NotQueued::by(&target.name))?;
            stores.push((target, room, blocks));
        }
    }
    Ok(stores)
}

async fn write(stores: Vec<Room<'_>>) -> Result<(), NotQueued> {
    let mut waiting = Vec::with_capacity(stores.len());
    for (target, room, blocks) in stores {
        let queue = target.queue.clone();
        let append = tokio::spawn(async move { queue.append_all(room, blocks).await });
        waiting.push((target, append));
    }
    for (target, append) in waiting {
        let appended = append.await.expect("appending does not panic");
        appended.map_err(NotQueued::by(&target.name))?;
    }
    Ok(())
}

/// The sender keeps the lines and tries again, unless they could never be taken.
fn not_queued_answer(app: &App, NotQueued { queue, cause }: &NotQueued) -> Response {
    let detail = format!("{queue}: {cause}");
    match cause {
        QueueError::Full { .. } => {
            app.metrics.throttled.add(["queue"], 1);
            Problem::try_again(StatusCode::TOO_MANY_REQUESTS, &detail)
        }
        QueueError::TooLarge { .. } => {
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail).into_response()
        }
        _ => {
            tracing::error!(error = %cause, queue, "cannot queue log lines");
            Problem::try_again(StatusCode::SERVICE_UNAVAILABLE, &detail)
        }
    }
}
