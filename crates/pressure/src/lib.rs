//! Pressure stall information: how long tasks of the node, and of every cgroup, stood still for want of
//! memory, a core or I/O.
//!
//! Data set: pressure. It reads `/proc/pressure/RESOURCE` and, where there is a cgroup v2 hierarchy,
//! `RESOURCE.pressure` of every cgroup in it. It only reads, and takes at most 0.2 % of a core: with
//! very many cgroups it looks more rarely.

mod row;

pub use row::{PressureRow, Resource};

use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{Capability, HostRoot, Stalled, Verdict, monotonic_ns, thread, walk_cgroups};
use crosstalk_inventory::placement_of;
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

/// Reads the pressure of the node and its cgroups again and again.
pub struct PressureSource {
    host: HostRoot,
    slot: SlotLength,
    period: Duration,
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
    /// Looks every `period`.
    pub fn new(host: &HostRoot, slot: SlotLength, period: Duration) -> Self {
        Self { host: host.clone(), slot, period, before: HashMap::new() }
    }

    /// The node first, then every cgroup.
    fn places(&self, root: Option<&Path>) -> Vec<Place> {
        let node = Resource::ALL.map(|r| self.host.path(format!("/proc/pressure/{}", r.name())));
        let mut places =
            vec![Place { id: 0, path: "/".to_owned(), placement: Arc::default(), files: node }];
        let Some(root) = root else { return places };
        walk_cgroups(root, |inside| {
            let folder = root.join(inside);
            let path = format!("/{}", inside.display());
            // The root's pressure is the node's.
            if path != "/"
                && places.len() < MOST_CGROUPS
                && let Ok(about) = fs::metadata(&folder)
            {
                let files = Resource::ALL.map(|r| folder.join(format!("{}.pressure", r.name())));
                let placement = Arc::new(placement_of(&path));
                places.push(Place { id: about.ino(), path, placement, files });
            }
            places.len() < MOST_CGROUPS
        });
        places
    }

    /// What everybody stood still for since the last look.
    fn look(&mut self, root: Option<&Path>, out: &Outlet) -> Vec<PressureRow> {
        let before = mem::take(&mut self.before);
        let mut rows = Vec::new();
        for place in self.places(root) {
            for (resource, file) in Resource::ALL.into_iter().zip(&place.files) {
                let Some(now) = fs::read_to_string(file).ok().and_then(|t| Stalled::parse(&t))
                else {
                    continue;
                };
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
        if self.host.line("/proc/pressure/memory").is_none() {
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
    let mounts = host.line("/proc/1/mounts").or_else(|| host.line("/proc/mounts"))?;
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (mount, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| host.path(mount))
    })?;
    Some(mount)
}

#[cfg(test)]
mod tests;
