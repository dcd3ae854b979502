//! Pressure stall information: how long tasks of the node, and of every cgroup, stood still for want of
//! memory, a core or I/O.
//!
//! Data set: pressure. It reads `/proc/pressure/RESOURCE` and, where there is a cgroup v2 hierarchy,
//! `RESOURCE.pressure` of every cgroup in it. It only reads, and takes at most 0.2 % of a core: with
//! very many cgroups it looks more rarely.

mod row;

pub use row::{PressureRow, Resource};

use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{
    Capability, HostRoot, Mount, Stalled, Verdict, monotonic_ns, thread, walk_cgroups,
};
use crosstalk_inventory::Inventory;
use crosstalk_model::{Placement, Row, SlotLength};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, mem};

/// What the source is.
pub static ABOUT: About =
    About { name: "pressure", datasets: &[PressureRow::DATASET], metrics: &[], subjects: &[] };

/// Share of one core that looking may cost.
const SHARE: f64 = 0.002;
/// Cgroups beyond this are not looked at.
const MOST_CGROUPS: usize = 4_096;
/// Where rows of those are lost.
const BEYOND: &str = "limit of cgroups";

/// Reads the pressure of the node and its cgroups again and again.
pub struct PressureSource {
    host: HostRoot,
    slot: SlotLength,
    period: Duration,
    names: Inventory,
    before: HashMap<(u64, Resource), (u64, Stalled)>,
}

/// One cgroup, or the node.
struct Place {
    id: u64,
    path: String,
    placement: Arc<Placement>,
    files: [PathBuf; 3],
}

impl PressureSource {
    /// Looks every `period`; containers and pods have the names that `names` knows.
    pub fn new(host: &HostRoot, slot: SlotLength, period: Duration, names: &Inventory) -> Self {
        let (host, names) = (host.clone(), names.clone());
        Self { host, slot, period, names, before: HashMap::new() }
    }

    /// The node first, then every cgroup; and how many there are beyond the limit.
    fn places(&self, root: Option<&Path>) -> (Vec<Place>, u64) {
        let node = Resource::ALL.map(|r| Stalled::node_file(&self.host, r.name()));
        let mut places =
            vec![Place { id: 0, path: "/".to_owned(), placement: Arc::default(), files: node }];
        let Some(root) = root else { return (places, 0) };
        let (known, mut beyond) = (self.names.snapshot(), 0);
        walk_cgroups(root, |inside| {
            let folder = root.join(inside);
            let path = format!("/{}", inside.display());
            // The root's pressure is the node's.
            if path == "/" {
                return true;
            }
            if places.len() > MOST_CGROUPS {
                beyond += 1;
            } else if let Ok(about) = fs::metadata(&folder) {
                let files = Resource::ALL.map(|r| Stalled::cgroup_file(&folder, r.name()));
                let placement = Arc::new(known.place_path(&path));
                places.push(Place { id: about.ino(), path, placement, files });
            }
            true
        });
        (places, beyond)
    }

    /// What everybody stood still for since the last look.
    fn look(&mut self, root: Option<&Path>, out: &Outlet) -> Vec<PressureRow> {
        let before = mem::take(&mut self.before);
        let mut rows = Vec::new();
        let (places, beyond) = self.places(root);
        out.lost(ABOUT.datasets[0].name, BEYOND, beyond * Resource::ALL.len() as u64);
        for place in places {
            for (resource, file) in Resource::ALL.into_iter().zip(&place.files) {
                let Some(now) = Stalled::read(file) else { continue };
                let at_ns = monotonic_ns();
                self.before.insert((place.id, resource), (at_ns, now));
                let Some((then_ns, then)) = before.get(&(place.id, resource)) else { continue };
                let unix_ns = out.clock().unix_ns(at_ns);
                rows.push(PressureRow {
                    slot_start_ns: self.slot.floor(unix_ns),
                    covers_ns: at_ns - then_ns,
                    cgroup_id: place.id,
                    cgroup: place.path.as_str().into(),
                    place: Arc::clone(&place.placement),
                    resource,
                    stalled: now.since(*then),
                });
            }
        }
        rows
    }
}

impl Source for PressureSource {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        if Stalled::of_node(&self.host, "memory").is_none() {
            let found = "/proc/pressure is missing: the kernel has no CONFIG_PSI, or psi=0";
            let absent = out.capability(Verdict::Absent, found);
            return Err(absent.fix("boot a kernel with CONFIG_PSI=y and psi=1"));
        }
        let root = unified(&self.host);
        self.before.clear();
        loop {
            let (began, spent) = (Instant::now(), thread::cpu_time());
            let rows = self.look(root.as_deref(), out);
            out.deliver(rows);
            match &root {
                Some(root) => {
                    let found = format!("the node and cgroups below {}", root.display());
                    out.report(Verdict::Ok, found);
                }
                None => {
                    let found = "the node only: no cgroup v2 hierarchy is mounted";
                    let limited = out.capability(Verdict::Limited, found);
                    out.stand(limited.fix("boot with cgroup v2"), Vec::new());
                }
            }
            let pause = self.period.max((thread::cpu_time() - spent).div_f64(SHARE));
            if out.pause(pause.saturating_sub(began.elapsed())) {
                return Ok(());
            }
        }
    }
}

/// Where cgroup v2 is mounted, on hybrid hosts beside v1; only it has pressure.
fn unified(host: &HostRoot) -> Option<PathBuf> {
    let mount = Mount::all(host)?.into_iter().find(|mount| mount.kind == "cgroup2")?;
    Some(host.path(mount.point))
}

#[cfg(test)]
mod tests;
