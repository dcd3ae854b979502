use crate::clock::{monotonic_ns, unix_ns};
use crate::latency::Latencies;
use crate::metric::{Metric, NODE};
use crate::status::{SourceState, Verdict, locked};
use crosstalk_window::Timeline;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Everything known about this node: what the sources measured and how they stand.
///
/// ```
/// use crosstalk_agent::{Node, SourceState, SubjectTable, Tape, metric};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let kept = Duration::from_secs(30);
/// let tape = Tape::new(&[metric::CPU_UTIL], kept, Duration::from_secs(1))?;
/// let source = Arc::new(SourceState::new("example", Some(tape), SubjectTable::none()));
/// let node = Node::new(vec![source], kept);
/// assert!(!node.is_ready());
/// # Ok::<(), crosstalk_window::WindowError>(())
/// ```
#[derive(Debug)]
pub struct Node {
    /// The sources, the best first.
    pub(crate) sources: Vec<Arc<SourceState>>,
    /// Every metric an answer can have, in its order.
    pub(crate) catalog: Vec<Metric>,
    /// How far back windows reach.
    pub(crate) retention: Duration,
    /// Whether processes, containers and pods are followed.
    pub(crate) follows_subjects: bool,
    /// How many subjects of a kind Prometheus is shown.
    pub(crate) prometheus_limit: usize,
    /// A sample no older than this is fresh.
    pub(crate) fresh: Duration,
    pub(crate) started: Instant,
    pub(crate) started_unix_s: f64,
    pub(crate) latencies: Latencies,
    pub(crate) connections: AtomicUsize,
    pub(crate) refused: AtomicU64,
    pub(crate) accept_errors: AtomicU64,
    timeline: Mutex<Timeline>,
}

impl Node {
    /// A node with these sources, the best first, whose windows reach back `retention`.
    #[must_use]
    pub fn new(sources: Vec<Arc<SourceState>>, retention: Duration) -> Self {
        Self {
            catalog: catalog(&sources),
            sources,
            retention,
            follows_subjects: true,
            prometheus_limit: 50,
            fresh: Duration::from_secs(10),
            started: Instant::now(),
            started_unix_s: unix_ns() as f64 * 1e-9,
            latencies: Latencies::default(),
            connections: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            accept_errors: AtomicU64::new(0),
            timeline: Mutex::new(Timeline::new(monotonic_ns(), unix_ns())),
        }
    }

    /// Whether at least one source has a fresh sample.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let now_ns = monotonic_ns();
        let fresh = |age: f64| age <= self.fresh.as_secs_f64();
        self.sources.iter().any(|source| source.age_s(now_ns).is_some_and(fresh))
    }

    /// Compares the clocks; a step of the wall clock is counted. It moves no sample.
    pub(crate) fn look_at_clocks(&self) {
        locked(&self.timeline).look(monotonic_ns(), unix_ns());
    }

    pub(crate) fn clock_steps(&self) -> u64 {
        locked(&self.timeline).steps()
    }

    /// Why nobody measured a metric, by what each source that could says.
    pub(crate) fn why_absent(&self, metric: &str) -> String {
        let mut reasons = Vec::new();
        for source in &self.sources {
            if source.metrics().iter().all(|known| known.name != metric) {
                continue;
            }
            let report = source.current();
            let own = report.absent.iter().find(|(name, _)| *name == metric);
            let why = match (own, report.verdict) {
                (Some((_, why)), _) => why.as_str(),
                // It measures this: what else it lacks is no reason.
                (None, Verdict::Ok | Verdict::Limited) => "no sample in this window yet",
                (None, _) => report.found.as_str(),
            };
            reasons.push(format!("{}: {why}", source.name));
        }
        reasons.join("; ")
    }
}

/// Every metric some source can have, each once: those of every node first.
fn catalog(sources: &[Arc<SourceState>]) -> Vec<Metric> {
    let known = |name: &str| sources.iter().flat_map(|s| s.metrics()).any(|m| m.name == name);
    let mut all: Vec<Metric> = NODE.iter().filter(|metric| known(metric.name)).copied().collect();
    for metric in sources.iter().flat_map(|source| source.metrics()) {
        if all.iter().all(|known| known.name != metric.name) {
            all.push(*metric);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{CPU_UTIL, IPC};
    use crate::status::Report;
    use crate::subjects::SubjectTable;
    use crate::tape::Tape;

    #[test]
    fn what_else_a_source_lacks_is_no_reason_for_a_metric_it_measures() {
        let second = Duration::from_secs(1);
        let tape = || Tape::new(&[CPU_UTIL, IPC], second * 30, second).unwrap();
        let source = |name, report| {
            let state = SourceState::new(name, Some(tape()), SubjectTable::none());
            state.report(report);
            Arc::new(state)
        };
        let absent = vec![(IPC.name, "no cycle counter".to_owned())];
        let limited = Report { absent, ..Report::new(Verdict::Limited, "no hardware counters") };
        let off = Report::new(Verdict::Off, "switched off");
        let sources = vec![source("counters", limited), source("pcm", off)];
        let node = Node::new(sources, second * 30);
        assert_eq!(
            node.why_absent(CPU_UTIL.name),
            "counters: no sample in this window yet; pcm: switched off"
        );
        assert_eq!(node.why_absent(IPC.name), "counters: no cycle counter; pcm: switched off");
    }
}
