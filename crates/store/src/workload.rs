//! Lists workloads.

use serde::Serialize;
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::error::Error;
use crate::sql::Sql;
use crate::store::{Listing, Page, Store};

/// A workload in a list, with its latest training run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct WorkloadSummary {
    /// Its UID.
    pub uid: String,
    /// Its name, where it is known.
    pub name: Option<String>,
    /// Its namespace, where it is known.
    pub namespace: Option<String>,
    /// Its kind, where it is known.
    pub kind: Option<String>,
    /// The top controller above it, where it is not the top itself.
    pub group_uid: Option<String>,
    /// When it was made, nanoseconds since 1970.
    pub created_at: Option<i64>,
    /// When the first of its pods was taken on by a node, as far as anybody tells.
    pub started_at: Option<i64>,
    /// When the last of its pods ended; none while there is one, or where nobody tells.
    pub ended_at: Option<i64>,
    /// Its latest run.
    pub run: Option<i64>,
    /// When that was last seen.
    pub last_at: Option<i64>,
    /// That run's highest iteration.
    pub last_iteration: Option<i64>,
}

impl Store {
    /// Workloads in the order of their UIDs.
    ///
    /// # Errors
    /// Where the database cannot be read.
    pub async fn workloads(&self, page: &Page) -> Result<Listing<WorkloadSummary>, Error> {
        self.workloads_of(None, page).await
    }

    /// Workloads below this top controller, or all, in the order of their UIDs.
    ///
    /// # Errors
    /// Where the database cannot be read.
    pub async fn workloads_of(
        &self,
        group_uid: Option<&str>,
        page: &Page,
    ) -> Result<Listing<WorkloadSummary>, Error> {
        let mut select = Sql::new(self.location.dialect, SUMMARY);
        select.push(" WHERE w.uid > ").text(page.cursor.as_deref().unwrap_or_default());
        if let Some(group_uid) = group_uid {
            select.push(" AND w.group_uid = ").text(group_uid);
        }
        select.push(" ORDER BY w.uid LIMIT ").int(page.limit() + 1);
        let workloads = self.summaries(select).await?;
        Ok(Listing::of(workloads, page.limit(), |workload| workload.uid.clone()))
    }

    /// One workload; none where it was never seen.
    ///
    /// # Errors
    /// Where the database cannot be read.
    pub async fn workload(&self, uid: &str) -> Result<Option<WorkloadSummary>, Error> {
        let mut select = Sql::new(self.location.dialect, SUMMARY);
        select.push(" WHERE w.uid = ").text(uid);
        Ok(self.summaries(select).await?.pop())
    }

    async fn summaries(&self, select: Sql) -> Result<Vec<WorkloadSummary>, Error> {
        let failed = self.failed("list workloads");
        let rows = select.fetch(&mut *self.connection().await?).await.map_err(&failed)?;
        rows.iter().map(read).collect::<Result<_, _>>().map_err(&failed)
    }
}

const SUMMARY: &str = "SELECT w.uid, w.name, w.namespace, w.kind, w.group_uid, w.created_at, w.started_at, w.ended_at, r.serial, r.last_at, r.last_iteration \
     FROM workload w LEFT JOIN training_run r ON r.workload_uid = w.uid \
     AND r.serial = (SELECT MAX(m.serial) FROM training_run m WHERE m.workload_uid = w.uid)";

fn read(row: &AnyRow) -> Result<WorkloadSummary, sqlx::Error> {
    Ok(WorkloadSummary {
        uid: row.try_get(0)?,
        name: row.try_get(1)?,
        namespace: row.try_get(2)?,
        kind: row.try_get(3)?,
        group_uid: row.try_get(4)?,
        created_at: row.try_get(5)?,
        started_at: row.try_get(6)?,
        ended_at: row.try_get(7)?,
        run: row.try_get(8)?,
        last_at: row.try_get(9)?,
        last_iteration: row.try_get(10)?,
    })
}
