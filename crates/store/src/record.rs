//! Writes what logs say about training: runs, iterations, events.

use std::collections::{BTreeMap, HashMap};

use crosstalk_training_log::Performance;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::event::{self, NewEvent};
use crate::history;
use crate::iteration::{self, Iteration, Key};
use crate::owner::{self, Group};
use crate::run::Seen;
use crate::schema::now;
use crate::store::Store;

/// How far a pod's clock may be ahead of ours. A line dated later would make all that the pod says
/// after it late.
const AHEAD: i64 = 3_600_000_000_000;

/// Something a log line says about training.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Observation {
    /// The workload that the run is of: the pod's nearest owner.
    pub workload_uid: String,
    /// Its name, where it is known.
    pub workload_name: Option<String>,
    /// Its kind, where it is known.
    #[serde(default)]
    pub workload_kind: Option<String>,
    /// Its namespace, where it is known.
    #[serde(default)]
    pub workload_namespace: Option<String>,
    /// The top controller above it, where it is not the top itself.
    #[serde(default)]
    pub group: Option<Group>,
    /// The pod whose line it is.
    pub pod_uid: String,
    /// The part that pod plays in the run: `master`, `worker`; where it is known.
    #[serde(default)]
    pub replica_role: Option<String>,
    /// Where it comes from: `log` for log lines.
    pub data_source: String,
    /// The line's time, nanoseconds since 1970. One more than an hour ahead of the clock here
    /// cannot be true: such a line counts as of the time of the one before it.
    pub at: i64,
    /// What it says.
    pub sighting: Sighting,
}

/// What a line says.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
        let mut workloads: BTreeMap<&str, Vec<Dated<'_>>> = BTreeMap::new();
        for (index, observation) in batch.iter().enumerate() {
            match check(observation) {
                Ok(()) => {
                    let dated = Dated { observation, at: Some(observation.at) };
                    workloads.entry(&observation.workload_uid).or_default().push(dated);
                }
                Err(reason) => rejected.push(Rejected { index, reason }),
            }
        }
        let now = now();
        for observations in workloads.values_mut() {
            mend_dates(observations, now);
            observations.sort_by_key(|dated| dated.at);
        }
        if workloads.is_empty() {
            return Ok(Recorded { rejected, ..Recorded::default() });
        }
        let mut tries = self.tries("record training");
        loop {
            match self.record_once(&workloads, now).await {
                Ok(recorded) => return Ok(Recorded { rejected, ..recorded }),
                Err(failure) => tries.after(failure).await?,
            }
        }
    }

    async fn record_once(
        &self,
        workloads: &BTreeMap<&str, Vec<Dated<'_>>>,
        now: i64,
    ) -> Result<Recorded, sqlx::Error> {
        let dialect = self.location.dialect;
        let mut transaction = self.begin().await?;
        let connection = &mut *transaction;
        let observations = workloads.values().flatten().map(|dated| dated.observation);
        owner::lock(connection, dialect, &owner::rows(observations)).await?;
        let mut histories = history::load(connection, dialect, workloads).await?;

        let mut recorded = Recorded::default();
        let mut iterations: BTreeMap<Key<'_>, Iteration<'_>> = BTreeMap::new();
        let mut events = Vec::new();
        for (uid, observations) in workloads {
            let history = histories.entry((*uid).to_owned()).or_default();
            for Dated { observation, at } in observations {
                let reporter = reporter(observation);
                let at = at.or_else(|| history.last_at(&reporter)).unwrap_or(now);
                let seen = seen(observation);
                let assigned = history.assign(&reporter, at, seen);
                recorded.runs_opened += u64::from(assigned.opened);
                events.extend(events_of(observation, at, assigned.serial));
                if let (Sighting::Performance(performance), Seen::Iteration(number)) =
                    (&observation.sighting, seen)
                {
                    let key = (*uid, assigned.serial, observation.data_source.as_str(), number);
                    let pod_uid = observation.pod_uid.as_str().into();
                    let new = Iteration { pod_uid, at, performance: (**performance).clone() };
                    iteration::add(&mut iterations, key, new);
                }
            }
        }
        history::save(connection, dialect, &histories, &roles(workloads)).await?;
        iteration::save(connection, dialect, &mut iterations).await?;
        let new = event::insert_new(connection, dialect, &events).await?;
        for event in new {
            *recorded.events.entry(event.name()).or_default() += 1;
        }
        transaction.commit().await?;
        recorded.iterations = iterations.len() as u64;
        Ok(recorded)
    }
}

/// An observation with its time, where it has one that can be true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dated<'o> {
    pub(crate) observation: &'o Observation,
    pub(crate) at: Option<i64>,
}

/// Gives observations of one workload, as they came, times that can be true: that of the line
/// before from the same reporter, or none where this batch has no such line.
fn mend_dates(observations: &mut [Dated<'_>], now: i64) {
    let mut before: HashMap<(&str, &str), i64> = HashMap::new();
    for Dated { observation, at } in observations {
        let reporter = (observation.pod_uid.as_str(), observation.data_source.as_str());
        *at = at.filter(|at| *at <= now.saturating_add(AHEAD));
        *at = at.or_else(|| before.get(&reporter).copied());
        before.extend(at.map(|at| (reporter, at)));
    }
}

/// The parts that pods play, by workload and pod.
fn roles<'o>(workloads: &BTreeMap<&str, Vec<Dated<'o>>>) -> HashMap<(&'o str, &'o str), &'o str> {
    let observations = workloads.values().flatten().map(|dated| dated.observation);
    let role = |observation: &'o Observation| {
        let whose = (observation.workload_uid.as_str(), observation.pod_uid.as_str());
        Some((whose, observation.replica_role.as_deref()?))
    };
    observations.filter_map(role).collect()
}

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

fn events_of(observation: &Observation, at: i64, serial: i64) -> Vec<NewEvent> {
    let event = |kind, iteration| NewEvent {
        workload_uid: observation.workload_uid.clone(),
        kind,
        run_serial: serial,
        iteration,
        pod_uid: Some(observation.pod_uid.clone()),
        nearest_workload_uid: observation.group.as_ref().map(|_| observation.workload_uid.clone()),
        at,
    };
    match (&observation.sighting, seen(observation)) {
        (Sighting::Performance(performance), Seen::Iteration(iteration)) => performance
            .anomalies()
            .map(|anomaly| event(event::Kind::from(anomaly), Some(iteration)))
            .collect(),
        _ => vec![event(event::Kind::TrainingStart, None)],
    }
}

/// Why an observation cannot be stored in every database there is; `Ok` where it can.
///
/// # Errors
/// Where a text is empty or too long, or there is no iteration.
pub fn check(observation: &Observation) -> Result<(), String> {
    let group = observation.group.as_ref();
    let texts = [
        ("workload UID", observation.workload_uid.as_str(), 255),
        ("workload name", observation.workload_name.as_deref().unwrap_or("-"), 255),
        ("workload kind", observation.workload_kind.as_deref().unwrap_or("-"), 64),
        ("workload namespace", observation.workload_namespace.as_deref().unwrap_or("-"), 255),
        ("group UID", group.map_or("-", |group| &group.uid), 255),
        ("group name", group.and_then(|group| group.name.as_deref()).unwrap_or("-"), 255),
        ("group kind", group.and_then(|group| group.kind.as_deref()).unwrap_or("-"), 64),
        ("pod UID", observation.pod_uid.as_str(), 255),
        ("replica role", observation.replica_role.as_deref().unwrap_or("-"), 255),
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
