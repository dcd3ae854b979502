//! Writes what logs say about training: runs, iterations, events.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crosstalk_training_log::Performance;
use sqlx::{AnyConnection, Row};

use crate::dialect::Dialect;
use crate::error::Error;
use crate::event::{self, NewEvent};
use crate::run::{History, Run, Seen};
use crate::sql::{ROWS, Sql};
use crate::store::Store;

/// Runs of a workload that late lines can still find; older lines go to the oldest of these.
const REMEMBERED_RUNS: i64 = 16;

/// Something a log line says about training.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The workload.
    pub workload_uid: String,
    /// Its name, where it is known.
    pub workload_name: Option<String>,
    /// The pod whose line it is.
    pub pod_uid: String,
    /// The pod's nearest owner, where that is not the workload itself.
    pub nearest_workload_uid: Option<String>,
    /// Where it comes from: `log` for log lines.
    pub data_source: String,
    /// The line's time, nanoseconds since 1970.
    pub at: i64,
    /// What it says.
    pub sighting: Sighting,
}

/// What a line says.
#[derive(Clone, Debug)]
pub enum Sighting {
    /// Training starts.
    Start,
    /// The numbers of an iteration. Must have an iteration.
    Performance(Box<Performance>),
}

/// What became of a batch.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Iterations written, new or again.
    pub iterations: u64,
    /// Runs opened.
    pub runs_opened: u64,
    /// Events that were not there before, by type.
    pub events: BTreeMap<&'static str, u64>,
    /// Observations that cannot be stored; the others were.
    pub rejected: Vec<Rejected>,
}

/// An observation that cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its place in the batch.
    pub index: usize,
    /// Why.
    pub reason: String,
}

impl Store {
    /// Writes a batch in one transaction. When this returns, all of it is durable but what it
    /// lists as rejected. The same batch again changes nothing.
    ///
    /// # Errors
    /// Where the database cannot be written; then nothing of the batch was.
    pub async fn record(&self, batch: &[Observation]) -> Result<Recorded, Error> {
        let mut rejected = Vec::new();
        let mut workloads: BTreeMap<&str, Vec<&Observation>> = BTreeMap::new();
        for (index, observation) in batch.iter().enumerate() {
            match check(observation) {
                Ok(()) => workloads.entry(&observation.workload_uid).or_default().push(observation),
                Err(reason) => rejected.push(Rejected { index, reason }),
            }
        }
        for observations in workloads.values_mut() {
            observations.sort_by_key(|observation| observation.at);
        }
        if workloads.is_empty() {
            return Ok(Recorded { rejected, ..Recorded::default() });
        }
        let mut tries = self.tries("record training");
        loop {
            match self.record_once(&workloads).await {
                Ok(recorded) => return Ok(Recorded { rejected, ..recorded }),
                Err(failure) => tries.after(failure).await?,
            }
        }
    }

    async fn record_once(
        &self,
        workloads: &BTreeMap<&str, Vec<&Observation>>,
    ) -> Result<Recorded, sqlx::Error> {
        let dialect = self.location.dialect;
        let mut transaction = self.begin().await?;
        let connection = &mut *transaction;
        lock_workloads(connection, dialect, workloads).await?;
        let mut histories = load_histories(connection, dialect, workloads).await?;

        let mut recorded = Recorded::default();
        let mut rows: BTreeMap<RowKey<'_>, (&Observation, String)> = BTreeMap::new();
        let mut events = Vec::new();
        for (uid, observations) in workloads {
            let history = histories.entry((*uid).to_owned()).or_default();
            for observation in observations {
                let assigned =
                    history.assign(&reporter(observation), observation.at, seen(observation));
                recorded.runs_opened += u64::from(assigned.opened);
                events.extend(events_of(observation, assigned.serial));
                if let (Sighting::Performance(performance), Seen::Iteration(iteration)) =
                    (&observation.sighting, seen(observation))
                {
                    let json =
                        serde_json::to_string(performance).unwrap_or_else(|_| "{}".to_owned());
                    let key = (*uid, assigned.serial, observation.data_source.as_str(), iteration);
                    rows.insert(key, (observation, json));
                }
            }
        }
        save_histories(connection, dialect, &histories).await?;
        save_rows(connection, dialect, &rows).await?;
        let new = event::insert_new(connection, dialect, &events).await?;
        for event in new {
            *recorded.events.entry(event.name()).or_default() += 1;
        }
        transaction.commit().await?;
        recorded.iterations = rows.len() as u64;
        Ok(recorded)
    }
}

type RowKey<'a> = (&'a str, i64, &'a str, i64);

/// Who reports: a pod may send its log and something else, each at its own pace.
fn reporter(observation: &Observation) -> String {
    format!("{}\0{}", observation.pod_uid, observation.data_source)
}

fn seen(observation: &Observation) -> Seen {
    match &observation.sighting {
        Sighting::Start => Seen::Start,
        Sighting::Performance(performance) => {
            let iteration = performance.iteration().unwrap_or_default();
            Seen::Iteration(i64::try_from(iteration).unwrap_or(i64::MAX))
        }
    }
}

fn events_of(observation: &Observation, serial: i64) -> Vec<NewEvent> {
    let event = |kind, iteration| NewEvent {
        workload_uid: observation.workload_uid.clone(),
        kind,
        run_serial: serial,
        iteration,
        pod_uid: Some(observation.pod_uid.clone()),
        nearest_workload_uid: observation.nearest_workload_uid.clone(),
        at: observation.at,
    };
    match (&observation.sighting, seen(observation)) {
        (Sighting::Performance(performance), Seen::Iteration(iteration)) => performance
            .anomalies()
            .map(|anomaly| event(event::Kind::from(anomaly), Some(iteration)))
            .collect(),
        _ => vec![event(event::Kind::TrainingStart, None)],
    }
}

/// What every database here can hold.
fn check(observation: &Observation) -> Result<(), String> {
    let texts = [
        ("workload UID", observation.workload_uid.as_str(), 255),
        ("workload name", observation.workload_name.as_deref().unwrap_or("-"), 255),
        ("pod UID", observation.pod_uid.as_str(), 255),
        ("nearest workload UID", observation.nearest_workload_uid.as_deref().unwrap_or("-"), 255),
        ("data source", observation.data_source.as_str(), 64),
    ];
    for (what, text, limit) in texts {
        check_text(what, text, limit)?;
    }
    match &observation.sighting {
        Sighting::Performance(performance) if performance.iteration().is_none() => {
            Err("no iteration number".to_owned())
        }
        _ => Ok(()),
    }
}

pub(crate) fn check_text(what: &str, text: &str, limit: usize) -> Result<(), String> {
    match text {
        "" => Err(format!("{what} is empty")),
        text if text.contains('\0') => Err(format!("{what} holds a zero byte")),
        text if text.chars().count() > limit => {
            Err(format!("{what} is longer than {limit} characters"))
        }
        _ => Ok(()),
    }
}

/// Makes the workloads' rows and keeps them for this transaction, in one order for everybody, so
/// that two writers wait for each other and never in a circle.
async fn lock_workloads(
    connection: &mut AnyConnection,
    dialect: Dialect,
    workloads: &BTreeMap<&str, Vec<&Observation>>,
) -> Result<(), sqlx::Error> {
    let items: Vec<_> = workloads
        .iter()
        .map(|(uid, observations)| {
            (*uid, observations.iter().find_map(|o| o.workload_name.as_deref()))
        })
        .collect();
    for chunk in items.chunks(ROWS) {
        let mut insert = Sql::new(dialect, "INSERT INTO workload (uid, name) VALUES ");
        insert.rows(chunk, |sql, (uid, name)| {
            sql.text(*uid).push(", ").text(*name);
        });
        insert.push(dialect.or_name_workload());
        insert.execute(connection).await?;
    }
    for chunk in items.chunks(ROWS) {
        let mut select = Sql::new(dialect, "SELECT uid FROM workload WHERE uid IN ");
        select
            .texts(chunk.iter().map(|(uid, _)| *uid))
            .push(" ORDER BY uid")
            .push(dialect.for_update());
        select.fetch(connection).await?;
    }
    Ok(())
}

async fn load_histories(
    connection: &mut AnyConnection,
    dialect: Dialect,
    workloads: &BTreeMap<&str, Vec<&Observation>>,
) -> Result<HashMap<String, History>, sqlx::Error> {
    let uids: Vec<&str> = workloads.keys().copied().collect();
    let mut runs: HashMap<String, Vec<Run>> = HashMap::new();
    let mut reporters: HashMap<String, Vec<(i64, String, i64)>> = HashMap::new();
    for chunk in uids.chunks(ROWS) {
        let mut select = Sql::new(
            dialect,
            "SELECT r.workload_uid, r.serial, r.started_at, r.last_at, r.first_iteration, r.last_iteration \
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
            };
            runs.entry(row.try_get(0)?).or_default().push(run);
        }
        let pods: BTreeSet<&str> =
            chunk.iter().flat_map(|uid| &workloads[uid]).map(|o| o.pod_uid.as_str()).collect();
        for pods in pods.into_iter().collect::<Vec<_>>().chunks(ROWS) {
            let mut select = Sql::new(
                dialect,
                "SELECT p.workload_uid, p.run_serial, p.pod_uid, p.data_source, p.last_iteration \
                 FROM training_reporter p WHERE p.workload_uid IN ",
            );
            select
                .texts(chunk.iter().copied())
                .push(" AND p.pod_uid IN ")
                .texts(pods.iter().copied());
            select.push(
                " AND p.run_serial = (SELECT MAX(m.serial) FROM training_run m WHERE m.workload_uid = p.workload_uid)",
            );
            for row in select.fetch(connection).await? {
                let (pod, source): (String, String) = (row.try_get(2)?, row.try_get(3)?);
                let entry = (row.try_get(1)?, format!("{pod}\0{source}"), row.try_get(4)?);
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

async fn save_histories(
    connection: &mut AnyConnection,
    dialect: Dialect,
    histories: &HashMap<String, History>,
) -> Result<(), sqlx::Error> {
    let runs: Vec<(&str, &Run)> = histories
        .iter()
        .flat_map(|(uid, history)| history.touched().map(move |run| (uid.as_str(), run)))
        .collect();
    for chunk in runs.chunks(ROWS) {
        let mut insert = Sql::new(
            dialect,
            "INSERT INTO training_run (workload_uid, serial, started_at, last_at, first_iteration, last_iteration) VALUES ",
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
        });
        insert.push(&dialect.or_update(
            "workload_uid, serial",
            &["started_at", "last_at", "first_iteration", "last_iteration"],
        ));
        insert.execute(connection).await?;
    }
    let reporters: Vec<_> = histories
        .iter()
        .flat_map(|(uid, history)| {
            history.reporters().map(move |reporter| (uid.as_str(), reporter))
        })
        .collect();
    for chunk in reporters.chunks(ROWS) {
        let mut insert = Sql::new(
            dialect,
            "INSERT INTO training_reporter (workload_uid, run_serial, pod_uid, data_source, last_iteration) VALUES ",
        );
        insert.rows(chunk, |sql, (uid, (serial, name, last))| {
            let (pod, source) = name.split_once('\0').unwrap_or((name, ""));
            sql.text(*uid).push(", ").int(*serial).push(", ").text(pod).push(", ").text(source);
            sql.push(", ").int(*last);
        });
        insert.push(
            &dialect
                .or_update("workload_uid, run_serial, pod_uid, data_source", &["last_iteration"]),
        );
        insert.execute(connection).await?;
    }
    Ok(())
}

async fn save_rows(
    connection: &mut AnyConnection,
    dialect: Dialect,
    rows: &BTreeMap<RowKey<'_>, (&Observation, String)>,
) -> Result<(), sqlx::Error> {
    let rows: Vec<_> = rows.iter().collect();
    for chunk in rows.chunks(ROWS) {
        let mut insert = Sql::new(
            dialect,
            "INSERT INTO training_performance \
             (workload_uid, serial, data_source, iteration, pod_uuid, created_at, performance) VALUES ",
        );
        insert.rows(chunk, |sql, ((uid, serial, source, iteration), (observation, json))| {
            sql.text(*uid)
                .push(", ")
                .int(*serial)
                .push(", ")
                .text(*source)
                .push(", ")
                .int(*iteration);
            sql.push(", ").text(observation.pod_uid.as_str()).push(", ").int(observation.at);
            sql.push(", ").json(json);
        });
        insert.push(&dialect.or_update(
            "workload_uid, serial, data_source, iteration",
            &["pod_uuid", "created_at", "performance"],
        ));
        insert.execute(connection).await?;
    }
    Ok(())
}
