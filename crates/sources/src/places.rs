//! Where processes run, by the cgroup the kernel saw them in.

use crosstalk_host::HostRoot;
use crosstalk_inventory::{Cgroups, Inventory};
use crosstalk_model::Placement;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One cgroup.
pub(crate) struct Place {
    /// Its path in the hierarchy; absent when it was gone before we looked.
    pub(crate) path: Option<String>,
    pub(crate) placement: Arc<Placement>,
}

/// Cgroups seen, with the names the inventory has for them.
pub(crate) struct Places {
    cgroups: Cgroups,
    inventory: Inventory,
    known: HashMap<u64, Arc<Place>>,
    asked: Instant,
}

/// A container has its name some time after its first process ran; so often it is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl Places {
    pub(crate) fn new(host: &HostRoot, inventory: &Inventory) -> Self {
        let (cgroups, inventory) = (Cgroups::new(host), inventory.clone());
        Self { cgroups, inventory, known: HashMap::new(), asked: Instant::now() }
    }

    /// Call once in a while: what was learnt about names meanwhile is taken over.
    pub(crate) fn refresh(&mut self) {
        if self.asked.elapsed() >= ASK_AGAIN {
            self.asked = Instant::now();
            self.known.clear();
        }
    }

    /// The cgroup `id`, in which process `pid` was seen.
    pub(crate) fn of(&mut self, id: u64, pid: u32) -> &Arc<Place> {
        let Self { cgroups, inventory, known, .. } = self;
        known.entry(id).or_insert_with(|| {
            let cgroup = cgroups.resolve(id, pid);
            let placement = Arc::new(inventory.snapshot().place_cgroup(&cgroup));
            Arc::new(Place { path: cgroup.path.clone(), placement })
        })
    }
}
