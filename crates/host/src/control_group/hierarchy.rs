//! Which hierarchies there are, and how a group is made in one.

use super::{ControlGroupError, refused, write};
use crate::{HostRoot, Mount};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What is limited or counted by hierarchies of v1.
const CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "cpuset", "memory", "blkio"];
/// The same in v2, where processor time is always counted.
const UNIFIED: [&str; 4] = ["cpu", "cpuset", "memory", "io"];

#[derive(Debug, PartialEq)]
pub(super) struct Hierarchy {
    pub(super) mount: PathBuf,
    pub(super) controllers: Vec<String>,
    pub(super) unified: bool,
}

/// Those in which a group can do something.
pub(super) fn hierarchies(host: &HostRoot) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for mounted in Mount::all(host).unwrap_or_default() {
        let mount = host.path(&mounted.point);
        let unified = mounted.kind == "cgroup2";
        let controllers: Vec<String> = match &*mounted.kind {
            "cgroup" => {
                let known = CONTROLLERS.iter().filter(|controller| mounted.has(controller));
                known.map(|controller| (*controller).to_owned()).collect()
            }
            "cgroup2" => {
                let text = fs::read_to_string(mount.join("cgroup.controllers"));
                text.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
            }
            _ => continue,
        };
        // A hierarchy may be mounted twice, which is one place to make groups in all the same.
        let again = found.iter().any(|h| h.unified == unified && h.controllers == controllers);
        if (unified || !controllers.is_empty()) && !again {
            found.push(Hierarchy { mount, controllers, unified });
        }
    }
    found
}

impl Hierarchy {
    pub(super) fn make(&self, path: &Path) -> Result<(), ControlGroupError> {
        if self.unified {
            for controller in self.controllers.iter().filter(|c| UNIFIED.contains(&c.as_str())) {
                // A controller that cannot be had is missed when it is used.
                let _ =
                    fs::write(self.mount.join("cgroup.subtree_control"), format!("+{controller}"));
            }
        }
        match fs::create_dir(path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(refused(path)(error));
            }
            _ => {}
        }
        // A cpuset of v1 takes no process before it has CPUs and memory.
        if !self.unified && self.controllers.iter().any(|c| c == "cpuset") {
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let above = self.mount.join(file);
                let all = fs::read_to_string(&above).map_err(refused(&above))?;
                write(&path.join(file), all.trim())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_host_has_its_controllers_and_the_unified_hierarchy() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("proc/1")).unwrap();
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0\n\
                      cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                      cgroup /again cgroup rw,cpu,cpuacct 0 0\n";
        fs::write(dir.path().join("proc/1/mounts"), mounts).unwrap();
        let found = hierarchies(&HostRoot::new(dir.path()));
        let names: Vec<&str> =
            found.iter().map(|h| h.mount.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["cpu,cpuacct", "unified"]);
        assert_eq!(found[0].controllers, ["cpu", "cpuacct"]);
    }
}
