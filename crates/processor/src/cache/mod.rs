//! The pod and the workloads that a series or a log line is about.
//!
//! What there is comes from the [`crosstalk_inventory`]; this module knows how the labels of a series speak of it.

pub(crate) mod database;
mod find;
pub(crate) mod reports;
mod roles;
pub(crate) mod saved;
mod view;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use crosstalk_inventory::{Facts, History, Inventory, Standing};

pub(crate) use find::Keys;
pub use find::{Found, Miss, Snapshot};
pub(crate) use roles::MAX_NAMES;
pub use roles::{LabelNames, Roles};
pub use view::{DeviceView, device_view, workload_view};

/// The live caches.
///
/// ```
/// use crosstalk_inventory::{Facts, Pod, Workload};
/// use crosstalk_processor::cache::{Cache, LabelNames};
/// let cache = Cache::new(LabelNames::default(), std::time::Duration::from_secs(60));
/// let workload = Workload { name: "train".into(), uid: "w1".into(), ..Default::default() };
/// let pod = Pod { name: "train-0".into(), uid: "p1".into(), workloads: vec![workload], ..Default::default() };
/// cache.update("static", Facts { pods: vec![pod], ..Default::default() });
/// assert_eq!(&*cache.snapshot().pod("p1").unwrap().name, "train-0");
/// ```
#[derive(Debug)]
pub struct Cache {
    inventory: Inventory,
    names: LabelNames,
    roles: ArcSwap<Roles>,
}

impl Cache {
    /// An empty cache in which a pod stays known for `grace` after it is gone.
    pub fn new(names: LabelNames, grace: Duration) -> Self {
        Cache::remembering(names, grace, grace)
    }

    /// As [`Cache::new`], with what is over found for so long by the time of a sample.
    pub fn remembering(names: LabelNames, grace: Duration, kept: Duration) -> Self {
        let roles = ArcSwap::from_pointee(Roles::new(&names, &[]));
        let history = History { grace, kept: kept.max(grace), open_start: true };
        Cache { inventory: Inventory::remembering(history), names, roles }
    }

    /// What is known now; does not change while held.
    pub fn snapshot(&self) -> Snapshot {
        let known = self.inventory.snapshot();
        let mut roles = self.roles.load_full();
        if !roles.fit(known.device_labels()) {
            let labels: Vec<&str> = known.device_labels().collect();
            roles = Arc::new(Roles::new(&self.names, &labels));
            self.roles.store(Arc::clone(&roles));
        }
        Snapshot::new(known, roles)
    }

    /// Replaces everything `source` said before.
    pub fn update(&self, source: &'static str, facts: Facts) {
        self.inventory.update(source, facts);
    }

    /// Where the sources write.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Seconds since each source was last heard; infinite for one that never was.
    pub fn ages(&self) -> Vec<(&'static str, f64)> {
        let age = |age: Option<Duration>| age.map_or(f64::INFINITY, |age| age.as_secs_f64());
        let statuses = self.inventory.statuses().into_iter();
        statuses.map(|status| (status.name, age(status.age))).collect()
    }

    /// The sources that may know of a pod that is not known here; agents only tell of devices. Of a pod `elsewhere`, in a
    /// namespace that is not followed, those do not that know the pods of one namespace.
    pub fn in_doubt_of_pods(standing: &Standing, elsewhere: bool) -> Vec<&'static str> {
        let mut doubtful = standing.doubtful();
        doubtful.retain(|source| *source != reports::AGENTS);
        doubtful.retain(|source| !(elsewhere && standing.confined.contains(source)));
        doubtful
    }

    /// Which sources are still waited for, and of which only an earlier process's knowledge is used.
    pub fn standing(&self) -> Arc<Standing> {
        self.inventory.standing()
    }
}

#[cfg(test)]
mod tests;
