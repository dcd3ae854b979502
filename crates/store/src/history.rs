//! Keeps what is known of a workload's runs between batches.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::{AnyConnection, Row};

use crate::dialect::Dialect;
use crate::record::Dated;
use crate::run::{History, Progress, Run};
use crate::sql::{ROWS, Sql};

/// Runs of a workload that late lines can still find; older lines go to the oldest of these.
const REMEMBERED_RUNS: i64 = 16;

/// Stands for the last iteration of a reporter that has only started.
const NO_ITERATION: i64 = -1;

pub(crate) async fn load(
    connection: &mut AnyConnection,
    dialect: Dialect,
    workloads: &BTreeMap<&str, Vec<Dated<'_>>>,
) -> Result<HashMap<String, History>, sqlx::Error> {
    let uids: Vec<&str> = workloads.keys().copied().collect();
    let mut runs: HashMap<String, Vec<Run>> = HashMap::new();
    let mut reporters: HashMap<String, Vec<(i64, String, Progress)>> = HashMap::new();
    for chunk in uids.chunks(ROWS) {
        let mut select = Sql::new(
            dialect,
            "SELECT r.workload_uid, r.serial, r.started_at, r.last_at, r.first_iteration, r.last_iteration, r.line_interval \
             FROM training_run r WHERE r.workload_uid IN ",
        );
        select.texts(chunk.iter().copied());
        select.push(" AND r.serial > (SELECT MAX(m.serial) FROM training_run m WHERE m.workload_uid = r.workload_uid) - ");
        select.int(REMEMBERED_RUNS);
        for row in select.fetch(connection).await? {
            let run = Run {
                serial: row.try_get(1)?,
                started_at: row.try_get(2)?,
                last_at: row.try_get(3)?,
                first_iteration: row.try_get(4)?,
                last_iteration: row.try_get(5)?,
                line_interval: row.try_get(6)?,
            };
            runs.entry(row.try_get(0)?).or_default().push(run);
        }
        let pods: BTreeSet<&str> = chunk
            .iter()
            .flat_map(|uid| &workloads[uid])
            .map(|dated| dated.observation.pod_uid.as_str())
            .collect();
        for pods in pods.into_iter().collect::<Vec<_>>().chunks(ROWS) {
            let mut select = Sql::new(
                dialect,
                "SELECT p.workload_uid, p.run_serial, p.pod_uid, p.data_source, p.last_iteration, p.last_at, p.start_at \
                 FROM training_reporter p WHERE p.workload_uid IN ",
            );
            select
                .texts(chunk.iter().copied())
                .push(" AND p.pod_uid IN ")
                .texts(pods.iter().copied());
            select.push(" AND p.run_serial > (SELECT MAX(m.serial) FROM training_run m WHERE m.workload_uid = p.workload_uid) - ");
            select.int(REMEMBERED_RUNS);
            for row in select.fetch(connection).await? {
                let (pod, source): (String, String) = (row.try_get(2)?, row.try_get(3)?);
                let last_iteration: i64 = row.try_get(4)?;
                let progress = Progress {
                    last_iteration: Some(last_iteration).filter(|last| *last != NO_ITERATION),
                    // Rows of tables before version 2 have no time.
                    last_at: row.try_get::<Option<i64>, _>(5)?.unwrap_or_default(),
                    start_at: row.try_get(6)?,
                };
                let entry = (row.try_get(1)?, format!("{pod}\0{source}"), progress);
                reporters.entry(row.try_get(0)?).or_default().push(entry);
            }
        }
    }
    let history = |(uid, runs): (String, Vec<Run>)| {
        let reporters = reporters.remove(&uid).unwrap_or_default();
        (uid, History::new(runs, reporters))
    };
    Ok(runs.into_iter().map(history).collect())
}

pub(crate) async fn save(
    connection: &mut AnyConnection,
    dialect: Dialect,
    histories: &HashMap<String, History>,
    roles: &HashMap<(&str, &str), &str>,
) -> Result<(), sqlx::Error> {
    let runs: Vec<(&str, &Run)> = histories
        .iter()
        .flat_map(|(uid, history)| history.touched().map(move |run| (uid.as_str(), run)))
        .collect();
    for chunk in runs.chunks(ROWS) {
        let mut insert = Sql::new(
            dialect,
            "INSERT INTO training_run (workload_uid, serial, started_at, last_at, first_iteration, last_iteration, line_interval) VALUES ",
        );
        insert.rows(chunk, |sql, (uid, run)| {
            sql.text(*uid)
                .push(", ")
                .int(run.serial)
                .push(", ")
                .int(run.started_at)
                .push(", ")
                .int(run.last_at);
            sql.push(", ").int(run.first_iteration).push(", ").int(run.last_iteration);
            sql.push(", ").int(run.line_interval);
        });
        insert.push(&dialect.or_update(
            "workload_uid, serial",
            &["started_at", "last_at", "first_iteration", "last_iteration", "line_interval"],
        ));
        insert.execute(connection).await?;
    }
    let reporters: Vec<_> = histories
        .iter()
        .flat_map(|(uid, history)| {
            history.touched_reporters().map(move |reporter| (uid.as_str(), reporter))
        })
        .collect();
    for chunk in reporters.chunks(ROWS) {
        let mut insert = Sql::new(
            dialect,
            "INSERT INTO training_reporter (workload_uid, run_serial, pod_uid, data_source, last_iteration, last_at, start_at, replica_role) VALUES ",
        );
        insert.rows(chunk, |sql, (uid, (serial, name, progress))| {
            let (pod, source) = name.split_once('\0').unwrap_or((name, ""));
            sql.text(*uid).push(", ").int(*serial).push(", ").text(pod).push(", ").text(source);
            sql.push(", ").int(progress.last_iteration.unwrap_or(NO_ITERATION));
            sql.push(", ").int(progress.last_at).push(", ").int(progress.start_at);
            sql.push(", ").text(roles.get(&(*uid, pod)).copied());
        });
        insert.push(dialect.or_update_reporter());
        insert.execute(connection).await?;
    }
    Ok(())
}
