//! Which pod holds a device, and which workloads a pod belongs to.
//!
//! Sources (a static file, the database, Kubernetes) hand in whole inventories; readers get an immutable snapshot that
//! was swapped in at once, so a request never sees half of an update. The cache knows nothing of how a source learns.

pub(crate) mod database;
mod inventory;
mod merge;
mod roles;
mod snapshot;
mod static_file;
mod view;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

pub use inventory::{Device, Inventory, Pod, Workload};
pub use roles::{LabelNames, Roles};
pub use snapshot::{Miss, PodEntry, Snapshot};
pub use static_file::read_static_file;
pub use view::{DeviceView, device_view, workload_view};

use merge::Departed;

/// The live caches.
///
/// ```
/// use crosstalk_processor::cache::{Cache, Inventory, LabelNames, Pod, Workload};
/// let cache = Cache::new(LabelNames::default(), std::time::Duration::from_secs(60));
/// let workload = Workload { name: "train".into(), uid: "w1".into(), ..Default::default() };
/// let pod = Pod { name: "train-0".into(), uid: "p1".into(), workloads: vec![workload], ..Default::default() };
/// cache.update("static", Inventory { pods: vec![pod], devices: vec![] });
/// assert_eq!(&*cache.snapshot().pod_by_uid("p1").unwrap().name, "train-0");
/// ```
#[derive(Debug)]
pub struct Cache {
    current: ArcSwap<Snapshot>,
    names: LabelNames,
    grace: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sources: BTreeMap<&'static str, (Inventory, Instant)>,
    /// The last merged inventory, to see who left.
    last: Inventory,
    departed: Vec<Departed>,
    /// Sources that must have been heard before it is worth a warning that none knows a pod; `None` once that is done.
    awaited: Option<usize>,
}

impl State {
    /// Says once, when every source was heard, that none knows a pod: from then on no series finds its workload.
    fn warn_when_empty(&mut self) {
        if self.awaited.is_none_or(|count| self.sources.len() < count) {
            return;
        }
        self.awaited = None;
        if self.last.pods.is_empty() {
            tracing::warn!(
                "no source knows any pod, so no metric gets its workload and enrichment.missing decides (drop unless \
                 configured); give cache.static_file (--pods FILE), set cache.kubernetes.enabled, or fill the \
                 database's tables"
            );
        }
    }
}

impl Cache {
    /// An empty cache in which a pod stays known for `grace` after it is gone.
    pub fn new(names: LabelNames, grace: Duration) -> Self {
        let empty = Snapshot::build(&Inventory::default(), &Inventory::default(), &names);
        Cache {
            current: ArcSwap::from_pointee(empty),
            names,
            grace,
            state: Mutex::new(State::default()),
        }
    }

    /// What is known now; does not change while held.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Replaces everything `source` said before.
    pub fn update(&self, source: &'static str, inventory: Inventory) {
        self.update_at(source, inventory, Instant::now());
    }

    fn update_at(&self, source: &'static str, inventory: Inventory, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.sources.insert(source, (inventory, now));
        let merged = merge::merge(state.sources.values().map(|(inventory, _)| inventory));
        let departed = std::mem::take(&mut state.departed);
        state.departed = merge::departed(departed, &state.last, &merged, now, self.grace);
        let remembered = merge::remembered(&state.departed);
        self.current.store(Arc::new(Snapshot::build(&merged, &remembered, &self.names)));
        state.last = merged;
        state.warn_when_empty();
    }

    /// Tells how many sources there are, heard before or still to be heard.
    pub(crate) fn expect_sources(&self, count: usize) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.awaited = Some(count);
        state.warn_when_empty();
    }

    /// Seconds since each source was last heard.
    pub fn ages(&self) -> Vec<(&'static str, f64)> {
        let state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.sources.iter().map(|(name, (_, at))| (*name, at.elapsed().as_secs_f64())).collect()
    }
}

#[cfg(test)]
mod tests;
