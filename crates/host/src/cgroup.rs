use crate::{HostRoot, Mount};
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
        Self::choose(Mount::all(host)?)
    }

    /// The cgroup of this hierarchy that a process is in, such as `/system.slice`; `None` once it is gone.
    #[must_use]
    pub fn of_process(&self, host: &HostRoot, pid: u32) -> Option<String> {
        let text = host.line(format!("/proc/{pid}/cgroup"))?;
        path_in(&text, self.version).map(str::to_owned)
    }

    /// The v2 mount, unless a v1 memory controller takes its place.
    fn choose(mounts: Vec<Mount>) -> Option<Self> {
        let mut v2 = None;
        for mount in mounts {
            if mount.kind == "cgroup" && mount.has("memory") {
                return Some(Self { version: CgroupVersion::V1Memory, mount: mount.point.into() });
            }
            if mount.kind == "cgroup2" && v2.is_none() {
                v2 = Some(Self { version: CgroupVersion::V2, mount: mount.point.into() });
            }
        }
        v2
    }
}

/// The path in the text of `/proc/PID/cgroup`.
fn path_in(text: &str, version: CgroupVersion) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let found = match version {
            CgroupVersion::V2 => number == "0" && controllers.is_empty(),
            CgroupVersion::V1Memory => controllers.split(',').any(|c| c == "memory"),
        };
        found.then_some(path)
    })
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
    fn the_memory_line_counts_on_a_hybrid_host() {
        let text = "9:name=systemd:/\n4:cpu,memory:/docker/x\n0::/\n";
        assert_eq!(path_in(text, CgroupVersion::V1Memory), Some("/docker/x"));
        assert_eq!(path_in(text, CgroupVersion::V2), Some("/"));
    }

    #[test]
    fn a_hybrid_host_is_read_through_its_memory_hierarchy() {
        let hybrid = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";
        let found = CgroupHierarchy::choose(Mount::parse(hybrid)).unwrap();
        assert_eq!(found.version, CgroupVersion::V1Memory);
        assert_eq!(found.mount, PathBuf::from("/sys/fs/cgroup/memory"));

        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(
            CgroupHierarchy::choose(Mount::parse(unified)).unwrap().version,
            CgroupVersion::V2
        );
        assert_eq!(CgroupHierarchy::choose(Mount::parse("proc /proc proc rw 0 0\n")), None);
    }
}
