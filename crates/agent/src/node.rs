use crate::detector::Verdicts;
use crate::memory::Memory;
use crate::node_metric::Reports;
use crate::window::SourceWindow;
use crosstalk_collect::Overview;
use crosstalk_host::{Verdict, monotonic_ns};
use crosstalk_inventory::Inventory;
use crosstalk_model::metric::NODE;
use crosstalk_model::{Metric, Placement};
use crosstalk_recording::RecorderStatus;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Everything known about this node: what the sources measured and how they stand.
///
/// ```
/// use crosstalk_agent::{Node, Series, SourceWindow, SubjectTable};
/// use crosstalk_collect::{About, SourceStatus};
/// use crosstalk_model::metric;
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// static ABOUT: About =
///     About { name: "example", datasets: &[], metrics: &[metric::CPU_UTIL], subjects: &[] };
/// let status = Arc::new(SourceStatus::new(&ABOUT));
/// let kept = Duration::from_secs(30);
/// let series = Series::new(&[metric::CPU_UTIL], kept, Duration::from_secs(1))?;
/// let source = Arc::new(SourceWindow::new(status, Some(series), SubjectTable::none()));
/// let node = Node::new(vec![source], kept);
/// assert!(!node.is_ready());
/// # Ok::<(), crosstalk_window::WindowError>(())
/// ```
#[derive(Debug)]
pub struct Node {
    /// The sources, the best first.
    pub(crate) sources: Vec<Arc<SourceWindow>>,
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
    /// Where names come from; absent where nobody asks for any.
    pub(crate) inventory: Option<Inventory>,
    /// Who slows whom; absent where that is not asked.
    pub(crate) verdicts: Option<Arc<Verdicts>>,
    /// How everything is collected; absent where nothing is.
    pub(crate) overview: Option<Overview>,
    /// How the recording stands, if there is to be one.
    pub(crate) recording: Option<RecorderStatus>,
    /// What is used of memory, and how much of it is cold.
    pub(crate) memory: Arc<Memory>,
    /// How often NodeMetric was told.
    pub(crate) reports: Reports,
}

impl Node {
    /// A node with these sources, the best first, whose windows reach back `retention`.
    #[must_use]
    pub fn new(sources: Vec<Arc<SourceWindow>>, retention: Duration) -> Self {
        Self {
            catalog: catalog(&sources),
            sources,
            retention,
            follows_subjects: true,
            prometheus_limit: 50,
            fresh: Duration::from_secs(10),
            started: Instant::now(),
            started_unix_s: unix_seconds(),
            inventory: None,
            verdicts: None,
            overview: None,
            recording: None,
            memory: Arc::new(Memory::new(Vec::new(), Default::default(), 512)),
            reports: Reports::default(),
        }
    }

    /// Whether at least one source has a fresh sample.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let now_ns = monotonic_ns();
        let fresh = |age: f64| age <= self.fresh.as_secs_f64();
        self.sources.iter().any(|source| source.age_s(now_ns).is_some_and(fresh))
    }

    /// A placement with every name that its ids lead to.
    pub(crate) fn place(&self, place: &Placement) -> Placement {
        let inventory = self.inventory.as_ref();
        inventory.map_or_else(|| place.clone(), |inventory| inventory.snapshot().place(place))
    }

    /// Times the wall clock was set, or the machine suspended. Neither moves a sample.
    pub(crate) fn clock_steps(&self) -> u64 {
        self.overview.as_ref().map_or(0, |overview| {
            let clock = overview.clock();
            clock.look();
            clock.steps().len() as u64 + clock.unlisted_steps()
        })
    }

    /// Why nobody measured a metric, by what each source that could says.
    pub(crate) fn why_absent(&self, metric: &str) -> String {
        let mut reasons = Vec::new();
        for source in &self.sources {
            if source.metrics().iter().all(|known| known.name != metric) {
                continue;
            }
            let standing = source.standing();
            let own = standing.absent.iter().find(|(name, _)| *name == metric);
            let why = match (own, standing.capability.verdict) {
                (Some((_, why)), _) => why.as_str(),
                // It measures this: what else it lacks is no reason.
                (None, Verdict::Ok | Verdict::Limited) => "no sample in this window yet",
                (None, _) => standing.capability.found.as_str(),
            };
            reasons.push(format!("{}: {why}", source.name()));
        }
        reasons.join("; ")
    }
}

/// Every metric some source can have, each once: those of every node first.
fn catalog(sources: &[Arc<SourceWindow>]) -> Vec<Metric> {
    let known = |name: &str| sources.iter().flat_map(|s| s.metrics()).any(|m| m.name == name);
    let mut all: Vec<Metric> = NODE.iter().filter(|metric| known(metric.name)).copied().collect();
    for metric in sources.iter().flat_map(|source| source.metrics()) {
        if all.iter().all(|known| known.name != metric.name) {
            all.push(*metric);
        }
    }
    all
}

/// The time of day, to date answers with.
pub(crate) fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::window::{Series, SubjectTable};
    use crosstalk_collect::{About, SourceStatus, Standing};
    use crosstalk_host::Capability;
    use crosstalk_model::metric::{CPU_UTIL, IPC};

    /// A source that lives as long as the test program.
    pub(crate) fn source(
        name: &'static str,
        series: Option<Series>,
        subjects: SubjectTable,
    ) -> SourceWindow {
        let about = About { name, datasets: &[], metrics: &[], subjects: &[] };
        let status = SourceStatus::new(Box::leak(Box::new(about)));
        SourceWindow::new(Arc::new(status), series, subjects)
    }

    #[test]
    fn what_else_a_source_lacks_is_no_reason_for_a_metric_it_measures() {
        let second = Duration::from_secs(1);
        let source = |name, verdict, found, absent| {
            let series = Series::new(&[CPU_UTIL, IPC], second * 30, second).unwrap();
            let window = source(name, Some(series), SubjectTable::none());
            let capability = Capability::new(name, verdict, found);
            window.status.set(Standing { capability, absent });
            Arc::new(window)
        };
        let absent = vec![(IPC.name, "no cycle counter".to_owned())];
        let sources = vec![
            source("counters", Verdict::Limited, "no hardware counters", absent),
            source("pcm", Verdict::Off, "switched off", Vec::new()),
        ];
        let node = Node::new(sources, second * 30);
        assert_eq!(
            node.why_absent(CPU_UTIL.name),
            "counters: no sample in this window yet; pcm: switched off"
        );
        assert_eq!(node.why_absent(IPC.name), "counters: no cycle counter; pcm: switched off");
    }
}
