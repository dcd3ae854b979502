//! Reads a training run back, with no more points than asked for.

use crosstalk_training_log::Performance;
use serde::Serialize;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::dialect::Dialect;
use crate::error::Error;
use crate::run::Run;
use crate::sql::{ROWS, Sql};
use crate::store::Store;

/// A series has at most this many points, whatever is asked for.
pub const MAX_POINTS: u32 = 10_000;

/// How many runs of a workload a series lists, the latest ones.
const LISTED_RUNS: i64 = 100;

/// Which series.
#[derive(Clone, Debug)]
pub struct TrainingQuery {
    /// The workload.
    pub workload_uid: String,
    /// The run; the latest where not given.
    pub run: Option<i64>,
    /// Where it comes from.
    pub data_source: String,
    /// The first iteration wanted.
    pub from_iteration: Option<i64>,
    /// The last iteration wanted.
    pub to_iteration: Option<i64>,
    /// At most this many points, and at most [`MAX_POINTS`].
    pub max_points: u32,
}

impl TrainingQuery {
    /// The latest run's log lines, 1000 points.
    pub fn new(workload_uid: &str) -> TrainingQuery {
        TrainingQuery {
            workload_uid: workload_uid.to_owned(),
            run: None,
            data_source: "log".to_owned(),
            from_iteration: None,
            to_iteration: None,
            max_points: 1000,
        }
    }
}

/// A run's iterations, every one or the last of each stretch of equal length.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct TrainingSeries {
    /// The workload.
    pub workload_uid: String,
    /// The run shown; none where the workload has none.
    pub run: Option<i64>,
    /// The workload's latest runs, oldest first.
    pub runs: Vec<RunSummary>,
    /// The pods that reported the run shown, in the order of their UIDs.
    pub reporters: Vec<Reporter>,
    /// Iterations to one point; 1 where none was left out.
    pub iterations_per_point: i64,
    /// The points by iteration.
    pub points: Vec<TrainingPoint>,
}

/// A run in a list.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct RunSummary {
    /// Its number.
    pub serial: i64,
    /// When it was first seen, nanoseconds since 1970.
    pub started_at: i64,
    /// When it was last seen.
    pub last_at: i64,
    /// Its lowest iteration.
    pub first_iteration: Option<i64>,
    /// Its highest iteration.
    pub last_iteration: Option<i64>,
}

/// A pod that reported a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Reporter {
    /// The pod.
    pub pod_uid: String,
    /// The part it plays in the run: `master`, `worker`; none where nobody tells.
    pub replica_role: Option<String>,
    /// Its newest line, nanoseconds since 1970.
    pub last_at: Option<i64>,
}

/// How many pods of a run a series lists.
const LISTED_REPORTERS: i64 = 1000;

/// One iteration as it was reported.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct TrainingPoint {
    /// The iteration.
    pub iteration: i64,
    /// The line's time, nanoseconds since 1970.
    pub created_at: i64,
    /// The pod that reported it.
    pub pod_uid: String,
    /// Its numbers.
    #[schema(value_type = Object)]
    pub performance: Performance,
}

impl Store {
    /// A workload's runs, oldest first; the latest 100.
    ///
    /// # Errors
    /// Where the database cannot be read.
    pub async fn runs(&self, workload_uid: &str) -> Result<Vec<Run>, Error> {
        let mut select = Sql::new(
            self.location.dialect,
            "SELECT serial, started_at, last_at, first_iteration, last_iteration, line_interval FROM training_run WHERE workload_uid = ",
        );
        select.text(workload_uid).push(" ORDER BY serial DESC LIMIT ").int(LISTED_RUNS);
        let failed = self.failed("list training runs");
        let rows = select.fetch(&mut *self.connection().await?).await.map_err(&failed)?;
        let run = |row: &AnyRow| {
            Ok(Run {
                serial: row.try_get(0)?,
                started_at: row.try_get(1)?,
                last_at: row.try_get(2)?,
                first_iteration: row.try_get(3)?,
                last_iteration: row.try_get(4)?,
                line_interval: row.try_get(5)?,
            })
        };
        rows.iter().rev().map(run).collect::<Result<Vec<_>, sqlx::Error>>().map_err(&failed)
    }

    /// A run's series. The number of points is bounded however long the run: the iterations are
    /// divided into stretches of equal length and the last reported of each is shown, as it was,
    /// NaN included.
    ///
    /// # Errors
    /// Where the database cannot be read.
    pub async fn training(&self, query: &TrainingQuery) -> Result<TrainingSeries, Error> {
        let runs = self.runs(&query.workload_uid).await?;
        let serial = query.run.or(runs.last().map(|run| run.serial));
        let listed = runs
            .iter()
            .map(|run| RunSummary {
                serial: run.serial,
                started_at: run.started_at,
                last_at: run.last_at,
                first_iteration: run.first_iteration,
                last_iteration: run.last_iteration,
            })
            .collect();
        let mut series = TrainingSeries {
            workload_uid: query.workload_uid.clone(),
            run: serial,
            runs: listed,
            reporters: Vec::new(),
            iterations_per_point: 1,
            points: Vec::new(),
        };
        if let Some(serial) = serial {
            self.fill(&mut series, query, serial).await?;
        }
        Ok(series)
    }

    async fn fill(
        &self,
        series: &mut TrainingSeries,
        query: &TrainingQuery,
        serial: i64,
    ) -> Result<(), Error> {
        let failed = self.failed("read a training series");
        let mut connection = self.connection().await?;
        let of = Of { dialect: self.location.dialect, query, serial };
        series.reporters = of.reporters(&mut connection).await.map_err(&failed)?;
        let Some((first, last)) = of.bounds(&mut connection).await.map_err(&failed)? else {
            return Ok(());
        };
        series.iterations_per_point = stretch(first, last, query.max_points);
        let shown = of.shown(&mut connection, first, series.iterations_per_point).await;
        // In pieces: planners are good at short lists of keys and poor at joining the table with
        // its own groups.
        for piece in shown.map_err(&failed)?.chunks(ROWS) {
            for row in of.rows(&mut connection, piece).await.map_err(&failed)? {
                series.points.push(self.read_point(&row)?);
            }
        }
        Ok(())
    }

    fn read_point(&self, row: &AnyRow) -> Result<TrainingPoint, Error> {
        let failed = self.failed("read a training series");
        let json: String = row.try_get(3).map_err(&failed)?;
        let performance = serde_json::from_str(&json).map_err(|error| Error::Row {
            location: self.location.shown.clone(),
            table: "training_performance",
            reason: error.to_string(),
        })?;
        Ok(TrainingPoint {
            iteration: row.try_get(0).map_err(&failed)?,
            created_at: row.try_get(1).map_err(&failed)?,
            pod_uid: row.try_get(2).map_err(&failed)?,
            performance,
        })
    }
}

/// The rows of one run and source.
struct Of<'q> {
    dialect: Dialect,
    query: &'q TrainingQuery,
    serial: i64,
}

impl Of<'_> {
    fn select(&self, columns: &str) -> Sql {
        let mut select = Sql::new(self.dialect, "SELECT ");
        select.push(columns).push(" FROM training_performance WHERE workload_uid = ");
        select.text(self.query.workload_uid.as_str()).push(" AND serial = ").int(self.serial);
        select.push(" AND data_source = ").text(self.query.data_source.as_str());
        select
    }

    fn wanted(&self, columns: &str) -> Sql {
        let mut select = self.select(columns);
        select.push(" AND iteration >= ").int(self.query.from_iteration.unwrap_or(i64::MIN));
        select.push(" AND iteration <= ").int(self.query.to_iteration.unwrap_or(i64::MAX));
        select
    }

    async fn reporters(
        &self,
        connection: &mut AnyConnection,
    ) -> Result<Vec<Reporter>, sqlx::Error> {
        let mut select = Sql::new(
            self.dialect,
            "SELECT pod_uid, replica_role, last_at FROM training_reporter WHERE workload_uid = ",
        );
        select.text(self.query.workload_uid.as_str());
        select.push(" AND run_serial = ").int(self.serial);
        select.push(" AND data_source = ").text(self.query.data_source.as_str());
        select.push(" ORDER BY pod_uid LIMIT ").int(LISTED_REPORTERS);
        let reporter = |row: &AnyRow| {
            Ok(Reporter {
                pod_uid: row.try_get(0)?,
                replica_role: row.try_get(1)?,
                last_at: row.try_get(2)?,
            })
        };
        select.fetch(connection).await?.iter().map(reporter).collect()
    }

    /// The first and the last iteration there is of those wanted.
    async fn bounds(
        &self,
        connection: &mut AnyConnection,
    ) -> Result<Option<(i64, i64)>, sqlx::Error> {
        let rows = self.wanted("MIN(iteration), MAX(iteration)").fetch(connection).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (first, last): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        Ok(first.zip(last))
    }

    /// The last iteration of each stretch.
    async fn shown(
        &self,
        connection: &mut AnyConnection,
        first: i64,
        width: i64,
    ) -> Result<Vec<i64>, sqlx::Error> {
        let mut select = self.wanted("MAX(iteration)");
        select.push(" GROUP BY (iteration - ").int(first).push(") ").push(self.dialect.divide());
        select.push(" ").int(width);
        let rows = select.fetch(connection).await?;
        let mut shown = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
        shown.sort_unstable();
        Ok(shown)
    }

    async fn rows(
        &self,
        connection: &mut AnyConnection,
        iterations: &[i64],
    ) -> Result<Vec<AnyRow>, sqlx::Error> {
        let performance = self.dialect.json_text("performance");
        let mut select = self.select(&format!("iteration, created_at, pod_uuid, {performance}"));
        select.push(" AND iteration IN ").ints(iterations).push(" ORDER BY iteration");
        select.fetch(connection).await
    }
}

/// Iterations to a point, so that there are at most so many points.
fn stretch(first: i64, last: i64, points: u32) -> i64 {
    let points = i128::from(points.clamp(1, MAX_POINTS));
    let iterations = i128::from(last) - i128::from(first) + 1;
    i64::try_from((iterations + points - 1) / points).unwrap_or(i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::stretch;

    #[test]
    fn a_stretch_is_as_short_as_the_points_allow() {
        assert_eq!(stretch(1, 1000, 1000), 1);
        assert_eq!(stretch(1, 1001, 1000), 2);
        assert_eq!(stretch(5, 5, 0), 1);
        assert_eq!(stretch(0, i64::MAX, 1), i64::MAX);
    }
}
