//! Processor time of the node and its pods over longer than the window keeps it.

use crate::memory::History;
use crate::node::Node;
use crate::window::Series;
use crosstalk_host::monotonic_ns;
use crosstalk_model::metric::CPU_UTIL;
use crosstalk_model::{SubjectKey, SubjectKind};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Cores in use, as histories.
#[derive(Debug, Default)]
pub(crate) struct CpuUse {
    pub(crate) node: History<1>,
    pub(crate) pods: HashMap<Arc<str>, History<1>>,
}

impl CpuUse {
    /// Adds what the last `length` of the window says. Metrics are shares of all `cores`.
    pub(crate) fn take(&mut self, node: &Node, cores: f64, length: Duration) {
        let now_ns = monotonic_ns();
        let all = node.sources.iter();
        let of_node = best(all.filter_map(|source| source.series.as_ref()), now_ns, length);
        if let Some(share) = of_node {
            self.node.push(now_ns, [Some(share * cores)]);
        }
        let mut known: HashMap<Arc<str>, Vec<Arc<Series>>> = HashMap::new();
        for subject in node.sources.iter().flat_map(|source| source.subjects.of(SubjectKind::Pod)) {
            if let SubjectKey::Pod(uid) = &subject.key {
                known.entry(Arc::clone(uid)).or_default().push(Arc::clone(&subject.series));
            }
        }
        for (uid, series) in known {
            if let Some(share) = best(series.iter().map(|series| &**series), now_ns, length) {
                self.pods.entry(uid).or_default().push(now_ns, [Some(share * cores)]);
            }
        }
        self.pods.retain(|_, history| history.is_known_at(now_ns));
    }
}

/// Of several sources the one that measured most of the time; of equals the first.
fn best<'a>(all: impl Iterator<Item = &'a Series>, now_ns: u64, length: Duration) -> Option<f64> {
    let mut found: Option<(f64, f64)> = None;
    for series in all {
        let at = series.metrics().iter().position(|metric| metric.name == CPU_UTIL.name);
        let view = series.view();
        let stats = at.and_then(|at| view.window(now_ns, length).ok()?.stats(at));
        let Some(stats) = stats else { continue };
        if found.is_none_or(|(coverage, _)| stats.coverage > coverage + 0.05) {
            found = Some((stats.coverage, stats.mean));
        }
    }
    found.map(|(_, mean)| mean)
}
