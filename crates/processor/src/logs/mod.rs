//! Log records in, training performance out.
//!
//! A body is a list of records as Fluent Bit sends them. Each is judged alone: one that cannot be read costs only
//! itself. What the lines say about training is stored before the request is answered; the lines themselves are not
//! kept.

mod date;
mod record;
mod split;
mod workload;

use std::time::{SystemTime, UNIX_EPOCH};

use crosstalk_store::{Observation, Sighting};
use crosstalk_training_log::{Outcome, Parser};

use crate::cache::Snapshot;
use crate::config::Logs;
use crate::enrich::pattern_matches;
use crate::metrics::Metrics;
use record::{Record, Unusable};
use split::split;

/// Reads log bodies.
#[derive(Debug)]
pub struct LogIntake {
    parser: Parser,
    skip_pods: Vec<String>,
}

/// A record that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct RejectedRecord {
    /// Its place in the body, from 0.
    pub index: usize,
    /// Why.
    pub reason: String,
}

/// What a body held.
#[derive(Debug, Default)]
pub struct Batch {
    /// Records that could be read.
    pub accepted: usize,
    /// Records that could not, or not be stored.
    pub rejected: usize,
    /// The first of those.
    pub examples: Vec<RejectedRecord>,
    /// What the lines say about training.
    pub observations: Vec<Observation>,
    /// The place in the body of each observation's record.
    places: Vec<usize>,
    last_rejected: Option<usize>,
}

impl Batch {
    /// Counts an observation's record among the rejected: it was read, but cannot be stored.
    pub fn reject_observation(&mut self, observation: usize, reason: String) {
        let Some(place) = self.places.get(observation).copied() else { return };
        self.reject_accepted(place, reason);
    }

    /// One record may hold several lines and be of several workloads; it is rejected once.
    fn reject_accepted(&mut self, index: usize, reason: String) {
        if self.last_rejected != Some(index) {
            self.accepted = self.accepted.saturating_sub(1);
            self.reject(index, reason);
        }
    }

    fn reject(&mut self, index: usize, reason: String) {
        self.last_rejected = Some(index);
        self.rejected += 1;
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(RejectedRecord { index, reason });
        }
    }
}

/// Rejected records a reply describes.
const MAX_EXAMPLES: usize = 20;

impl LogIntake {
    /// An intake as configured.
    pub fn new(logs: &Logs) -> Result<Self, crosstalk_training_log::Error> {
        let mut skip_pods = logs.skip_pods.clone();
        // Inside Kubernetes a container's host name is its pod's name.
        skip_pods.extend(std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty()));
        Ok(LogIntake { parser: logs.parser()?, skip_pods })
    }

    /// Reads a body: a JSON array of records, or one record a line. An error means that there is nothing in it.
    pub fn read(
        &self,
        body: &[u8],
        snapshot: &Snapshot,
        metrics: &Metrics,
    ) -> Result<Batch, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        // A byte that is no text costs a character, not the body.
        let body = String::from_utf8_lossy(body);
        let parts = split(&body)?;
        let mut batch = Batch::default();
        let records = parts.records.into_iter().map(Record::read);
        let rest = parts.rest.map(|_| Err(Unusable::Rest));
        for (index, record) in records.chain(rest).enumerate() {
            match record {
                Ok(record) => {
                    batch.accepted += 1;
                    self.take(index, &record, now as i64, snapshot, metrics, &mut batch);
                }
                Err(reason) => {
                    metrics.log_rejected.add([reason.kind()], 1);
                    batch.reject(index, reason.to_string());
                }
            }
        }
        Ok(batch)
    }

    fn take(
        &self,
        index: usize,
        record: &Record<'_>,
        now: i64,
        snapshot: &Snapshot,
        metrics: &Metrics,
        batch: &mut Batch,
    ) {
        let pod = record.kubernetes.pod_name.as_ref();
        if self.skip_pods.iter().any(|pattern| pattern_matches(pattern, pod)) {
            metrics.log_analysis.add(["skipped"], 1);
            return;
        }
        // Clocks differ between machines; a line from the future has no latency.
        let latency = now.saturating_sub(record.at).max(0) as f64 / 1e9;
        metrics.log_latency.observe(record.kubernetes.node(), latency);
        for line in record.message.lines().filter(|line| !line.trim().is_empty()) {
            let (kind, sighting) = match self.parser.parse(line) {
                Outcome::Performance { performance, .. } => {
                    ("training", Sighting::Performance(Box::new(performance)))
                }
                Outcome::Start => ("start", Sighting::Start),
                Outcome::Nothing(_) => {
                    metrics.log_analysis.add(["other"], 1);
                    continue;
                }
            };
            metrics.log_analysis.add([kind], 1);
            let owners = workload::of_record(record, snapshot);
            if owners.is_empty() {
                metrics.log_rejected.add([Unusable::NoPod.kind()], 1);
                batch.reject_accepted(index, Unusable::NoPod.to_string());
            }
            for owner in owners {
                batch.places.push(index);
                batch.observations.push(Observation {
                    workload_uid: owner.uid,
                    workload_name: Some(owner.name),
                    pod_uid: owner.pod_uid,
                    nearest_workload_uid: None,
                    data_source: "log".to_owned(),
                    at: record.at,
                    sighting: sighting.clone(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
