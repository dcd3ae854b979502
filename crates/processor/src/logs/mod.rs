//! Log records in, training performance out.
//!
//! A body is a list of records as Fluent Bit sends them. Each is judged alone: one that cannot be read costs only
//! itself. What the lines say about training is on disk before the request is answered; the lines themselves go on to the
//! log stores there are, and are not kept.

mod date;
mod disk;
pub(crate) mod forward;
mod newcomers;
mod plain;
mod record;
mod series;
mod split;
pub(crate) mod spool;
pub(crate) mod streams;
mod workload;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crosstalk_inventory::Standing;
use crosstalk_store::{Observation, Sighting};
use crosstalk_training_log::{Outcome, Parser};

use crate::cache::{Cache, Snapshot};
use crate::config::{LogForward, Logs, RequestLimits};
use crate::enrich::pattern_matches;
use crate::metrics::Metrics;
use forward::{Encoder, LogBody};
use newcomers::Newcomers;
pub use plain::About;
use record::{Kubernetes, Record, Unusable};
pub use series::{LeftOut, SERIES, TrainingSeries};
use series::{Sent, Speaker};
use split::split;
use streams::Streams;
use workload::{Owner, Owners};

/// Reads log bodies.
#[derive(Debug)]
pub struct LogIntake {
    parser: Parser,
    skip_pods: Vec<String>,
    max_records: usize,
    max_observations: usize,
    streams: Arc<Streams>,
    newcomers: Newcomers,
    sent: Sent,
    forwards: Vec<LogForward>,
}

/// Why nothing of a body was taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is nothing in it.
    #[error("body is empty: send a JSON array of log records, or one a line")]
    Empty,
    /// It cannot be read.
    #[error("{0}")]
    Unusable(String),
    /// It is too large when decompressed.
    #[error("body is larger than max_logs_body_bytes ({most}) when decompressed")]
    Bytes {
        /// The limit.
        most: usize,
    },
    /// It has too many records.
    #[error("body has more than max_logs_records ({most}) records; send fewer at a time")]
    Records {
        /// The limit.
        most: usize,
    },
    /// It says too much about training.
    #[error(
        "body has more than max_logs_observations ({most}) training lines; send fewer at a time"
    )]
    Observations {
        /// The limit.
        most: usize,
    },
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
    /// The records for each log store, in the order in which those are configured.
    pub(crate) forwards: Vec<Vec<LogBody>>,
    /// Whether something is of a pod that the caches do not know, so that a workload of its own would be founded for it.
    pub(crate) doubtful: bool,
    /// The same, of a pod in a namespace that is not followed.
    pub(crate) doubtful_elsewhere: bool,
    /// Who speaks and is not known yet, where that is only a matter of time.
    pub(crate) awaited: Option<String>,
    /// The place in the body of each observation's record, and who spoke.
    places: Vec<(usize, Speaker)>,
    last_rejected: Option<usize>,
}

/// What an observation takes of memory, with its names and with what is made of it on its way to disk.
const OBSERVATION_BYTES: usize = 1536;

impl Batch {
    /// Whom it is to be waited for before it is known whose all of it is.
    pub(crate) fn waits_for(&self, standing: &Standing) -> Vec<String> {
        let of_pods = match self.doubtful || self.doubtful_elsewhere {
            true => Cache::in_doubt_of_pods(standing, !self.doubtful),
            false => Vec::new(),
        };
        let of_pods = of_pods.into_iter().map(str::to_owned);
        of_pods.chain(self.awaited.clone()).collect()
    }

    /// What it takes of memory until it is on disk, about.
    pub(crate) fn bytes(&self) -> usize {
        let forwards = self.forwards.iter().flatten().map(|body| body.bytes.len());
        self.observations.len() * OBSERVATION_BYTES + forwards.sum::<usize>()
    }

    /// Counts an observation's record among the rejected: it was read, but cannot be stored.
    pub fn reject_observation(&mut self, observation: usize, reason: String) {
        let place = self.places.get(observation).map(|(place, _)| *place);
        if let Some(place) = place {
            self.reject_accepted(place, reason);
        }
    }

    /// Leaves out what no database could hold.
    pub(crate) fn reject_what_cannot_be_stored(&mut self, metrics: &Metrics) {
        let observations = std::mem::take(&mut self.observations);
        let places = std::mem::take(&mut self.places);
        for (observation, place) in observations.into_iter().zip(places) {
            match crosstalk_store::check(&observation) {
                Ok(()) => {
                    self.observations.push(observation);
                    self.places.push(place);
                }
                Err(reason) => {
                    metrics.log_rejected.add(["row"], 1);
                    tracing::warn!(reason, "cannot store what a log line says");
                    self.reject_accepted(place.0, reason);
                }
            }
        }
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
    pub fn new(logs: &Logs, limits: &RequestLimits) -> Result<Self, crosstalk_training_log::Error> {
        let mut skip_pods = logs.skip_pods.clone();
        // Inside Kubernetes a container's host name is its pod's name.
        skip_pods.extend(std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty()));
        Ok(LogIntake {
            parser: logs.parser()?,
            skip_pods,
            max_records: limits.max_logs_records,
            max_observations: limits.max_logs_observations,
            streams: Arc::default(),
            newcomers: Newcomers::default(),
            sent: Sent::default(),
            forwards: logs.forwards.clone(),
        })
    }

    /// Lines that wait for those to come.
    pub(crate) fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    /// Reads a body: a JSON array of records, or one record a line.
    pub fn read(
        &self,
        body: &[u8],
        snapshot: &Snapshot,
        metrics: &Metrics,
    ) -> Result<Batch, Refusal> {
        // A byte that is no text costs a character, not the body.
        let body = String::from_utf8_lossy(body);
        let parts = split(&body, self.max_records)?;
        let mut reading = self.reading(snapshot, metrics, None);
        let records = parts.records.into_iter().map(Record::read);
        let rest = parts.rest.map(|_| Err(Unusable::Rest));
        for (index, record) in records.chain(rest).enumerate() {
            match record {
                Ok(record) => reading.take(index, &record)?,
                Err(reason) => {
                    metrics.log_rejected.add([reason.kind()], 1);
                    reading.batch.reject(index, reason.to_string());
                }
            }
        }
        Ok(reading.finish())
    }

    /// Reads a body of lines, which are all of one speaker.
    pub fn read_lines(
        &self,
        body: &[u8],
        about: &About,
        snapshot: &Snapshot,
        metrics: &Metrics,
    ) -> Result<Batch, Refusal> {
        let body = String::from_utf8_lossy(body);
        let mut reading = self.reading(snapshot, metrics, about.owner());
        let at = about.at(reading.now).map_err(Refusal::Unusable)?;
        let speaker = about.speaker();
        let lines = body.split('\n').filter(|line| !line.trim_ascii().is_empty());
        for (index, line) in lines.enumerate() {
            if index == self.max_records {
                return Err(Refusal::Records { most: self.max_records });
            }
            reading.take(index, &plain::record(line, at, &speaker))?;
        }
        Ok(reading.finish())
    }

    /// What a batch says about training as series, and how many samples are not fit for that.
    pub fn series<'b>(&self, batch: &'b Batch) -> (TrainingSeries<'b>, LeftOut) {
        let speakers = batch.places.iter().map(|(_, speaker)| speaker);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        TrainingSeries::of(batch.observations.iter().zip(speakers), &self.sent, now as i64)
    }

    /// Remembers that these are on their way.
    pub fn note_sent(&self, series: &TrainingSeries<'_>) {
        series.note_sent(&self.sent);
    }

    fn reading<'r>(
        &'r self,
        snapshot: &'r Snapshot,
        metrics: &'r Metrics,
        named: Option<Owner>,
    ) -> Reading<'r> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let encoders = self.forwards.iter().map(Encoder::new).collect();
        let batch = Batch::default();
        Reading { intake: self, snapshot, metrics, named, now: now as i64, batch, encoders }
    }
}

/// A body while it is read.
struct Reading<'r> {
    intake: &'r LogIntake,
    snapshot: &'r Snapshot,
    metrics: &'r Metrics,
    /// Whose all of it is, where that was said.
    named: Option<Owner>,
    now: i64,
    batch: Batch,
    encoders: Vec<Encoder>,
}

impl Reading<'_> {
    fn finish(mut self) -> Batch {
        self.batch.forwards = self.encoders.into_iter().map(Encoder::finish).collect();
        self.batch
    }

    /// The workloads a record is of.
    fn owners(&mut self, record: &Record<'_>) -> Vec<Owner> {
        let owners = match &self.named {
            Some(owner) => Owners { all: vec![owner.clone()], known: true, awaited: false },
            None => workload::of_record(record, self.snapshot),
        };
        self.note_doubt(record, &owners);
        owners.all
    }

    fn note_doubt(&mut self, record: &Record<'_>, owners: &Owners) {
        if owners.known {
            return;
        }
        let Kubernetes { namespace_name: namespace, pod_name, pod_id, .. } = &record.kubernetes;
        let followed = self.snapshot.follows_pods_of(namespace);
        match followed {
            Some(false) => self.batch.doubtful_elsewhere = true,
            _ => self.batch.doubtful = true,
        }
        let named = || if pod_name.is_empty() { pod_id } else { pod_name };
        if owners.awaited {
            self.batch.awaited.get_or_insert_with(|| format!("an owner of pod {}", named()));
        } else if followed == Some(true)
            && self.intake.newcomers.is_new([&**namespace, pod_name, pod_id])
        {
            self.batch.awaited.get_or_insert_with(|| format!("pod {}", named()));
        }
    }

    fn take(&mut self, index: usize, record: &Record<'_>) -> Result<(), Refusal> {
        let Reading { intake, metrics, .. } = *self;
        self.batch.accepted += 1;
        let pod = record.kubernetes.pod_name.as_ref();
        if intake.skip_pods.iter().any(|pattern| pattern_matches(pattern, pod)) {
            metrics.log_analysis.add(["skipped"], 1);
            return Ok(());
        }
        // Clocks differ between machines; a line from the future has no latency.
        let latency = self.now.saturating_sub(record.at).max(0) as f64 / 1e9;
        metrics.log_latency.observe(record.kubernetes.node(), latency);
        if !self.encoders.is_empty() {
            let owners = self.owners(record);
            self.encoders.iter_mut().for_each(|encoder| encoder.add(record, &owners));
        }
        let mut refusal = None;
        intake.streams.read(&intake.parser, &record.kubernetes, &record.message, |_, outcome| {
            let most = intake.max_observations;
            let room = self.batch.observations.len() < most;
            let (kind, sighting) = match outcome {
                Outcome::Performance { performance, .. } => {
                    ("training", Sighting::Performance(Box::new(performance)))
                }
                Outcome::Start => ("start", Sighting::Start),
                Outcome::Nothing(crosstalk_training_log::Reason::Empty) => return,
                Outcome::Nothing(_) => return metrics.log_analysis.add(["other"], 1),
            };
            metrics.log_analysis.add([kind], 1);
            match room {
                true => self.observe(index, record, &sighting),
                false => refusal = Some(Refusal::Observations { most }),
            }
        });
        refusal.map_or(Ok(()), Err)
    }

    /// Notes what a line says, for each workload it is of.
    fn observe(&mut self, index: usize, record: &Record<'_>, sighting: &Sighting) {
        let owners = self.owners(record);
        if owners.is_empty() {
            self.metrics.log_rejected.add([Unusable::NoPod.kind()], 1);
            self.batch.reject_accepted(index, Unusable::NoPod.to_string());
        }
        for owner in owners {
            let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            let speaker = Speaker {
                namespace: record.kubernetes.namespace_name.to_string(),
                pod: record.kubernetes.pod_name.to_string(),
                node: record.kubernetes.host.to_string(),
            };
            self.batch.places.push((index, speaker));
            self.batch.observations.push(Observation {
                workload_uid: owner.uid,
                workload_name: Some(owner.name),
                workload_kind: known(&owner.kind),
                workload_namespace: known(&record.kubernetes.namespace_name),
                group: owner.group,
                pod_uid: owner.pod_uid,
                replica_role: known(&owner.role),
                data_source: "log".to_owned(),
                at: record.at,
                sighting: sighting.clone(),
            });
        }
    }
}

#[cfg(test)]
mod tests;
