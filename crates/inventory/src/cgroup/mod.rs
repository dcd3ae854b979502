pub(crate) mod path;

use crosstalk_host::{CgroupHierarchy, HostRoot, walk_cgroups};
use crosstalk_model::Placement;
use path::placement_of;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is known of one cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroup {
    /// Its path in the hierarchy, such as `/system.slice`; absent when it was gone before we looked.
    pub path: Option<String>,
    /// Who it belongs to.
    pub placement: Placement,
}

/// Turns cgroup ids into cgroups.
///
/// A cgroup's id is the inode number of its folder and is never used again, so an answer holds
/// for ever. At most [`Cgroups::LIMIT`] are remembered; then the memory starts afresh.
#[derive(Debug)]
pub struct Cgroups {
    host: HostRoot,
    hierarchy: Option<CgroupHierarchy>,
    known: HashMap<u64, Arc<Cgroup>>,
    walked_at: Option<Instant>,
}

/// A walk over the whole tree costs a system call a cgroup, so it is done at most this often.
const WALK_EVERY: Duration = Duration::from_secs(1);

impl Cgroups {
    /// How many cgroups are remembered.
    pub const LIMIT: usize = 65_536;

    /// Finds the host's hierarchy.
    pub fn new(host: &HostRoot) -> Self {
        Self {
            host: host.clone(),
            hierarchy: CgroupHierarchy::find(host),
            known: HashMap::new(),
            walked_at: None,
        }
    }

    /// The hierarchy the ids belong to.
    pub fn hierarchy(&self) -> Option<&CgroupHierarchy> {
        self.hierarchy.as_ref()
    }

    /// The cgroup with `id`, in which process `pid` was seen.
    pub fn resolve(&mut self, id: u64, pid: u32) -> Arc<Cgroup> {
        if let Some(known) = self.known.get(&id) {
            return Arc::clone(known);
        }
        let Some(hierarchy) = self.hierarchy.clone() else { return Arc::default() };
        if self.known.len() >= Self::LIMIT {
            self.known.clear();
        }
        if let Some(path) = self.path_of_process(&hierarchy, pid, id) {
            return self.remember(id, path);
        }
        // The process is gone or has moved on: look for the folder itself.
        if self.walked_at.is_none_or(|at| at.elapsed() >= WALK_EVERY) {
            self.walk(&hierarchy);
            self.walked_at = Some(Instant::now());
            return Arc::clone(self.known.entry(id).or_default());
        }
        Arc::default()
    }

    /// Where `path` (absolute below the mount, or relative to the hierarchy's root) is in the
    /// hierarchy; `None` when there is no such cgroup.
    pub fn find(&self, path: &str) -> Option<String> {
        let mount = &self.hierarchy.as_ref()?.mount;
        let inside = Path::new(path).strip_prefix(mount).unwrap_or(Path::new(path));
        let inside = inside.strip_prefix("/").unwrap_or(inside);
        let folder = self.host.path(mount.join(inside));
        folder.is_dir().then(|| format!("/{}", inside.display()).trim_end_matches('/').to_owned())
    }

    fn remember(&mut self, id: u64, path: String) -> Arc<Cgroup> {
        let cgroup = Arc::new(Cgroup { placement: placement_of(&path), path: Some(path) });
        self.known.insert(id, Arc::clone(&cgroup));
        cgroup
    }

    fn path_of_process(&self, hierarchy: &CgroupHierarchy, pid: u32, id: u64) -> Option<String> {
        let path = hierarchy.of_process(&self.host, pid)?;
        let folder = self.host.path(hierarchy.mount.join(path.trim_start_matches('/')));
        (fs::metadata(folder).ok()?.ino() == id).then_some(path)
    }

    fn walk(&mut self, hierarchy: &CgroupHierarchy) {
        let root = self.host.path(&hierarchy.mount);
        walk_cgroups(&root, |inside| {
            if let Ok(meta) = fs::metadata(root.join(inside))
                && !self.known.contains_key(&meta.ino())
            {
                self.remember(meta.ino(), format!("/{}", inside.display()));
            }
            self.known.len() < Self::LIMIT
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f1d2c3b4a5968778695a4b3c2d1e0f00112233445566778899aabbccddeeff0";

    /// A host with a v2 hierarchy, one container and one process in it.
    fn host() -> (tempfile::TempDir, HostRoot, u64) {
        let dir = tempfile::tempdir().unwrap();
        let group = dir.path().join(format!("sys/fs/cgroup/docker/{ID}"));
        fs::create_dir_all(&group).unwrap();
        fs::create_dir_all(dir.path().join("proc/1")).unwrap();
        fs::create_dir_all(dir.path().join("proc/77")).unwrap();
        fs::write(dir.path().join("proc/1/mounts"), "c /sys/fs/cgroup cgroup2 rw 0 0\n").unwrap();
        fs::write(dir.path().join("proc/77/cgroup"), format!("0::/docker/{ID}\n")).unwrap();
        let root = HostRoot::new(dir.path());
        let id = fs::metadata(&group).unwrap().ino();
        (dir, root, id)
    }

    #[test]
    fn a_living_process_leads_to_its_container() {
        let (_dir, host, id) = host();
        let found = Cgroups::new(&host).resolve(id, 77);
        assert_eq!(found.placement.container_id.as_deref(), Some(ID));
    }

    #[test]
    fn a_process_already_gone_is_found_through_the_tree() {
        let (_dir, host, id) = host();
        let found = Cgroups::new(&host).resolve(id, 4_000_000);
        assert_eq!(found.path, Some(format!("/docker/{ID}")));
    }

    #[test]
    fn a_process_that_moved_on_does_not_lend_its_new_cgroup_to_the_old_id() {
        let (dir, host, _) = host();
        let other = dir.path().join("sys/fs/cgroup/other");
        fs::create_dir_all(&other).unwrap();
        let id = fs::metadata(&other).unwrap().ino();
        assert_eq!(Cgroups::new(&host).resolve(id, 77).path.as_deref(), Some("/other"));
    }

    #[test]
    fn a_cgroup_that_is_nowhere_stays_unknown_and_a_path_is_found_either_way() {
        let (_dir, host, _) = host();
        let mut cgroups = Cgroups::new(&host);
        assert_eq!(*cgroups.resolve(u64::MAX, 77), Cgroup::default());
        assert_eq!(cgroups.find("/docker"), Some("/docker".to_owned()));
        assert_eq!(cgroups.find("/sys/fs/cgroup/docker/"), Some("/docker".to_owned()));
        assert_eq!(cgroups.find("/nowhere"), None);
    }
}
