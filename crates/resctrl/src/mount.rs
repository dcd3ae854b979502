//! A mounted resctrl file system: where it is, its lock, its groups.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::group::{Group, GroupKind};
use crate::info::Info;
use crate::lock::{LockGuard, LockMode, MountLock};
use crate::{Error, NoResctrl, Refusal};
use crosstalk_host::{HostError, HostRoot, Kernel, Mount};

/// Where the kernel's file system is mounted by convention.
pub const DEFAULT_ROOT: &str = "/sys/fs/resctrl";

/// How long a change waits for other tools to release the lock on the mount.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// A resctrl mount. Cheap to clone; clones share the lock.
///
/// ```no_run
/// let resctrl = crosstalk_resctrl::Resctrl::open("/sys/fs/resctrl")?;
/// let group = resctrl.root_group().create_monitor_group("web")?;
/// group.move_task(1234)?;
/// for domain in group.domains()? {
///     println!("{domain:?}: {:?}", group.occupancy(domain.id)?);
/// }
/// group.remove()?;
/// # Ok::<(), crosstalk_resctrl::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Resctrl {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    lock: MountLock,
}

impl Resctrl {
    /// Opens the file system mounted at `root`.
    ///
    /// # Errors
    /// [`Error::NotResctrl`] where `root` is no resctrl, or a read error.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with_patience(root, LOCK_PATIENCE)
    }

    /// As [`open`](Self::open), with another limit on the wait for the lock.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with_patience(root: impl AsRef<Path>, patience: Duration) -> Result<Self, Error> {
        let root = root.as_ref();
        if !root.join("info").is_dir() || !root.join("tasks").is_file() {
            return Err(Error::NotResctrl { path: root.to_owned(), because: what_is_at(root) });
        }
        let lock = MountLock::open(root, patience)?;
        Ok(Self { shared: Arc::new(Shared { root: root.to_owned(), lock }) })
    }

    /// Finds the mount in the host's `/proc/mounts`.
    ///
    /// # Errors
    /// [`Error::NotResctrl`] with what is missing: kernel support, or the mount.
    pub fn locate(host: &HostRoot) -> Result<Self, Error> {
        let mounts =
            Mount::own(host).map_err(|HostError { path, source }| Error::Read { path, source })?;
        if let Some(mount) = mounts.into_iter().find(|mount| mount.kind == "resctrl") {
            return Self::open(host.path(mount.point));
        }
        let known = Kernel::knows_file_system(host, "resctrl");
        let because = if known { NoResctrl::NotMounted } else { NoResctrl::NoSupport };
        Err(Error::NotResctrl { path: host.path(DEFAULT_ROOT), because })
    }

    /// The path of the mount.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.shared.root
    }

    /// Whether the kernel answers here, and not a simulator.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        /// `RDTGROUP_SUPER_MAGIC` of the kernel's `magic.h`.
        const MAGIC: rustix::fs::FsWord = 0x0765_5821;
        rustix::fs::statfs(self.root()).is_ok_and(|stat| stat.f_type == MAGIC)
    }

    /// What the machine can monitor and allocate.
    ///
    /// # Errors
    /// A file of `info/` that cannot be read or understood.
    pub fn info(&self) -> Result<Info, Error> {
        let _guard = self.lock(LockMode::Shared)?;
        Info::read(self)
    }

    /// Takes the lock of the mount for a batch; single operations take it for themselves.
    ///
    /// # Errors
    /// [`Error::LockTimeout`] where another tool does not let go.
    pub fn lock(&self, mode: LockMode) -> Result<LockGuard<'_>, Error> {
        self.shared.lock.take(mode)
    }

    /// The default group: every thread and processor that is nowhere else.
    #[must_use]
    pub fn root_group(&self) -> Group {
        Group::new(self.clone(), self.root().to_owned(), GroupKind::Root)
    }

    /// The root and every control group below it.
    ///
    /// # Errors
    /// The mount cannot be listed.
    pub fn control_groups(&self) -> Result<Vec<Group>, Error> {
        let mut groups = vec![self.root_group()];
        for name in self.directories(self.root())? {
            let path = self.root().join(&name);
            if !matches!(name.as_str(), "info" | "mon_data" | "mon_groups")
                && path.join("tasks").exists()
            {
                groups.push(Group::new(self.clone(), path, GroupKind::Control));
            }
        }
        Ok(groups)
    }

    /// Makes a control group with its own class of service.
    ///
    /// # Errors
    /// [`Refusal::OutOfClosids`], [`Refusal::OutOfRmids`] and the like.
    pub fn create_control_group(&self, name: &str) -> Result<Group, Error> {
        let path = self.child(self.root(), name)?;
        self.make_directory(&path)?;
        Ok(Group::new(self.clone(), path, GroupKind::Control))
    }

    /// The text of `info/last_cmd_status`, without the final newline; empty where it says `ok`.
    #[must_use]
    pub fn last_status(&self) -> String {
        let text = fs::read_to_string(self.root().join("info/last_cmd_status")).unwrap_or_default();
        let text = text.trim_end();
        if text == "ok" { String::new() } else { text.to_owned() }
    }

    /// A path of one more component: a name must not climb out of the mount.
    pub(crate) fn child(&self, parent: &Path, name: &str) -> Result<PathBuf, Error> {
        if name.is_empty() || matches!(name, "." | "..") || name.contains(['/', '\0']) {
            let errno = rustix::io::Errno::INVAL.raw_os_error();
            let status = format!("a group cannot be called {name:?}");
            let path = parent.to_owned();
            return Err(Error::Refused { path, errno, reason: Refusal::BadValue, status });
        }
        Ok(parent.join(name))
    }

    pub(crate) fn make_directory(&self, path: &Path) -> Result<(), Error> {
        self.change(path, || fs::create_dir(path))
    }

    pub(crate) fn write(&self, path: &Path, text: &str) -> Result<(), Error> {
        self.change(path, || {
            fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
        })
    }

    /// Does a change under the lock, so that the status read after a failure is of this change.
    pub(crate) fn change<T>(
        &self,
        path: &Path,
        action: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, Error> {
        let _guard = self.lock(LockMode::Exclusive)?;
        action().map_err(|source| {
            let Some(errno) = source.raw_os_error() else {
                return Error::read(path, source);
            };
            let status = self.last_status();
            let reason = Refusal::classify(errno, &status);
            Error::Refused { path: path.to_owned(), errno, reason, status }
        })
    }

    pub(crate) fn read(&self, path: &Path) -> Result<String, Error> {
        // Bytes, not text: a line nobody can read must not hide the others.
        let bytes = fs::read(path).map_err(|source| Error::read(path, source))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn directories(&self, path: &Path) -> Result<Vec<String>, Error> {
        let failed = |source| Error::read(path, source);
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// What there is at a path where there is no resctrl.
fn what_is_at(root: &Path) -> NoResctrl {
    match fs::metadata(root) {
        Ok(found) if found.is_dir() => NoResctrl::NotMounted,
        Ok(_) => NoResctrl::NotADirectory,
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) => {
            NoResctrl::SimulatorEnded
        }
        Err(_) => NoResctrl::NoDirectory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_host::WithFix;

    #[test]
    fn the_mount_is_found_among_others() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir(host.path().join("proc")).unwrap();
        let mounts = "proc /proc proc rw 0 0\nresctrl /res\\040ctrl resctrl rw,cdp 0 0\n";
        fs::write(host.path().join("proc/mounts"), mounts).unwrap();
        fs::create_dir_all(host.path().join("res ctrl/info")).unwrap();
        fs::write(host.path().join("res ctrl/tasks"), "").unwrap();
        let found = Resctrl::locate(&HostRoot::new(host.path())).unwrap();
        assert_eq!(found.root(), host.path().join("res ctrl"));
    }

    #[test]
    fn a_plain_directory_is_not_taken_for_resctrl() {
        let directory = tempfile::tempdir().unwrap();
        let error = Resctrl::open(directory.path()).unwrap_err();
        assert!(matches!(error, Error::NotResctrl { because: NoResctrl::NotMounted, .. }));
        assert!(error.fix().is_some_and(|fix| fix.contains("mount -t resctrl")));
    }

    #[test]
    fn a_machine_without_resctrl_says_what_is_missing() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir(host.path().join("proc")).unwrap();
        fs::write(host.path().join("proc/mounts"), "proc /proc proc rw 0 0\n").unwrap();
        fs::write(host.path().join("proc/filesystems"), "nodev\tproc\n").unwrap();
        let error = Resctrl::locate(&HostRoot::new(host.path())).unwrap_err().to_string();
        assert!(error.contains("no resctrl in /proc/filesystems"), "{error}");
    }
}
