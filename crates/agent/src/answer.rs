//! The answer about a window.

use crate::memory::{Which, WindowMemory};
use crate::node::{Node, unix_seconds};
use crate::query::{Query, Selection};
use crate::window::{Labels, Series, SourceWindow, Subject};
use crosstalk_host::{Capability, Verdict, monotonic_ns};
use crosstalk_model::metric::{CPU_UTIL, STATISTICS};
use crosstalk_model::{Metric, Placement, SubjectKey, SubjectKind};
use crosstalk_window::{Stats, View, Window};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// What is told about a window, in the order of the JSON.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Answer {
    #[serde(serialize_with = "whole_if_whole")]
    window_seconds: f64,
    samples_count: usize,
    coverage: f64,
    newest_seconds: Option<f64>,
    metrics: Measured,
    /// Metrics measured in only a part of the window, with that part.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = std::collections::HashMap<String, f64>)]
    partial: BTreeMap<&'static str, f64>,
    /// Metrics nobody measured, with the reason.
    #[schema(value_type = std::collections::HashMap<String, String>)]
    absent: BTreeMap<&'static str, String>,
    /// What is used of memory, and how much of it is cold.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<WindowMemory>,
    #[serde(flatten)]
    below: Option<Below>,
    sources: Vec<SourceAnswer>,
    timestamp: f64,
}

/// Processes, containers or pods.
#[derive(Serialize, utoipa::ToSchema)]
struct Below {
    #[schema(value_type = String)]
    subject: SubjectKind,
    subjects_count: usize,
    subjects: Vec<SubjectAnswer>,
}

#[derive(Serialize, utoipa::ToSchema)]
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
    /// What is used of memory, of pods and containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<WindowMemory>,
}

/// One source in the answer and in `/ready`.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct SourceAnswer {
    name: &'static str,
    /// starting, ok, limited, absent, failing or off.
    #[schema(value_type = String)]
    verdict: Verdict,
    /// What was found, and why it is so.
    found: String,
    /// What would make it better.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
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
pub(crate) struct Measured(Vec<(Metric, u8, Stats)>);

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

/// What one series has to say about a window.
struct Part {
    samples: usize,
    coverage: f64,
    /// Share of the window at its newest edge whose samples cannot have come yet.
    pending: f64,
    stats: Vec<(Metric, u8, Stats)>,
}

impl Part {
    /// The share of the window that is missing beyond what is still to come.
    fn lack(&self, coverage: f64) -> f64 {
        (1.0 - self.pending - coverage).max(0.0)
    }
}

/// A metric as one source measured it.
struct Candidate {
    metric: Metric,
    bits: u8,
    stats: Stats,
    lack: f64,
    source: usize,
}

/// Takes a metric from who measured most of the window; of equals, the earlier source is the better.
fn consider(best: &mut Vec<Candidate>, candidate: Candidate) {
    match best.iter_mut().find(|known| known.metric.name == candidate.metric.name) {
        None => best.push(candidate),
        Some(known) if candidate.lack + WORTH < known.lack => *known = candidate,
        Some(_) => {}
    }
}

/// So much more of the window makes a lesser source the better one.
const WORTH: f64 = 0.05;
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

fn part(series: &Series, now_ns: u64, length: Duration, selection: &Selection) -> Part {
    let view = series.view();
    let Ok(window) = view.window(now_ns, length) else {
        return Part { samples: 0, coverage: 0.0, pending: 0.0, stats: Vec::new() };
    };
    let stats = match selection {
        // All at once share their working memory.
        Selection::All => series
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
            series.metrics().iter().enumerate().filter_map(chosen).collect()
        }
    };
    let pending = pending(&view, &window, now_ns, length);
    Part { samples: window.samples(), coverage: window.coverage(), pending, stats }
}

impl Node {
    /// Answers a question about the time up to now.
    pub(crate) fn answer(&self, query: &Query) -> Answer {
        let now_ns = monotonic_ns();
        let mut sources: Vec<SourceAnswer> = Vec::with_capacity(self.sources.len());
        let mut best: Vec<Candidate> = Vec::new();
        let mut leading: Option<(f64, usize)> = None;
        for (at, source) in self.sources.iter().enumerate() {
            let mut answer = SourceAnswer::new(source, now_ns);
            if let Some(series) = &source.series {
                let part = part(series, now_ns, query.window, &query.selection);
                answer.samples_count = Some(part.samples);
                answer.coverage = Some(part.coverage);
                let lack = part.lack(part.coverage);
                if part.samples > 0 && leading.is_none_or(|(least, _)| lack + WORTH < least) {
                    leading = Some((lack, at));
                }
                for (metric, bits, stats) in part.stats {
                    let lack = (1.0 - part.pending - stats.coverage).max(0.0);
                    consider(&mut best, Candidate { metric, bits, stats, lack, source: at });
                }
            }
            sources.push(answer);
        }
        let mut partial = BTreeMap::new();
        let mut metrics = Measured(Vec::with_capacity(best.len()));
        for Candidate { metric, bits, stats, lack, source } in best {
            if lack > UNEVEN {
                partial.insert(metric.name, stats.coverage);
            }
            sources[source].metrics.push(metric.name);
            metrics.0.push((metric, bits, stats));
        }
        let leading = leading.map(|(_, at)| {
            let source = &sources[at];
            (
                source.samples_count.unwrap_or(0),
                source.coverage.unwrap_or(0.0),
                source.newest_seconds,
            )
        });
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
            memory: self.memory_in(query, None),
            below: query.subject.map(|kind| self.below(kind, query, now_ns)),
            sources,
            timestamp: unix_seconds(),
        }
    }

    /// The subjects of a kind with most processor time in the window, each merged over the sources that know it.
    fn below(&self, kind: SubjectKind, query: &Query, now_ns: u64) -> Below {
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
            .map(|(_, key)| SubjectAnswer {
                memory: self.memory_in(query, Some(key)),
                ..merge(&by_key[key], now_ns, query.window, &query.selection)
            })
            .collect();
        Below { subject: kind, subjects_count, subjects }
    }

    /// Memory of the node or of a subject, unless only certain metrics were asked for.
    fn memory_in(&self, query: &Query, subject: Option<&SubjectKey>) -> Option<WindowMemory> {
        let (which, name) = match subject {
            None => (Which::Node, ""),
            Some(SubjectKey::Pod(uid)) => (Which::Pod, &**uid),
            Some(SubjectKey::Container(id)) => (Which::Container, &**id),
            Some(SubjectKey::Process(_)) => return None,
        };
        let is_all = query.selection == Selection::All;
        is_all.then(|| WindowMemory::of(self, which, name, query.window)).flatten()
    }

    /// Every source as it stands.
    pub(crate) fn verdicts(&self) -> Vec<SourceAnswer> {
        let now_ns = monotonic_ns();
        self.sources.iter().map(|source| SourceAnswer::new(source, now_ns)).collect()
    }
}

impl SourceAnswer {
    fn new(source: &SourceWindow, now_ns: u64) -> Self {
        let Capability { verdict, found, fix, .. } = source.standing().capability;
        Self {
            name: source.name(),
            verdict,
            found,
            fix,
            samples_count: None,
            coverage: None,
            newest_seconds: source.age_s(now_ns),
            errors: source.status.errors(),
            restarts: source.status.restarts(),
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
        memory: None,
    };
    let mut lacks: Vec<f64> = Vec::new();
    for subject in known {
        let labels = &subject.labels;
        answer.labels.comm = answer.labels.comm.take().or_else(|| labels.comm.clone());
        if *answer.labels.place == Placement::default() {
            answer.labels.place = Arc::clone(&labels.place);
        }
        let part = part(&subject.series, now_ns, window, selection);
        // Those of the source that the processor time is from, which is what subjects are ranked by.
        let counts = (part.samples, part.coverage);
        if answer.samples_count == 0 {
            (answer.samples_count, answer.coverage) = counts;
        }
        for (metric, bits, stats) in part.stats {
            let lack = (1.0 - part.pending - stats.coverage).max(0.0);
            let known = answer.metrics.0.iter().position(|(known, ..)| known.name == metric.name);
            match known {
                None => {
                    answer.metrics.0.push((metric, bits, stats));
                    lacks.push(lack);
                }
                Some(at) if lack + WORTH < lacks[at] => {
                    if metric.name == CPU_UTIL.name {
                        (answer.samples_count, answer.coverage) = counts;
                    }
                    answer.metrics.0[at] = (metric, bits, stats);
                    lacks[at] = lack;
                }
                Some(_) => {}
            }
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::source as source_of;
    use crate::window::{SubjectTable, process};
    use crosstalk_collect::SubjectPeriod;
    use crosstalk_model::metric::{IPC, MEM_USED};

    const SECOND: u64 = 1_000_000_000;
    const KEPT: Duration = Duration::from_secs(30);
    const PERIOD: Duration = Duration::from_secs(1);

    fn window(seconds: u64, subject: Option<SubjectKind>) -> Query {
        let selection = Selection::All;
        Query { window: Duration::from_secs(seconds), subject, top: 10, selection }
    }

    #[test]
    fn a_metric_of_half_the_window_is_partial_and_what_is_still_to_come_makes_none_so() {
        let now_ns = monotonic_ns();
        let source = |name, metrics: &[Metric], ages: std::ops::Range<u64>| {
            let series = Series::new(metrics, KEPT, PERIOD).unwrap();
            let values = vec![Some(0.5); metrics.len()];
            for age in ages.rev() {
                // The newest ended half a second ago.
                let end_ns = now_ns - age * SECOND - SECOND / 2;
                series.push(end_ns, SECOND, &values).unwrap();
            }
            Arc::new(source_of(name, Some(series), SubjectTable::none()))
        };
        let whole = source("whole", &[CPU_UTIL], 0..25);
        let late = source("late", &[IPC], 0..10);
        let stopped = source("stopped", &[MEM_USED], 10..25);
        let node = Node::new(vec![whole, late, stopped], KEPT);
        let answer = node.answer(&window(20, None));
        let names: Vec<&str> = answer.partial.keys().copied().collect();
        assert_eq!(names, [IPC.name, MEM_USED.name]);
        assert!((answer.partial[IPC.name] - 0.5).abs() < 0.05, "{:?}", answer.partial);
    }

    #[test]
    fn who_used_more_processor_time_in_the_window_comes_before_a_busier_newcomer() {
        let now_ns = monotonic_ns();
        let subjects = SubjectTable::new(&[CPU_UTIL], KEPT, PERIOD, 10);
        for age in (0..20).rev() {
            let mut samples = vec![process(1, Some(0.5))];
            samples.extend((age == 0).then(|| process(2, Some(0.9))));
            let (end_ns, covers_ns) = (now_ns - age * SECOND, SECOND);
            subjects.take(&SubjectPeriod { end_ns, covers_ns, samples, unseen: None });
        }
        let source = Arc::new(source_of("source", None, subjects));
        let answer = Node::new(vec![source], KEPT).answer(&window(20, Some(SubjectKind::Process)));
        let pids: Vec<_> = answer.below.unwrap().subjects.iter().map(|s| s.pid).collect();
        assert_eq!(pids, [Some(1), Some(2)]);
    }

    #[test]
    fn a_source_that_died_does_not_win_over_one_that_goes_on() {
        let now_ns = monotonic_ns();
        let source = |name, value: f64, ages: std::ops::Range<u64>| {
            let series = Series::new(&[CPU_UTIL], KEPT, PERIOD).unwrap();
            for age in ages.rev() {
                series.push(now_ns - age * SECOND, SECOND, &[Some(value)]).unwrap();
            }
            Arc::new(source_of(name, Some(series), SubjectTable::none()))
        };
        let died = source("counters", 0.9, 15..25);
        let lives = source("proc", 0.1, 0..25);
        let answer = Node::new(vec![Arc::clone(&died), lives], KEPT).answer(&window(20, None));
        assert_eq!(answer.metrics.0[0].2.mean, 0.1);
        assert_eq!(answer.sources[1].metrics, [CPU_UTIL.name]);
        assert!(answer.coverage > 0.9 && answer.partial.is_empty());
        // Both as good: the earlier source is the better one.
        let better = source("counters", 0.9, 0..25);
        let as_good = source("proc", 0.1, 0..25);
        let answer = Node::new(vec![better, as_good], KEPT).answer(&window(20, None));
        assert_eq!(answer.metrics.0[0].2.mean, 0.9);
        // And where nobody else has it, late is better than never, and said to be partial.
        let answer = Node::new(vec![died], KEPT).answer(&window(20, None));
        assert!(answer.partial.contains_key(CPU_UTIL.name));
    }
}
