//! Time that cgroups stood still because they, or one above them, were over their own quota.
//!
//! Data set: throttling. A wait for a core that a cgroup's own quota caused is no neighbour's doing.

use crate::{Mode, Settings, Wired};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{
    Capability, CgroupHierarchy, CgroupTree, HostRoot, Throttled, Verdict, monotonic_ns, thread,
    walk_cgroups,
};
use crosstalk_inventory::{Inventory, Snapshot};
use crosstalk_model::{Placement, Row, SlotLength};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

static ABOUT: About =
    About { name: "throttling", datasets: &[ThrottlingRow::DATASET], metrics: &[], subjects: &[] };

/// The kernel's usual quota period.
const PERIOD: Duration = Duration::from_millis(100);
/// How often it is looked which cgroups there are.
const WALK: Duration = Duration::from_secs(1);
/// Share of one core that looking may cost.
const SHARE: f64 = 0.002;
/// Cgroups beyond this are not looked at.
const MOST_CGROUPS: usize = 4_096;

/// How long a cgroup stood still for its quota: a row of the `throttling` data set.
#[derive(Clone, Debug, PartialEq)]
pub struct ThrottlingRow {
    /// Start of the slot in which it was read, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// The time before it that the row tells of.
    pub covers_ns: u64,
    /// The cgroup's inode number, as in `tasks`.
    pub cgroup_id: u64,
    /// The cgroup's path.
    pub cgroup: Arc<str>,
    /// The container and pod it is.
    pub place: Arc<Placement>,
    /// What its quota, and those above it, did in that time.
    pub throttled: Throttled,
}

crosstalk_model::dataset! {
    ThrottlingRow: "throttling",
    "one row per cgroup that its quota, or one above it, stopped, ten times a second; who was not stopped has none",
    placed |row| row.place,
    by |row| (row.cgroup_id, row.slot_start_ns),
    covers_ns [int] "ns" "the time the row tells of, up to its reading" = |row| row.covers_ns;
    cgroup_id [int] "" "inode number of the cgroup, as in tasks" = |row| row.cgroup_id;
    cgroup [text] "" "path of the cgroup" = |row| &row.cgroup;
    periods [int] "" "quota periods in which it wanted to run" = |row| row.throttled.periods;
    throttled_periods [int] "" "of these, those in which it was stopped"
        = |row| row.throttled.throttled_periods;
    throttled_ns [int] "ns" "time it was stopped, summed over cores" = |row| row.throttled.throttled_ns;
}

pub(crate) fn wire(settings: &Settings) -> Wired {
    let (host, slot, names) = (settings.host.clone(), settings.slot, settings.inventory.clone());
    Wired::new(&ABOUT, Mode::Auto, PERIOD, move |_| Throttling { host, slot, names })
}

struct Throttling {
    host: HostRoot,
    slot: SlotLength,
    names: Inventory,
}

impl Source for Throttling {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        let Some(hierarchy) = CgroupHierarchy::find(&self.host) else {
            let absent = out.capability(Verdict::Absent, "no cgroup file system is mounted");
            return Err(absent.fix("mount -t cgroup2 none /sys/fs/cgroup"));
        };
        let mut quotas = Quotas::new(&self.host, &hierarchy);
        let mut walked: Option<Instant> = None;
        loop {
            let (began, spent) = (Instant::now(), thread::cpu_time());
            if walked.is_none_or(|walked| walked.elapsed() >= WALK) {
                walked = Some(began);
                let beyond = quotas.walk(&self.names.snapshot());
                out.lost(ABOUT.datasets[0].name, "limit of cgroups", beyond);
                let below = quotas.tree.quotas.display();
                out.report(
                    Verdict::Ok,
                    match quotas.groups.len() {
                        0 => format!("no cgroup below {below} has a quota"),
                        some => format!("{some} cgroups below {below} have a quota"),
                    },
                );
            }
            let at_ns = monotonic_ns();
            let slot_start_ns = self.slot.floor(out.clock().unix_ns(at_ns));
            out.deliver(quotas.look(at_ns, slot_start_ns));
            let least = if quotas.groups.is_empty() { WALK } else { PERIOD };
            let pause = least.max((thread::cpu_time() - spent).div_f64(SHARE));
            if out.pause(pause.saturating_sub(began.elapsed())) {
                return Ok(());
            }
        }
    }
}

/// The cgroups that a quota can stop.
struct Quotas {
    tree: CgroupTree,
    groups: Vec<Group>,
    /// When each folder with a quota was read, and what it said.
    before: HashMap<PathBuf, (u64, Throttled)>,
}

struct Group {
    id: u64,
    path: Arc<str>,
    place: Arc<Placement>,
    /// The folders whose quota it is under: its own and those above it.
    under: Vec<PathBuf>,
}

impl Quotas {
    fn new(host: &HostRoot, hierarchy: &CgroupHierarchy) -> Self {
        let tree = CgroupTree::new(host, hierarchy);
        Self { tree, groups: Vec::new(), before: HashMap::new() }
    }

    /// Which cgroups have a quota, their own or one above them; and how many of them are beyond the limit.
    fn walk(&mut self, known: &Snapshot) -> u64 {
        let mut with_quota: Vec<PathBuf> = Vec::new();
        let mut beyond = 0;
        let mut groups = Vec::new();
        walk_cgroups(&self.tree.quotas, |inside| {
            let folder = self.tree.quotas.join(inside);
            // The root has no quota.
            if inside != Path::new("") && Throttled::of_cgroup(&folder).is_some() {
                with_quota.push(folder.clone());
            }
            let under: Vec<PathBuf> =
                with_quota.iter().filter(|above| folder.starts_with(above)).cloned().collect();
            if under.is_empty() {
                return true;
            }
            if groups.len() == MOST_CGROUPS {
                beyond += 1;
            } else if let Ok(about) = fs::metadata(self.tree.root.join(inside)) {
                let path: Arc<str> = format!("/{}", inside.display()).into();
                let place = Arc::new(known.place_path(&path));
                groups.push(Group { id: about.ino(), path, place, under });
            }
            true
        });
        self.before.retain(|folder, _| with_quota.contains(folder));
        self.groups = groups;
        beyond
    }

    /// What quotas did since the last look.
    fn look(&mut self, at_ns: u64, slot_start_ns: u64) -> Vec<ThrottlingRow> {
        let mut grown: HashMap<&Path, (u64, Throttled)> = HashMap::new();
        for folder in self.groups.iter().flat_map(|group| &group.under) {
            if grown.contains_key(folder.as_path()) {
                continue;
            }
            let Some(now) = Throttled::of_cgroup(folder) else { continue };
            let then = self.before.insert(folder.clone(), (at_ns, now));
            if let Some((then_ns, then)) = then
                && let Some(since) = now.since(then)
            {
                grown.insert(folder, (at_ns.saturating_sub(then_ns), since));
            }
        }
        let row = |group: &Group| {
            let stopped = group.under.iter().filter_map(|folder| grown.get(folder.as_path()));
            let (covers_ns, throttled) =
                stopped.copied().reduce(|a, b| (a.0.max(b.0), sum(a.1, b.1)))?;
            (throttled.throttled_ns > 0).then(|| ThrottlingRow {
                slot_start_ns,
                covers_ns,
                cgroup_id: group.id,
                cgroup: Arc::clone(&group.path),
                place: Arc::clone(&group.place),
                throttled,
            })
        };
        self.groups.iter().filter_map(row).collect()
    }
}

fn sum(a: Throttled, b: Throttled) -> Throttled {
    Throttled {
        periods: a.periods + b.periods,
        throttled_periods: a.throttled_periods + b.throttled_periods,
        throttled_ns: a.throttled_ns + b.throttled_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_host::CgroupVersion;

    fn write(folder: &Path, stopped_us: u64) {
        fs::create_dir_all(folder).unwrap();
        let text =
            format!("usage_usec 5\nnr_periods 9\nnr_throttled 4\nthrottled_usec {stopped_us}\n");
        fs::write(folder.join("cpu.stat"), text).unwrap();
    }

    #[test]
    fn a_cgroup_is_stopped_by_its_own_quota_and_by_those_above_it() {
        let mount = tempfile::tempdir().unwrap();
        let (pod, container) = (mount.path().join("pod"), mount.path().join("pod/container"));
        write(&pod, 100);
        write(&container, 10);
        fs::create_dir_all(mount.path().join("free")).unwrap();
        let hierarchy = CgroupHierarchy { version: CgroupVersion::V2, mount: mount.path().into() };
        let mut quotas = Quotas::new(&HostRoot::default(), &hierarchy);
        quotas.walk(&Inventory::new(Duration::ZERO).snapshot());
        assert_eq!(quotas.look(0, 0), [], "the first look has nothing before it");
        write(&pod, 150);
        write(&container, 17);
        let rows = quotas.look(100_000_000, 0);
        let told: Vec<(&str, u64)> =
            rows.iter().map(|row| (&*row.cgroup, row.throttled.throttled_ns)).collect();
        assert_eq!(told, [("/pod", 50_000), ("/pod/container", 57_000)]);
        assert!(rows.iter().all(|row| row.covers_ns == 100_000_000 && row.cgroup_id > 0));
    }

    #[test]
    fn a_cgroup_made_anew_under_an_old_name_starts_anew() {
        let mount = tempfile::tempdir().unwrap();
        let group = mount.path().join("job");
        write(&group, 500);
        let hierarchy = CgroupHierarchy { version: CgroupVersion::V2, mount: mount.path().into() };
        let mut quotas = Quotas::new(&HostRoot::default(), &hierarchy);
        quotas.walk(&Inventory::new(Duration::ZERO).snapshot());
        quotas.look(0, 0);
        write(&group, 3);
        assert_eq!(quotas.look(100, 0), []);
    }
}
