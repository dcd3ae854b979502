//! The answer about a window.

use crate::clock::{monotonic_ns, unix_ns};
use crate::metric::{CPU_UTIL, Metric, STATISTICS};
use crate::node::Node;
use crate::query::{Query, Selection};
use crate::status::{Report, SourceState};
use crate::subjects::{Kind, Labels, Subject, SubjectKey};
use crate::tape::Tape;
use crosstalk_window::{Stats, View, Window};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// What is told about a window, in the order of the JSON.
#[derive(Serialize)]
pub(crate) struct Answer {
    #[serde(serialize_with = "whole_if_whole")]
    window_seconds: f64,
    samples_count: usize,
    coverage: f64,
    newest_seconds: Option<f64>,
    metrics: Measured,
    /// Metrics measured in only a part of the window, with that part.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    partial: BTreeMap<&'static str, f64>,
    /// Metrics nobody measured, with the reason.
    absent: BTreeMap<&'static str, String>,
    #[serde(flatten)]
    below: Option<Below>,
    sources: Vec<SourceAnswer>,
    timestamp: f64,
}

/// Processes, containers or pods.
#[derive(Serialize)]
struct Below {
    subject: Kind,
    subjects_count: usize,
    subjects: Vec<SubjectAnswer>,
}

#[derive(Serialize)]
struct SubjectAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process_start_ns: Option<u64>,
    #[serde(flatten)]
    labels: Labels,
    samples_count: usize,
    coverage: f64,
    metrics: Measured,
}

/// One source in the answer and in `/ready`.
#[derive(Serialize)]
pub(crate) struct SourceAnswer {
    name: &'static str,
    #[serde(flatten)]
    report: Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples_count: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<f64>,
    newest_seconds: Option<f64>,
    errors: u64,
    restarts: u64,
    /// The metrics of the answer that came from it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    metrics: Vec<&'static str>,
}

/// Statistics of metrics, written as one flat object: `mean_cpu_util`, `std_cpu_util`, ...
#[derive(Default)]
struct Measured(Vec<(Metric, u8, Stats)>);

impl Measured {
    fn has(&self, metric: &Metric) -> bool {
        self.0.iter().any(|(known, _, _)| known.name == metric.name)
    }

    /// What it adds up to over the window, as a share of it: the mean where it was measured, 0 elsewhere.
    fn in_window(&self, metric: &Metric) -> Option<f64> {
        let found = self.0.iter().find(|(known, _, _)| known.name == metric.name);
        found.map(|(_, _, stats)| stats.mean * stats.coverage)
    }
}

impl Serialize for Measured {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for (metric, chosen, s) in &self.0 {
            let values: [f64; STATISTICS.len()] =
                [s.mean, s.std, s.min, s.max, s.p50, s.p95, s.p99, s.last];
            for (at, (key, value)) in metric.keys.iter().zip(values).enumerate() {
                if chosen & (1 << at) != 0 {
                    map.serialize_entry(key, &value)?;
                }
            }
        }
        map.end()
    }
}

fn whole_if_whole<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 { to.serialize_u64(*value as u64) } else { to.serialize_f64(*value) }
}

/// What one tape has to say about a window.
struct Part {
    samples: usize,
    coverage: f64,
    /// Share of the window at its newest edge whose samples cannot have come yet.
    pending: f64,
    stats: Vec<(Metric, u8, Stats)>,
}

impl Part {
    /// Whether a metric that covers this share of the window lacks more than what is still to come.
    fn lacks(&self, coverage: f64) -> bool {
        1.0 - self.pending - coverage > UNEVEN
    }
}

/// Clocks tick unevenly and sources take turns: less missing than this is no gap.
const UNEVEN: f64 = 0.01;
/// How long a sample that has ended may be on its way to the buffer.
const DELIVERY_NS: f64 = 1e9;

/// How much of a window's newest edge is excused: two samples of the usual length and their delivery, but
/// no more than is missing there.
fn pending(view: &View, window: &Window<'_>, now_ns: u64, length: Duration) -> f64 {
    let Some(newest_ns) = view.newest_ns() else { return 0.0 };
    let length_ns = length.as_nanos() as f64;
    let usual_ns = window.coverage() * length_ns / window.samples().max(1) as f64;
    let missing_ns = now_ns.saturating_sub(newest_ns) as f64;
    (missing_ns.min(2.0 * usual_ns + DELIVERY_NS) / length_ns).min(1.0)
}

fn part(tape: &Tape, now_ns: u64, length: Duration, selection: &Selection) -> Part {
    let view = tape.view();
    let Ok(window) = view.window(now_ns, length) else {
        return Part { samples: 0, coverage: 0.0, pending: 0.0, stats: Vec::new() };
    };
    let stats = match selection {
        // All at once share their working memory.
        Selection::All => tape
            .metrics()
            .iter()
            .zip(window.all_stats())
            .filter_map(|(metric, stats)| Some((*metric, u8::MAX, stats?)))
            .collect(),
        Selection::Some(_) => {
            let chosen = |(at, metric): (usize, &Metric)| {
                let bits = selection.of(metric);
                let stats = (bits != 0).then(|| window.stats(at)).flatten();
                stats.map(|stats| (*metric, bits, stats))
            };
            tape.metrics().iter().enumerate().filter_map(chosen).collect()
        }
    };
    let pending = pending(&view, &window, now_ns, length);
    Part { samples: window.samples(), coverage: window.coverage(), pending, stats }
}

impl Node {
    /// Answers a question about the time up to now.
    pub(crate) fn answer(&self, query: &Query) -> Answer {
        let now_ns = monotonic_ns();
        let mut metrics = Measured::default();
        let mut partial = BTreeMap::new();
        let mut sources = Vec::with_capacity(self.sources.len());
        let mut leading: Option<(usize, f64, Option<f64>)> = None;
        for source in &self.sources {
            let mut told = SourceAnswer::new(source, now_ns);
            if let Some(tape) = &source.tape {
                let mut part = part(tape, now_ns, query.window, &query.selection);
                told.samples_count = Some(part.samples);
                told.coverage = Some(part.coverage);
                // A source has a metric once, so only the better sources are looked through.
                let better = metrics.0.len();
                for (metric, bits, stats) in std::mem::take(&mut part.stats) {
                    if metrics.0[..better].iter().any(|(known, _, _)| known.name == metric.name) {
                        continue;
                    }
                    if part.lacks(stats.coverage) {
                        partial.insert(metric.name, stats.coverage);
                    }
                    told.metrics.push(metric.name);
                    metrics.0.push((metric, bits, stats));
                }
                if leading.is_none() && part.samples > 0 {
                    leading = Some((part.samples, part.coverage, told.newest_seconds));
                }
            }
            sources.push(told);
        }
        let asked = |metric: &Metric| query.selection.of(metric) != 0;
        let complete = metrics.0.len() == self.catalog.len();
        let missing = |metric: &&Metric| !complete && asked(metric) && !metrics.has(metric);
        let absent = self.catalog.iter().filter(missing);
        let absent = absent.map(|metric| (metric.name, self.why_absent(metric.name))).collect();
        let (samples_count, coverage, newest_seconds) = leading.unwrap_or((0, 0.0, None));
        Answer {
            window_seconds: query.window.as_secs_f64(),
            samples_count,
            coverage,
            newest_seconds,
            metrics,
            partial,
            absent,
            below: query.subject.map(|kind| self.below(kind, query, now_ns)),
            sources,
            timestamp: unix_ns() as f64 * 1e-9,
        }
    }

    /// The subjects of a kind with most processor time in the window, each merged over the sources that know it.
    fn below(&self, kind: Kind, query: &Query, now_ns: u64) -> Below {
        let mut order: Vec<SubjectKey> = Vec::new();
        let mut by_key: HashMap<SubjectKey, Vec<Arc<Subject>>> = HashMap::new();
        for subject in self.sources.iter().flat_map(|source| source.subjects.of(kind)) {
            let entry = by_key.entry(subject.key.clone()).or_default();
            if entry.is_empty() {
                order.push(subject.key.clone());
            }
            entry.push(subject);
        }
        // Ranking needs one number of each subject; the rest is worked out for the few shown.
        let rank = Selection::Some(vec![(CPU_UTIL.name, 1)]);
        let used = |key: &SubjectKey| {
            let merged = merge(&by_key[key], now_ns, query.window, &rank);
            let used = merged.metrics.in_window(&CPU_UTIL).unwrap_or(-1.0);
            (merged.samples_count > 0).then_some(used)
        };
        // Who ended before the window began is not part of it.
        let mut ranked: Vec<(f64, SubjectKey)> =
            order.into_iter().filter_map(|key| Some((used(&key)?, key))).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let subjects_count = ranked.len();
        let subjects = ranked
            .iter()
            .take(query.top)
            .map(|(_, key)| merge(&by_key[key], now_ns, query.window, &query.selection))
            .collect();
        Below { subject: kind, subjects_count, subjects }
    }

    /// Every source as it stands.
    pub(crate) fn verdicts(&self) -> Vec<SourceAnswer> {
        let now_ns = monotonic_ns();
        self.sources.iter().map(|source| SourceAnswer::new(source, now_ns)).collect()
    }
}

impl SourceAnswer {
    fn new(source: &SourceState, now_ns: u64) -> Self {
        Self {
            name: source.name,
            report: source.current(),
            samples_count: None,
            coverage: None,
            newest_seconds: source.age_s(now_ns),
            errors: source.errors(),
            restarts: source.restarts(),
            metrics: Vec::new(),
        }
    }
}

/// One subject as all sources together know it; they are in the order of the sources.
fn merge(
    known: &[Arc<Subject>],
    now_ns: u64,
    window: Duration,
    selection: &Selection,
) -> SubjectAnswer {
    let (pid, process_start_ns) = match known.first().map(|subject| &subject.key) {
        Some(SubjectKey::Process(id)) => (Some(id.pid), Some(id.start_ns)),
        _ => (None, None),
    };
    let mut answer = SubjectAnswer {
        pid,
        process_start_ns,
        labels: Labels::default(),
        samples_count: 0,
        coverage: 0.0,
        metrics: Measured::default(),
    };
    for subject in known {
        let labels = &subject.labels;
        answer.labels.comm = answer.labels.comm.take().or_else(|| labels.comm.clone());
        let container = answer.labels.container_id.take();
        answer.labels.container_id = container.or_else(|| labels.container_id.clone());
        answer.labels.pod_uid = answer.labels.pod_uid.take().or_else(|| labels.pod_uid.clone());
        let part = part(&subject.tape, now_ns, window, selection);
        if answer.samples_count == 0 {
            (answer.samples_count, answer.coverage) = (part.samples, part.coverage);
        }
        for (metric, bits, stats) in part.stats {
            if !answer.metrics.has(&metric) {
                answer.metrics.0.push((metric, bits, stats));
            }
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{IPC, MEM_USAGE};
    use crate::subjects::{SubjectSample, SubjectTable};
    use crosstalk_model::ProcessId;

    const SECOND: u64 = 1_000_000_000;
    const KEPT: Duration = Duration::from_secs(30);
    const PERIOD: Duration = Duration::from_secs(1);

    fn window(seconds: u64, subject: Option<Kind>) -> Query {
        let selection = Selection::All;
        Query { window: Duration::from_secs(seconds), subject, top: 10, selection }
    }

    #[test]
    fn a_metric_of_half_the_window_is_partial_and_what_is_still_to_come_makes_none_so() {
        let now_ns = monotonic_ns();
        let source = |name, metrics: &[Metric], ages: std::ops::Range<u64>| {
            let tape = Tape::new(metrics, KEPT, PERIOD).unwrap();
            let values = vec![Some(0.5); metrics.len()];
            for age in ages.rev() {
                // The newest ended half a second ago.
                let end_ns = now_ns - age * SECOND - SECOND / 2;
                tape.push(end_ns, SECOND, &values).unwrap();
            }
            Arc::new(SourceState::new(name, Some(tape), SubjectTable::none()))
        };
        let whole = source("whole", &[CPU_UTIL], 0..25);
        let late = source("late", &[IPC], 0..10);
        let stopped = source("stopped", &[MEM_USAGE], 10..25);
        let node = Node::new(vec![whole, late, stopped], KEPT);
        let answer = node.answer(&window(20, None));
        let names: Vec<&str> = answer.partial.keys().copied().collect();
        assert_eq!(names, [IPC.name, MEM_USAGE.name]);
        assert!((answer.partial[IPC.name] - 0.5).abs() < 0.05, "{:?}", answer.partial);
    }

    #[test]
    fn who_used_more_processor_time_in_the_window_comes_before_a_busier_newcomer() {
        let now_ns = monotonic_ns();
        let subjects = SubjectTable::new(&[CPU_UTIL], KEPT, PERIOD, 10);
        let sample = |pid, used| SubjectSample {
            key: SubjectKey::Process(ProcessId { pid, start_ns: 1 }),
            labels: Labels::default(),
            values: vec![Some(used)],
        };
        for age in (0..20).rev() {
            let mut samples = vec![sample(1, 0.5)];
            samples.extend((age == 0).then(|| sample(2, 0.9)));
            subjects.take(now_ns - age * SECOND, SECOND, samples, None);
        }
        let source = Arc::new(SourceState::new("source", None, subjects));
        let answer = Node::new(vec![source], KEPT).answer(&window(20, Some(Kind::Process)));
        let pids: Vec<_> = answer.below.unwrap().subjects.iter().map(|s| s.pid).collect();
        assert_eq!(pids, [Some(1), Some(2)]);
    }
}
