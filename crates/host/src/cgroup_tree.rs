use crate::control_group::value_of;
use crate::{CgroupHierarchy, CgroupVersion, HostRoot};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the cgroups of a hierarchy keep what they used: one place in v2, and in v1 hierarchies of their own with the
/// same paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupTree {
    version: CgroupVersion,
    /// The hierarchy whose paths and inode numbers name cgroups; memory is charged there.
    pub root: PathBuf,
    /// Where processor time is counted.
    cpu_time: PathBuf,
    /// Where quotas are, and what they did.
    pub quotas: PathBuf,
}

impl CgroupTree {
    /// The tree of this hierarchy.
    pub fn new(host: &HostRoot, hierarchy: &CgroupHierarchy) -> Self {
        let (version, root) = (hierarchy.version, host.path(&hierarchy.mount));
        let (cpu_time, quotas) = match version {
            CgroupVersion::V2 => (root.clone(), root.clone()),
            CgroupVersion::V1Memory => {
                let beside = |names: &[&str], has: fn(&Path) -> bool| {
                    let mut folders = names.iter().map(|name| root.with_file_name(name));
                    folders
                        .find(|folder| has(folder))
                        .unwrap_or_else(|| root.with_file_name(names[0]))
                };
                let counts = |folder: &Path| folder.join("cpuacct.usage").exists();
                (
                    beside(&["cpuacct", "cpu,cpuacct", "cpu"], counts),
                    beside(&["cpu", "cpu,cpuacct"], Path::is_dir),
                )
            }
        };
        Self { version, root, cpu_time, quotas }
    }

    /// Processor time of a cgroup since it was made.
    pub fn cpu_ns(&self, inside: &Path) -> Option<u64> {
        let folder = self.cpu_time.join(inside);
        match self.version {
            CgroupVersion::V1Memory => number(&folder.join("cpuacct.usage")),
            CgroupVersion::V2 => {
                let stat = fs::read_to_string(folder.join("cpu.stat")).ok()?;
                value_of(&stat, "usage_usec")?.checked_mul(1_000)
            }
        }
    }

    /// Memory charged to a cgroup now, in bytes.
    pub fn memory_bytes(&self, inside: &Path) -> Option<u64> {
        let file = match self.version {
            CgroupVersion::V1Memory => "memory.usage_in_bytes",
            CgroupVersion::V2 => "memory.current",
        };
        number(&self.root.join(inside).join(file))
    }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(dir: &Path, version: CgroupVersion) -> CgroupTree {
        let mount = "/sys/fs/cgroup/memory".into();
        CgroupTree::new(&HostRoot::new(dir), &CgroupHierarchy { version, mount })
    }

    #[test]
    fn v1_keeps_time_and_quotas_in_hierarchies_that_may_be_mounted_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let above = dir.path().join("sys/fs/cgroup");
        fs::create_dir_all(above.join("cpu,cpuacct/job")).unwrap();
        fs::create_dir_all(above.join("memory/job")).unwrap();
        fs::write(above.join("cpu,cpuacct/cpuacct.usage"), "9\n").unwrap();
        fs::write(above.join("cpu,cpuacct/job/cpuacct.usage"), "7\n").unwrap();
        fs::write(above.join("memory/job/memory.usage_in_bytes"), "4096\n").unwrap();
        let tree = tree(dir.path(), CgroupVersion::V1Memory);
        assert_eq!(tree.quotas, above.join("cpu,cpuacct"));
        assert_eq!(tree.cpu_ns(Path::new("job")), Some(7));
        assert_eq!(tree.memory_bytes(Path::new("job")), Some(4_096));
        assert_eq!(tree.cpu_ns(Path::new("gone")), None);
    }

    #[test]
    fn v2_keeps_all_in_one_place() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path(), CgroupVersion::V2);
        fs::create_dir_all(tree.root.join("job")).unwrap();
        fs::write(tree.root.join("job/cpu.stat"), "usage_usec 5\nuser_usec 1\n").unwrap();
        fs::write(tree.root.join("job/memory.current"), "1\n").unwrap();
        assert_eq!(tree.quotas, tree.root);
        assert_eq!(tree.cpu_ns(Path::new("job")), Some(5_000));
        assert_eq!(tree.memory_bytes(Path::new("job")), Some(1));
    }
}
