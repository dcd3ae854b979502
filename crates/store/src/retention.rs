//! Rows that are old enough go.

use crate::dialect::Dialect;
use crate::error::Error;
use crate::sql::Sql;
use crate::store::Store;

/// A table that grows for as long as there is training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// One row an iteration.
    TrainingPerformance,
    /// What happened to workloads, once each.
    WorkloadEvent,
    /// All of that in order.
    EventStream,
}

/// What one transaction deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// Rows.
    pub rows: u64,
    /// Whether there may be more.
    pub more: bool,
}

/// Rows of one transaction: few enough that nobody waits for it.
const CHUNK: u64 = 5_000;

impl Table {
    /// All of them.
    pub const ALL: [Table; 3] =
        [Table::TrainingPerformance, Table::WorkloadEvent, Table::EventStream];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Table::TrainingPerformance => "training_performance",
            Table::WorkloadEvent => "workload_event",
            Table::EventStream => "event_stream",
        }
    }
}

impl Store {
    /// Deletes rows whose line is from before this time, nanoseconds since 1970: of the oldest as many as one transaction
    /// takes. Workloads and the numbers of their runs stay.
    ///
    /// # Errors
    /// Where the database cannot be written.
    pub async fn prune_some(&self, table: Table, before: i64) -> Result<Pruned, Error> {
        let mut tries = self.tries("delete old rows");
        loop {
            match self.prune_once(table, before).await {
                Ok(rows) => return Ok(Pruned { rows, more: rows >= CHUNK }),
                Err(failure) => tries.after(failure).await?,
            }
        }
    }

    async fn prune_once(&self, table: Table, before: i64) -> Result<u64, sqlx::Error> {
        let dialect = self.location.dialect;
        let name = table.name();
        // Only MySQL can delete a bounded number, and only MySQL cannot choose them in a subquery.
        let mut sql = Sql::new(dialect, &format!("DELETE FROM {name} WHERE "));
        if dialect == Dialect::Mysql {
            sql.push("created_at < ").int(before).push(&format!(" ORDER BY id LIMIT {CHUNK}"));
        } else {
            sql.push(&format!("id IN (SELECT id FROM {name} WHERE created_at < ")).int(before);
            sql.push(&format!(" ORDER BY id LIMIT {CHUNK})"));
        }
        let mut transaction = self.begin().await?;
        let deleted = sql.execute(&mut transaction).await?;
        transaction.commit().await?;
        Ok(deleted)
    }
}
