//! The rows of workloads: made when something is said of one, filled with what is learnt, ended when its pods have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sqlx::AnyConnection;

use crate::dialect::Dialect;
use crate::error::Error;
use crate::record::Observation;
use crate::sql::{ROWS, Sql};
use crate::store::Store;

/// The top controller above a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// Its UID.
    pub uid: String,
    /// Its name, where it is known.
    pub name: Option<String>,
    /// Its kind, where it is known.
    pub kind: Option<String>,
}

/// What observations tell of a workload.
#[derive(Debug, Default)]
pub(crate) struct Row<'o> {
    name: Option<&'o str>,
    namespace: Option<&'o str>,
    kind: Option<&'o str>,
    group_uid: Option<&'o str>,
}

/// What observations tell of their workloads and those above them, in the order of the UIDs.
pub(crate) fn rows<'o>(
    observations: impl Iterator<Item = &'o Observation>,
) -> BTreeMap<&'o str, Row<'o>> {
    let mut rows: BTreeMap<&str, Row<'_>> = BTreeMap::new();
    for observation in observations {
        let namespace = observation.workload_namespace.as_deref();
        let row = rows.entry(&observation.workload_uid).or_default();
        row.name = row.name.or(observation.workload_name.as_deref());
        row.namespace = row.namespace.or(namespace);
        row.kind = row.kind.or(observation.workload_kind.as_deref());
        let Some(group) = &observation.group else { continue };
        // The chain of owners may have been learnt further meanwhile.
        row.group_uid = Some(&group.uid);
        let above = rows.entry(&group.uid).or_default();
        above.name = above.name.or(group.name.as_deref());
        above.namespace = above.namespace.or(namespace);
        above.kind = above.kind.or(group.kind.as_deref());
    }
    rows
}

/// Makes the workloads' rows and keeps them for this transaction, in one order for everybody, so
/// that two writers wait for each other and never in a circle.
pub(crate) async fn lock(
    connection: &mut AnyConnection,
    dialect: Dialect,
    rows: &BTreeMap<&str, Row<'_>>,
) -> Result<(), sqlx::Error> {
    let rows: Vec<_> = rows.iter().collect();
    for chunk in rows.chunks(ROWS) {
        let mut insert = Sql::new(
            dialect,
            "INSERT INTO workload (uid, name, namespace, kind, group_uid) VALUES ",
        );
        insert.rows(chunk, |sql, (uid, row)| {
            sql.text(**uid).push(", ").text(row.name).push(", ").text(row.namespace);
            sql.push(", ").text(row.kind).push(", ").text(row.group_uid);
        });
        insert.push(dialect.or_fill_workload());
        insert.execute(connection).await?;
    }
    for chunk in rows.chunks(ROWS) {
        let mut select = Sql::new(dialect, "SELECT uid FROM workload WHERE uid IN ");
        select
            .texts(chunk.iter().map(|(uid, _)| **uid))
            .push(" ORDER BY uid")
            .push(dialect.for_update());
        select.fetch(connection).await?;
    }
    Ok(())
}

impl Store {
    /// Notes when workloads started (nanoseconds since 1970): the first time noted stands. A workload that was never seen
    /// stays so.
    ///
    /// # Errors
    /// Where the database cannot be written; then nothing was.
    pub async fn note_starts(&self, started: &[(&str, i64)]) -> Result<(), Error> {
        let mut tries = self.tries("note when workloads started");
        loop {
            match self.note_starts_once(started).await {
                Ok(()) => return Ok(()),
                Err(failure) => tries.after(failure).await?,
            }
        }
    }

    async fn note_starts_once(&self, started: &[(&str, i64)]) -> Result<(), sqlx::Error> {
        let mut transaction = self.begin().await?;
        for chunk in started.chunks(ROWS) {
            let mut update =
                times(self.location.dialect, "UPDATE workload SET started_at = CASE uid", chunk);
            update.push(" END WHERE started_at IS NULL AND uid IN ");
            update.texts(chunk.iter().map(|(uid, _)| *uid));
            update.execute(&mut transaction).await?;
        }
        transaction.commit().await
    }

    /// Notes which workloads have ended, and when (nanoseconds since 1970), and which go on. A
    /// workload that was never seen, or is noted so already, stays as it is.
    ///
    /// # Errors
    /// Where the database cannot be written; then nothing was.
    pub async fn note_ends(&self, going_on: &[&str], ended: &[(&str, i64)]) -> Result<(), Error> {
        let mut tries = self.tries("note which workloads have ended");
        loop {
            match self.note_ends_once(going_on, ended).await {
                Ok(()) => return Ok(()),
                Err(failure) => tries.after(failure).await?,
            }
        }
    }

    async fn note_ends_once(
        &self,
        going_on: &[&str],
        ended: &[(&str, i64)],
    ) -> Result<(), sqlx::Error> {
        let dialect = self.location.dialect;
        let mut transaction = self.begin().await?;
        for chunk in going_on.chunks(ROWS) {
            let mut update = Sql::new(
                dialect,
                "UPDATE workload SET ended_at = NULL WHERE ended_at IS NOT NULL AND uid IN ",
            );
            update.texts(chunk.iter().copied());
            update.execute(&mut transaction).await?;
        }
        for chunk in ended.chunks(ROWS) {
            let mut update = times(dialect, "UPDATE workload SET ended_at = CASE uid", chunk);
            update.push(" END WHERE ended_at IS NULL AND uid IN ");
            update.texts(chunk.iter().map(|(uid, _)| *uid));
            update.execute(&mut transaction).await?;
        }
        transaction.commit().await
    }
}

/// The beginning of a statement that gives each of these its time.
fn times(dialect: Dialect, beginning: &str, times: &[(&str, i64)]) -> Sql {
    let mut update = Sql::new(dialect, beginning);
    for (uid, at) in times {
        update.push(" WHEN ").text(*uid).push(" THEN ").int(*at);
    }
    update
}
