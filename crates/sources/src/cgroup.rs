//! cgroup files: processor and memory use of containers and pods, with no privilege but reading.
//!
//! Metrics: cpu_util and mem_charged of containers and pods.

use crate::{Mode, Settings, Wired};
use crosstalk_collect::{About, Outlet, Source, SubjectPeriod, SubjectSample};
use crosstalk_host::{
    Capability, CgroupHierarchy, CgroupTree, Cpu, HostRoot, Verdict, monotonic_ns, thread,
    walk_cgroups,
};
use crosstalk_inventory::Snapshot;
use crosstalk_model::metric::{CPU_UTIL, MEM_CHARGED};
use crosstalk_model::{Placement, SubjectKey};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

static ABOUT: About =
    About { name: "cgroup", datasets: &[], metrics: &[], subjects: &[CPU_UTIL, MEM_CHARGED] };

/// Share of one core the walk may cost; with very many cgroups it gets rarer.
const SHARE: f64 = 0.002;

pub(crate) fn wire(settings: Settings) -> Wired {
    let period = settings.subjects.unwrap_or_default();
    Wired::new(&ABOUT, Mode::Auto, period, |_| CgroupFiles { settings })
}

struct CgroupFiles {
    settings: Settings,
}

impl Source for CgroupFiles {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        let Some(period) = self.settings.subjects else {
            let off = out.capability(Verdict::Off, "subjects are not followed");
            out.stand(off.fix("set subjects.enabled = true"), Vec::new());
            return Ok(());
        };
        let host = &self.settings.host;
        let Some(hierarchy) = CgroupHierarchy::find(host) else {
            let absent = out.capability(Verdict::Absent, "no cgroup file system is mounted");
            return Err(absent.fix("mount -t cgroup2 none /sys/fs/cgroup"));
        };
        let mut walk = Walk::new(host, &hierarchy);
        loop {
            let (began, spent) = (Instant::now(), thread::cpu_time());
            let sampled = walk.sample(&self.settings.inventory.snapshot());
            let none = if sampled.samples.is_empty() { "no " } else { "" };
            let mount = hierarchy.mount.display();
            out.report(Verdict::Ok, format!("{none}containers below {mount}"));
            if sampled.covers_ns > 0 {
                out.subjects(sampled);
            }
            let pause = period.max((thread::cpu_time() - spent).div_f64(SHARE));
            if out.pause(pause.saturating_sub(began.elapsed())) {
                return Ok(());
            }
        }
    }
}

struct Walk {
    host: HostRoot,
    tree: CgroupTree,
    before: HashMap<SubjectKey, u64>,
    before_ns: u64,
}

impl Walk {
    fn new(host: &HostRoot, hierarchy: &CgroupHierarchy) -> Self {
        let (host, tree) = (host.clone(), CgroupTree::new(host, hierarchy));
        Self { host, tree, before: HashMap::new(), before_ns: monotonic_ns() }
    }

    /// Samples every container and pod.
    fn sample(&mut self, known: &Snapshot) -> SubjectPeriod {
        let groups = groups(&self.tree.root, known);
        let at_ns = monotonic_ns();
        let covers_ns = at_ns.saturating_sub(self.before_ns);
        let cores = Cpu::online(&self.host).len().max(1) as u64;
        let mut now = HashMap::with_capacity(groups.len());
        let mut samples = Vec::with_capacity(groups.len());
        for (key, place, inside) in groups {
            let used_ns = self.tree.cpu_ns(&inside);
            let grown = used_ns.zip(self.before.get(&key)).and_then(|(n, b)| n.checked_sub(*b));
            let cpu_util = grown.map(|ns| (ns as f64 / (covers_ns * cores).max(1) as f64).min(1.0));
            if let Some(used_ns) = used_ns {
                now.insert(key.clone(), used_ns);
            }
            let values = vec![cpu_util, self.tree.memory_bytes(&inside).map(|bytes| bytes as f64)];
            samples.push(SubjectSample { key, comm: None, place, values });
        }
        (self.before, self.before_ns) = (now, at_ns);
        SubjectPeriod { end_ns: at_ns, covers_ns, samples, unseen: None }
    }
}

/// The containers and pods below `root`, each at its topmost folder.
fn groups(root: &Path, known: &Snapshot) -> Vec<(SubjectKey, Arc<Placement>, PathBuf)> {
    let mut found: HashMap<SubjectKey, (Arc<Placement>, PathBuf)> = HashMap::new();
    walk_cgroups(root, |inside| {
        let place = known.place_path(&format!("/{}", inside.display()));
        let container = place.container_id.clone().map(SubjectKey::Container);
        let is_container = container.is_some();
        let key = container.or_else(|| place.pod_uid.clone().map(SubjectKey::Pod));
        if let Some(key) = key {
            found.entry(key).or_insert_with(|| (Arc::new(place), inside.to_owned()));
        }
        // What a container nests is its own affair.
        !is_container
    });
    found.into_iter().map(|(key, (place, inside))| (key, place, inside)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_host::CgroupVersion;
    use std::fs;

    const ID: &str = "4f1d2c3b4a5968778695a4b3c2d1e0f00112233445566778899aabbccddeeff0";

    #[test]
    fn a_container_is_sampled_from_its_files_in_either_hierarchy() {
        for (version, memory, cpu, cpu_text) in [
            (CgroupVersion::V2, "memory.current", "cpu.stat", "usage_usec 5\nuser_usec 1\n"),
            (CgroupVersion::V1Memory, "memory.usage_in_bytes", "cpuacct.usage", "5000\n"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("sys/fs/cgroup/memory");
            let cpu_root = match version {
                CgroupVersion::V2 => root.clone(),
                CgroupVersion::V1Memory => root.with_file_name("cpuacct"),
            };
            let inside = Path::new("docker").join(ID);
            fs::create_dir_all(root.join(&inside).join("nested")).unwrap();
            fs::create_dir_all(cpu_root.join(&inside)).unwrap();
            fs::write(cpu_root.join("cpuacct.usage"), "0\n").unwrap();
            fs::write(root.join(&inside).join(memory), "4096\n").unwrap();
            fs::write(cpu_root.join(&inside).join(cpu), cpu_text).unwrap();

            let host = HostRoot::new(dir.path());
            let mount = "/sys/fs/cgroup/memory".into();
            let mut walk = Walk::new(&host, &CgroupHierarchy { version, mount });
            let first = walk.sample(&Snapshot::default());
            assert_eq!(first.samples[0].values, [None, Some(4096.0)], "{version:?}");
            let second = walk.sample(&Snapshot::default());
            assert_eq!(second.samples.len(), 1);
            assert_eq!(second.samples[0].place.container_id.as_deref(), Some(ID));
            assert_eq!(second.samples[0].values, [Some(0.0), Some(4096.0)], "{version:?}");
        }
    }
}
