//! cgroup files: processor and memory use of containers and pods, with no privilege but reading.
//!
//! Metrics: cpu_util and mem_usage of containers and pods.

use super::{Failure, Source};
use crate::clock::{monotonic_ns, thread_cpu};
use crate::config::Config;
use crate::metric::{CPU_UTIL, MEM_USAGE, Metric};
use crate::status::{Report, SourceState, Verdict};
use crate::subjects::{Kind, Labels, SubjectKey, SubjectSample};
use crate::supervise::Stop;
use crosstalk_host::{CgroupHierarchy, CgroupVersion, Cpu, HostRoot};
use crosstalk_identity::placement_of;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) const METRICS: &[Metric] = &[CPU_UTIL, MEM_USAGE];

/// Share of one core the walk may cost; with very many cgroups it gets rarer.
const SHARE: f64 = 0.002;
/// No real tree is deeper or larger: a bound on what a strange one can cost.
const DEEPEST: usize = 16;
const MOST_FOLDERS: usize = 65_536;

pub(super) struct CgroupFiles {
    host: HostRoot,
    enabled: bool,
    period: Duration,
}

impl CgroupFiles {
    pub(super) fn new(config: &Config, host: &HostRoot) -> Self {
        let subjects = &config.subjects;
        Self { host: host.clone(), enabled: subjects.enabled, period: subjects.period.get() }
    }
}

impl Source for CgroupFiles {
    fn run(&mut self, state: &SourceState, stop: &Stop) -> Result<(), Failure> {
        if !self.enabled {
            let off = Report::new(Verdict::Off, "subjects are not followed");
            return Err(Failure::Absent(off.fix("set subjects.enabled = true")));
        }
        let Some(hierarchy) = CgroupHierarchy::find(&self.host) else {
            let absent = Report::new(Verdict::Absent, "no cgroup file system is mounted");
            return Err(Failure::Absent(absent.fix("mount -t cgroup2 none /sys/fs/cgroup")));
        };
        let mut walk = Walk::new(&self.host, &hierarchy);
        loop {
            let (began, spent) = (Instant::now(), thread_cpu());
            let found = walk.sample(state);
            state.report(Report::new(
                Verdict::Ok,
                match found {
                    0 => format!("no containers below {}", hierarchy.mount.display()),
                    _ => format!("containers below {}", hierarchy.mount.display()),
                },
            ));
            let pause = self.period.max((thread_cpu() - spent).div_f64(SHARE));
            if stop.after(pause.saturating_sub(began.elapsed())) {
                return Ok(());
            }
        }
    }
}

struct Walk {
    host: HostRoot,
    version: CgroupVersion,
    root: PathBuf,
    /// Where v1 keeps processor time: its own hierarchy, with the same paths.
    cpu_root: PathBuf,
    before: HashMap<SubjectKey, u64>,
    before_ns: u64,
}

impl Walk {
    fn new(host: &HostRoot, hierarchy: &CgroupHierarchy) -> Self {
        let root = host.path(&hierarchy.mount);
        let sibling = |name: &str| root.with_file_name(name);
        let cpu_root = match hierarchy.version {
            CgroupVersion::V2 => root.clone(),
            CgroupVersion::V1Memory => ["cpuacct", "cpu,cpuacct", "cpu"]
                .map(sibling)
                .into_iter()
                .find(|folder| folder.join("cpuacct.usage").exists())
                .unwrap_or_else(|| sibling("cpuacct")),
        };
        let (version, before) = (hierarchy.version, HashMap::new());
        Self { host: host.clone(), version, root, cpu_root, before, before_ns: monotonic_ns() }
    }

    /// Samples every container and pod; says how many there are.
    fn sample(&mut self, state: &SourceState) -> usize {
        let groups = groups(&self.root);
        let at_ns = monotonic_ns();
        let covers_ns = at_ns.saturating_sub(self.before_ns);
        let cores = Cpu::online(&self.host).len().max(1) as u64;
        let mut now = HashMap::with_capacity(groups.len());
        let mut samples = Vec::with_capacity(groups.len());
        for (key, labels, inside) in groups {
            let used_ns = self.cpu_ns(&inside);
            let grown = used_ns.zip(self.before.get(&key)).and_then(|(n, b)| n.checked_sub(*b));
            let cpu_util = grown.map(|ns| (ns as f64 / (covers_ns * cores).max(1) as f64).min(1.0));
            if let Some(used_ns) = used_ns {
                now.insert(key.clone(), used_ns);
            }
            let values = vec![cpu_util, self.memory(&inside)];
            samples.push(SubjectSample { key, labels, values });
        }
        let found = samples.len();
        if covers_ns > 0 {
            state.subjects.take(at_ns, covers_ns, samples, None);
        }
        (self.before, self.before_ns) = (now, at_ns);
        found
    }

    fn cpu_ns(&self, inside: &Path) -> Option<u64> {
        let folder = self.cpu_root.join(inside);
        match self.version {
            CgroupVersion::V1Memory => number(&folder.join("cpuacct.usage")),
            CgroupVersion::V2 => {
                let stat = fs::read_to_string(folder.join("cpu.stat")).ok()?;
                let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
                usage.trim().parse::<u64>().ok()?.checked_mul(1_000)
            }
        }
    }

    fn memory(&self, inside: &Path) -> Option<f64> {
        let file = match self.version {
            CgroupVersion::V1Memory => "memory.usage_in_bytes",
            CgroupVersion::V2 => "memory.current",
        };
        number(&self.root.join(inside).join(file)).map(|bytes| bytes as f64)
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The containers and pods below `root`, each at its topmost folder.
fn groups(root: &Path) -> Vec<(SubjectKey, Labels, PathBuf)> {
    let mut found: HashMap<SubjectKey, (Labels, PathBuf)> = HashMap::new();
    let mut left = std::collections::VecDeque::from([(PathBuf::new(), 0_usize)]);
    let mut seen = 0;
    // Breadth first, so that a container is met before what it nests.
    while let Some((inside, depth)) = left.pop_front() {
        seen += 1;
        let place = placement_of(&format!("/{}", inside.display()));
        let labels = Labels {
            comm: None,
            container_id: place.container_id.clone(),
            pod_uid: place.pod_uid.clone(),
        };
        let container = place.container_id.is_some();
        let key = place
            .container_id
            .map(SubjectKey::Container)
            .or_else(|| place.pod_uid.map(SubjectKey::Pod));
        if let Some(key) = key {
            debug_assert!(matches!(key.kind(), Kind::Container | Kind::Pod));
            found.entry(key).or_insert_with(|| (labels, inside.clone()));
        }
        if container || depth >= DEEPEST || seen >= MOST_FOLDERS {
            continue;
        }
        let Ok(entries) = fs::read_dir(root.join(&inside)) else { continue };
        let folders = entries
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| (inside.join(entry.file_name()), depth + 1));
        left.extend(folders);
    }
    found.into_iter().map(|(key, (labels, inside))| (key, labels, inside)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subjects::SubjectTable;

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
            let (retention, period) = (Duration::from_secs(30), Duration::from_secs(1));
            let table = SubjectTable::new(METRICS, retention, period, 10);
            let state = SourceState::new("cgroup", None, table);
            assert_eq!(walk.sample(&state), 1);
            assert_eq!(walk.sample(&state), 1);
            let containers = state.subjects.of(Kind::Container);
            assert_eq!(containers[0].labels.container_id.as_deref(), Some(ID));
            let newest = containers[0].tape.newest(monotonic_ns(), retention);
            assert_eq!(newest, [Some(0.0), Some(4096.0)], "{version:?}");
        }
    }
}
