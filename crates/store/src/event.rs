//! Events: what happened to a workload, once each, and the stream of all of them in order.

use std::collections::HashSet;

use crosstalk_training_log::Anomaly;
use serde::{Deserialize, Serialize};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::dialect::Dialect;
use crate::error::Error;
use crate::sql::{ROWS, Sql};
use crate::store::{Listing, Page, Store};

/// Unique indexes do not hold for absent values, so an event without an iteration has this one in
/// `workload_event`; `event_stream` has it absent.
const NO_ITERATION: i64 = -1;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    TrainingStart,
    NanLoss,
    SkippedIterations,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::TrainingStart => "training_start",
            Kind::NanLoss => Anomaly::NanLoss.name(),
            Kind::SkippedIterations => Anomaly::SkippedIterations.name(),
        }
    }
}

impl From<Anomaly> for Kind {
    fn from(anomaly: Anomaly) -> Kind {
        match anomaly {
            Anomaly::NanLoss => Kind::NanLoss,
            Anomaly::SkippedIterations => Kind::SkippedIterations,
        }
    }
}

/// An event to be written.
#[derive(Clone, Debug)]
pub(crate) struct NewEvent {
    pub(crate) workload_uid: String,
    pub(crate) kind: Kind,
    pub(crate) run_serial: i64,
    pub(crate) iteration: Option<i64>,
    pub(crate) pod_uid: Option<String>,
    pub(crate) nearest_workload_uid: Option<String>,
    pub(crate) at: i64,
}

/// An event of the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Event {
    /// Its place in the stream.
    pub id: i64,
    /// What happened: `training_start`, `nan_loss`, `skipped_iterations`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The workload it happened to.
    pub workload_uid: Option<String>,
    /// The pod that said so.
    pub pod_uid: Option<String>,
    /// The training run.
    pub run_serial: Option<i64>,
    /// The iteration.
    pub iteration: Option<i64>,
    /// More about it.
    pub message: Option<String>,
    /// When, nanoseconds since 1970.
    pub created_at: i64,
}

/// Which events.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct EventFilter {
    /// Of this workload only.
    pub workload_uid: Option<String>,
    /// Of this type only.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

impl Store {
    /// Events, the newest first. A cursor stays right while new events come in.
    ///
    /// # Errors
    /// Where the cursor is not one, or the database cannot be read.
    pub async fn events(&self, filter: &EventFilter, page: &Page) -> Result<Listing<Event>, Error> {
        let before = page.cursor.as_deref().map(read_cursor).transpose()?;
        let mut select = Sql::new(
            self.location.dialect,
            "SELECT id, type, workload_uid, pod_uid, run_serial, iteration, message, created_at \
             FROM event_stream WHERE id < ",
        );
        select.int(before.unwrap_or(i64::MAX));
        if let Some(uid) = &filter.workload_uid {
            select.push(" AND workload_uid = ").text(uid.as_str());
        }
        if let Some(kind) = &filter.kind {
            select.push(" AND type = ").text(kind.as_str());
        }
        select.push(" ORDER BY id DESC LIMIT ").int(page.limit() + 1);
        let rows = select
            .fetch(&mut *self.connection().await?)
            .await
            .map_err(self.failed("list events"))?;
        let events = rows.iter().map(read_event).collect::<Result<Vec<_>, _>>();
        let events = events.map_err(self.failed("list events"))?;
        Ok(Listing::of(events, page.limit(), |event| event.id.to_string()))
    }
}

fn read_cursor(cursor: &str) -> Result<i64, Error> {
    cursor.parse().map_err(|_| Error::Cursor { cursor: cursor.chars().take(64).collect() })
}

fn read_event(row: &AnyRow) -> Result<Event, sqlx::Error> {
    Ok(Event {
        id: row.try_get(0)?,
        kind: row.try_get(1)?,
        workload_uid: row.try_get(2)?,
        pod_uid: row.try_get(3)?,
        run_serial: row.try_get(4)?,
        iteration: row.try_get(5)?,
        message: row.try_get(6)?,
        created_at: row.try_get(7)?,
    })
}

type Key<'a> = (&'a str, Kind, i64, i64);

fn key(event: &NewEvent) -> Key<'_> {
    (&event.workload_uid, event.kind, event.run_serial, event.iteration.unwrap_or(NO_ITERATION))
}

/// Writes the events that are not there yet and returns their kinds. The caller holds the
/// workloads, so nobody else writes their events meanwhile.
pub(crate) async fn insert_new(
    connection: &mut AnyConnection,
    dialect: Dialect,
    events: &[NewEvent],
) -> Result<Vec<Kind>, sqlx::Error> {
    let mut known = HashSet::new();
    let mut new: Vec<&NewEvent> = Vec::new();
    for event in events {
        if known.insert(key(event)) {
            new.push(event);
        }
    }
    let mut stored: HashSet<(String, String, i64, i64)> = HashSet::new();
    for chunk in new.chunks(ROWS) {
        let mut select = Sql::new(
            dialect,
            "SELECT workload_uid, type, run_serial, iteration FROM workload_event WHERE ",
        );
        for (index, event) in chunk.iter().enumerate() {
            let (uid, kind, serial, iteration) = key(event);
            select
                .push(if index > 0 { " OR (workload_uid = " } else { "(workload_uid = " })
                .text(uid);
            select.push(" AND type = ").text(kind.name()).push(" AND run_serial = ").int(serial);
            select.push(" AND iteration = ").int(iteration).push(")");
        }
        for row in select.fetch(connection).await? {
            stored.insert((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?));
        }
    }
    new.retain(|event| {
        let (uid, kind, serial, iteration) = key(event);
        !stored.contains(&(uid.to_owned(), kind.name().to_owned(), serial, iteration))
    });
    for chunk in new.chunks(ROWS) {
        insert(connection, dialect, chunk).await?;
    }
    Ok(new.iter().map(|event| event.kind).collect())
}

async fn insert(
    connection: &mut AnyConnection,
    dialect: Dialect,
    events: &[&NewEvent],
) -> Result<(), sqlx::Error> {
    let mut insert = Sql::new(
        dialect,
        "INSERT INTO workload_event \
         (workload_uid, type, run_serial, iteration, pod_uid, nearest_workload_uid, created_at) VALUES ",
    );
    insert.rows(events, |sql, event| {
        let (uid, kind, serial, iteration) = key(event);
        sql.text(uid).push(", ").text(kind.name()).push(", ").int(serial).push(", ").int(iteration);
        sql.push(", ")
            .text(event.pod_uid.as_deref())
            .push(", ")
            .text(event.nearest_workload_uid.as_deref());
        sql.push(", ").int(event.at);
    });
    insert.execute(connection).await?;
    let mut stream = Sql::new(
        dialect,
        "INSERT INTO event_stream (workload_uid, type, run_serial, iteration, pod_uid, created_at) VALUES ",
    );
    stream.rows(events, |sql, event| {
        sql.text(event.workload_uid.as_str())
            .push(", ")
            .text(event.kind.name())
            .push(", ")
            .int(event.run_serial);
        sql.push(", ")
            .int(event.iteration)
            .push(", ")
            .text(event.pod_uid.as_deref())
            .push(", ")
            .int(event.at);
    });
    stream.execute(connection).await?;
    Ok(())
}
