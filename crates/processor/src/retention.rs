//! Old rows go, once an hour.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crosstalk_store::{Error, Table};
use tokio::sync::watch;

use crate::config::Retention;
use crate::database::Database;

/// Time between two looks for old rows.
const PERIOD: Duration = Duration::from_secs(3600);

/// Deletes what is older than `retention` allows, until shutdown.
pub(crate) async fn run(
    retention: Retention,
    database: Arc<Database>,
    mut stopping: watch::Receiver<bool>,
) {
    while retention.limited().next().is_some() {
        let round = async {
            prune(&retention, &database).await;
            tokio::time::sleep(PERIOD).await;
        };
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => return,
            () = round => {}
        }
    }
}

async fn prune(retention: &Retention, database: &Database) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    for (table, kept) in retention.limited() {
        let before = now.saturating_sub(kept).as_nanos() as i64;
        match prune_table(database, table, before).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(table = table.name(), rows, "old rows are deleted"),
            Err(error) => {
                tracing::error!(table = table.name(), %error, "cannot delete old rows; will try in an hour");
            }
        }
    }
}

/// Deletes some rows after the other. Each time has a deadline of its own: all of it may take long, but a connection on which
/// nothing is heard must not hold it for ever.
async fn prune_table(database: &Database, table: Table, before: i64) -> Result<u64, Error> {
    let mut rows = 0;
    loop {
        let some = async { database.store().await?.prune_some(table, before).await };
        let pruned = database.within(some).await?;
        rows += pruned.rows;
        if !pruned.more {
            return Ok(rows);
        }
    }
}
