//! What lines say about training as series, so that a dashboard needs no SQL.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use crosstalk_remote_write::{Encoder, Label, Sample, Series, SeriesMetadata};
use crosstalk_store::{Observation, Sighting};
use crosstalk_training_log::Metric;

/// Name, help and factor to its unit of each metric's series, in the order of [`Metric::ALL`].
pub const SERIES: [(&str, &str, f64); Metric::COUNT] = [
    ("workload_training_iteration", "Iteration reached", 1.0),
    ("workload_training_target_iteration", "Iteration at which training ends", 1.0),
    ("workload_training_consumed_samples", "Samples processed since training began", 1.0),
    ("workload_training_iteration_seconds", "Time of an iteration", 1e-3),
    ("workload_training_memory_used_bytes", "Device memory in use", 1e9),
    ("workload_training_memory_free_bytes", "Device memory free", 1e9),
    ("workload_training_memory_bytes", "Device memory in all", 1e9),
    ("workload_training_memory_used_ratio", "Share of device memory in use", 1.0),
    ("workload_training_tflops", "TFLOP/s of one device", 1.0),
    ("workload_training_tokens_per_second", "Tokens a second of one device", 1.0),
    ("workload_training_learning_rate", "Learning rate", 1.0),
    ("workload_training_global_batch_size", "Samples in one global batch", 1.0),
    ("workload_training_loss", "Training loss", 1.0),
    ("workload_training_loss_scale", "Loss scale of mixed precision", 1.0),
    ("workload_training_grad_norm", "Norm of the gradient", 1.0),
    ("workload_training_zero_gradients", "Zeros in the gradient", 1.0),
    ("workload_training_skipped_iterations", "Iterations skipped since the line before", 1.0),
    ("workload_training_nan_iterations", "Iterations with NaN since the line before", 1.0),
];

/// Kind of a gauge in remote write.
const GAUGE: i32 = 2;

/// The pod of an observation, beyond what is stored of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Speaker {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) node: String,
}

/// Labels that tell one run's series from another's.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Whose<'o> {
    workload_uid: &'o str,
    workload_name: &'o str,
    workload_kind: &'o str,
    /// What is the top itself is its own group.
    group_uid: &'o str,
    group_name: &'o str,
    pod_uid: &'o str,
    speaker: &'o Speaker,
}

/// Samples that were left out of the series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Older than what was sent before, which a store would refuse.
    pub late: u64,
    /// So far ahead of the clock here that the time cannot be true: all that comes after such a sample would be late.
    pub ahead: u64,
}

/// How far the clock of whoever writes a line may be ahead of ours: as far as Prometheus lets a scraped one be.
const MAX_AHEAD_MS: i64 = 600_000;

/// The samples of a body by series, each in the order of time.
#[derive(Debug, Default)]
pub struct TrainingSeries<'o> {
    samples: BTreeMap<(Whose<'o>, usize), Vec<Sample>>,
}

impl<'o> TrainingSeries<'o> {
    /// The samples of these observations that come after what was sent before and not long after `now_ms`, and how many were
    /// left out.
    pub(super) fn of(
        observations: impl Iterator<Item = (&'o Observation, &'o Speaker)>,
        sent: &Sent,
        now_ms: i64,
    ) -> (TrainingSeries<'o>, LeftOut) {
        let mut series = TrainingSeries::default();
        for (observation, speaker) in observations {
            let Sighting::Performance(performance) = &observation.sighting else { continue };
            for (index, metric) in Metric::ALL.into_iter().enumerate() {
                let Some(value) = performance.get(metric) else { continue };
                let workload_name = observation.workload_name.as_deref().unwrap_or_default();
                let group = observation.group.as_ref();
                let whose = Whose {
                    workload_uid: &observation.workload_uid,
                    workload_name,
                    workload_kind: observation.workload_kind.as_deref().unwrap_or_default(),
                    group_uid: group.map_or(&observation.workload_uid, |group| &group.uid),
                    group_name: group
                        .map_or(workload_name, |group| group.name.as_deref().unwrap_or_default()),
                    pod_uid: &observation.pod_uid,
                    speaker,
                };
                let sample = Sample::new(value * SERIES[index].2, observation.at / 1_000_000);
                series.samples.entry((whose, index)).or_default().push(sample);
            }
        }
        let left_out = series.leave_out(sent, now_ms.saturating_add(MAX_AHEAD_MS));
        (series, left_out)
    }

    fn leave_out(&mut self, sent: &Sent, end: i64) -> LeftOut {
        let mut left_out = LeftOut::default();
        self.samples.retain(|(whose, index), samples| {
            let last = sent.last(whose, *index);
            samples.retain(|sample| {
                let (late, ahead) = (sample.timestamp <= last, sample.timestamp > end);
                left_out.late += u64::from(late);
                left_out.ahead += u64::from(ahead);
                !late && !ahead
            });
            samples.sort_by_key(|sample| sample.timestamp);
            // Of lines of one moment, such as those of two ranks in one pod, the last stands.
            samples.reverse();
            samples.dedup_by_key(|sample| sample.timestamp);
            samples.reverse();
            !samples.is_empty()
        });
        left_out
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Writes them.
    pub(crate) fn encode(&self, job: &str, encoder: &mut Encoder) {
        for ((whose, index), samples) in &self.samples {
            let (name, help, _) = SERIES[*index];
            let label = |name, value| Label { name, value };
            let labels = [
                label("__name__", name),
                label("job", job),
                label("namespace", &whose.speaker.namespace),
                label("node", &whose.speaker.node),
                label("pod_name", &whose.speaker.pod),
                label("pod_uid", whose.pod_uid),
                label("workload_group_name", whose.group_name),
                label("workload_group_uid", whose.group_uid),
                label("workload_kind", whose.workload_kind),
                label("workload_name", whose.workload_name),
                label("workload_uid", whose.workload_uid),
            ];
            let mut series = Series::of_samples(&labels, samples);
            series.metadata = SeriesMetadata { kind: GAUGE, help, unit: "" };
            encoder.series("", &labels, &series);
        }
    }

    /// Remembers that they are on their way.
    pub(super) fn note_sent(&self, sent: &Sent) {
        for ((whose, index), samples) in &self.samples {
            if let Some(last) = samples.last() {
                sent.note(whose, *index, last.timestamp);
            }
        }
    }
}

/// Times of the newest samples sent, by pod of a workload and metric: a log shipper sends again what it got no answer
/// for, and what is older than a series' end a store refuses.
#[derive(Debug, Default)]
pub(super) struct Sent {
    last: Mutex<HashMap<u64, [i64; Metric::COUNT]>>,
    hasher: RandomState,
}

/// Pods remembered; beyond them one is forgotten, whose late samples then reach the stores.
const MAX_PODS: usize = 16 << 10;

impl Sent {
    fn key(&self, whose: &Whose<'_>) -> u64 {
        self.hasher.hash_one((whose.workload_uid, whose.pod_uid))
    }

    fn last(&self, whose: &Whose<'_>, index: usize) -> i64 {
        let known = self.lock();
        known.get(&self.key(whose)).map_or(i64::MIN, |last| last[index])
    }

    fn note(&self, whose: &Whose<'_>, index: usize, at: i64) {
        let mut known = self.lock();
        let key = self.key(whose);
        if known.len() >= MAX_PODS
            && !known.contains_key(&key)
            && let Some(forgotten) = known.keys().next().copied()
        {
            known.remove(&forgotten);
        }
        let last = &mut known.entry(key).or_insert([i64::MIN; Metric::COUNT])[index];
        *last = at.max(*last);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, [i64; Metric::COUNT]>> {
        self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_training_log::{Outcome, Parser};

    fn observation(at_ms: i64, line: &str) -> Observation {
        let Outcome::Performance { performance, .. } = Parser::default().parse(line) else {
            panic!("{line}")
        };
        Observation {
            workload_uid: "w".into(),
            workload_name: Some("demo".into()),
            workload_kind: None,
            workload_namespace: None,
            group: None,
            pod_uid: "p".into(),
            replica_role: None,
            data_source: "log".into(),
            at: at_ms * 1_000_000,
            sighting: Sighting::Performance(Box::new(performance)),
        }
    }

    #[test]
    fn samples_are_in_order_once_and_in_base_units() {
        let sent = Sent::default();
        let speaker = Speaker::default();
        let line =
            "iteration 2/50 | elapsed time per iteration (ms): 1500.0 | mem: 2GB | lm loss: 2.5";
        let observations = [
            observation(20, line),
            observation(10, "iteration 1 | lm loss: 3.5"),
            observation(20, "iteration 2 | lm loss: 2.25"),
        ];
        let all = || observations.iter().map(|observation| (observation, &speaker));
        let (series, left_out) = TrainingSeries::of(all(), &sent, 30);
        let found = |metric: Metric| -> Vec<(f64, i64)> {
            let samples = series.samples.iter().find(|((_, index), _)| *index == metric as usize);
            samples
                .map(|(_, s)| s.iter().map(|s| (s.value, s.timestamp)).collect())
                .unwrap_or_default()
        };
        assert_eq!(left_out, LeftOut::default());
        assert_eq!(found(Metric::LmLoss), [(3.5, 10), (2.25, 20)]);
        assert_eq!(found(Metric::ElapsedTimePerIterationMs), [(1.5, 20)]);
        assert_eq!(found(Metric::MemUsage), [(2e9, 20)]);
        assert_eq!(found(Metric::GradNorm), []);
        // What could not be queued is not late when it comes again; what was, is.
        assert_eq!(TrainingSeries::of(all(), &sent, 30).1, LeftOut::default());
        series.note_sent(&sent);
        let (again, left_out) = TrainingSeries::of(all(), &sent, 30);
        assert!(again.is_empty() && left_out.late > 0, "{again:?}");
        let newer = observation(30, "iteration 3 | lm loss: 1.5");
        assert!(!TrainingSeries::of([(&newer, &speaker)].into_iter(), &sent, 30).0.is_empty());
    }

    #[test]
    fn a_line_from_the_future_silences_no_series() {
        let (sent, speaker) = (Sent::default(), Speaker::default());
        let ahead = observation(10 + 2 * MAX_AHEAD_MS, "iteration 9 | lm loss: 9.5");
        let (series, left_out) = TrainingSeries::of([(&ahead, &speaker)].into_iter(), &sent, 10);
        assert_eq!((series.is_empty(), left_out), (true, LeftOut { late: 0, ahead: 2 }));
        series.note_sent(&sent);
        let next = observation(20, "iteration 2 | lm loss: 2.5");
        let (series, left_out) = TrainingSeries::of([(&next, &speaker)].into_iter(), &sent, 20);
        assert_eq!((series.is_empty(), left_out), (false, LeftOut::default()));
    }

    #[test]
    fn every_metric_has_a_series_and_no_two_share_a_name() {
        let mut names: Vec<_> = SERIES.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Metric::COUNT);
        assert_eq!(SERIES[Metric::LmLoss as usize].0, "workload_training_loss");
        assert_eq!(SERIES[Metric::Tflops as usize].0, "workload_training_tflops");
        let seconds = SERIES[Metric::ElapsedTimePerIterationMs as usize].0;
        assert_eq!(seconds, "workload_training_iteration_seconds");
    }
}
