use crate::HostRoot;
use serde::Serialize;
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

/// Which kind of hierarchy tells containers apart on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupVersion {
    /// The unified hierarchy.
    V2,
    /// The v1 memory hierarchy: on hybrid hosts engines put containers there, not into v2.
    V1Memory,
}

/// The hierarchy whose ids and paths Crosstalk uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CgroupHierarchy {
    /// Its kind.
    pub version: CgroupVersion,
    /// Where the host mounts it, as the host sees it.
    pub mount: PathBuf,
}

impl CgroupHierarchy {
    /// Finds it in the mounts of process 1; `None` when no cgroup file system is mounted.
    pub fn find(host: &HostRoot) -> Option<Self> {
        let mounts = host.line("/proc/1/mounts").or_else(|| host.line("/proc/mounts"))?;
        Self::choose(&mounts)
    }

    /// The v2 mount, unless a v1 memory controller takes its place.
    fn choose(mounts: &str) -> Option<Self> {
        let mut v2 = None;
        for line in mounts.lines() {
            let mut words = line.split(' ').skip(1);
            let (Some(mount), Some(kind), Some(options)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            if kind == "cgroup" && options.split(',').any(|option| option == "memory") {
                return Some(Self { version: CgroupVersion::V1Memory, mount: mount.into() });
            }
            if kind == "cgroup2" && v2.is_none() {
                v2 = Some(Self { version: CgroupVersion::V2, mount: mount.into() });
            }
        }
        v2
    }
}

/// No real tree is deeper or larger: a bound on what a strange one can cost.
const DEEPEST: usize = 16;
const MOST_FOLDERS: usize = 65_536;

/// Visits the cgroups below `root`, itself as an empty path, each before those it holds; `visit` says
/// whether these are of interest.
pub fn walk_cgroups(root: &Path, mut visit: impl FnMut(&Path) -> bool) {
    let mut left = VecDeque::from([(PathBuf::new(), 0)]);
    let mut seen = 0;
    while let Some((inside, depth)) = left.pop_front() {
        seen += 1;
        if !visit(&inside) || depth >= DEEPEST || seen >= MOST_FOLDERS {
            continue;
        }
        let Ok(entries) = fs::read_dir(root.join(&inside)) else { continue };
        let folders = entries.flatten().filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(folders.map(|folder| (inside.join(folder.file_name()), depth + 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_comes_by_every_cgroup_but_those_below_one_of_no_interest() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b/c")).unwrap();
        fs::create_dir_all(root.path().join("d")).unwrap();
        fs::write(root.path().join("cgroup.procs"), "").unwrap();
        let mut seen = Vec::new();
        walk_cgroups(root.path(), |inside| {
            seen.push(inside.display().to_string());
            inside != Path::new("a/b")
        });
        seen.sort();
        assert_eq!(seen, ["", "a", "a/b", "d"]);
    }

    #[test]
    fn a_hybrid_host_is_read_through_its_memory_hierarchy() {
        let hybrid = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";
        let found = CgroupHierarchy::choose(hybrid).unwrap();
        assert_eq!(found.version, CgroupVersion::V1Memory);
        assert_eq!(found.mount, PathBuf::from("/sys/fs/cgroup/memory"));

        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(CgroupHierarchy::choose(unified).unwrap().version, CgroupVersion::V2);
        assert_eq!(CgroupHierarchy::choose("proc /proc proc rw 0 0\n"), None);
    }
}
