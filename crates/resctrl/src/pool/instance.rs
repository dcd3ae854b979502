//! One pool on a mount, and no group left behind.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use crosstalk_host::HostRoot;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::PoolConfig;
use crate::{Error, Resctrl};

/// Held for as long as a pool lives.
///
/// The lock is on the mount's `info` directory: everybody who sees the mount sees the same one, whatever else of the
/// file system they share, other tools do not lock it (they lock the root), and the kernel lets go of it when the holder
/// dies, however it dies.
#[derive(Debug)]
pub(crate) struct InstanceLock {
    _directory: File,
}

impl InstanceLock {
    pub(crate) fn take(resctrl: &Resctrl, host: &HostRoot) -> Result<Self, Error> {
        let path = resctrl.root().join("info");
        let directory = File::open(&path).map_err(|source| Error::read(&path, source))?;
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _directory: directory }),
            Err(Errno::WOULDBLOCK) => Err(Error::AlreadyRunning {
                path: resctrl.root().to_owned(),
                holder: directory.metadata().ok().and_then(|meta| holder(host, &place(&meta))),
            }),
            Err(errno) => Err(Error::read(&path, errno.into())),
        }
    }
}

/// A file as `/proc/locks` names it: `00:2a:5`, device and inode.
fn place(meta: &fs::Metadata) -> String {
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    format!("{major:02x}:{minor:02x}:{}", meta.ino())
}

/// The process that `/proc/locks` names for a file: `1: FLOCK  ADVISORY  WRITE 1234 00:2a:5 0 EOF`.
fn holder(host: &HostRoot, place: &str) -> Option<u32> {
    let locks = host.line("/proc/locks")?;
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, "WRITE", pid, locked, ..] if locked == place => pid.parse().ok(),
            _ => None,
        }
    })
}

/// Removes the monitor groups that a pool which is gone has left, and answers how many. Where one lives they are its own.
///
/// # Errors
/// The groups cannot be listed, or the kernel refuses to remove one.
pub fn sweep_abandoned(resctrl: &Resctrl, config: &PoolConfig) -> Result<usize, Error> {
    match InstanceLock::take(resctrl, &config.host) {
        Ok(_alone) => sweep_monitor_groups(resctrl, &config.prefix),
        Err(Error::AlreadyRunning { .. }) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Removes monitor groups whose names are `prefix` and a number, below the root and below every control group, and answers
/// how many. Groups with other names, and control groups, are not touched.
///
/// # Errors
/// The groups cannot be listed, or the kernel refuses to remove one that is still there.
pub fn sweep_monitor_groups(resctrl: &Resctrl, prefix: &str) -> Result<usize, Error> {
    let mut removed = 0;
    for control in resctrl.control_groups()? {
        let groups = match control.monitor_groups() {
            Ok(groups) => groups,
            // Somebody removed the control group, and with it what was inside.
            Err(error) if error.is_gone() && !control.path().exists() => continue,
            Err(error) => return Err(error),
        };
        for group in groups.iter().filter(|group| is_ours(&group.name(), prefix)) {
            match group.remove() {
                Ok(()) => removed += 1,
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(removed)
}

/// Whether a monitor group is a pool's: its prefix and a number, as in `crosstalk-7`.
pub(super) fn is_ours(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_a_similar_name_is_not_ours() {
        assert!(is_ours("crosstalk-12", "crosstalk-"));
        for other in ["crosstalk-", "crosstalk-mine", "crosstalk-1a", "12", "my-crosstalk-1"] {
            assert!(!is_ours(other, "crosstalk-"), "{other}");
        }
    }

    #[test]
    fn the_holder_of_a_lock_is_found_by_device_and_inode() {
        let root = tempfile::tempdir().unwrap();
        let host = HostRoot::new(root.path());
        fs::create_dir(host.path("/proc")).unwrap();
        let text = "1: POSIX  ADVISORY  WRITE 11 00:2a:5 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 33 00:2b:5 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 22 00:2a:5 0 EOF\n\nodd\n";
        fs::write(host.path("/proc/locks"), text).unwrap();
        assert_eq!(holder(&host, "00:2a:5"), Some(22));
        assert_eq!(holder(&host, "00:2a:6"), None);
    }
}
