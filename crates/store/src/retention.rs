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
    /// Deletes the rows whose line is from before this time, nanoseconds since 1970, and says how many there were.
    /// Workloads and the numbers of their runs stay.
    ///
    /// # Errors
    /// Where the database cannot be written; a part of them may be gone then.
    pub async fn prune(&self, table: Table, before: i64) -> Result<u64, Error> {
        let mut deleted = 0;
        loop {
            let mut tries = self.tries("delete old rows");
            let chunk = loop {
                match self.prune_once(table, before).await {
                    Ok(chunk) => break chunk,
                    Err(failure) => tries.after(failure).await?,
                }
            };
            deleted += chunk;
            if chunk < CHUNK {
                return Ok(deleted);
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
