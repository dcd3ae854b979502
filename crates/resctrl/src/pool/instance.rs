//! One pool on a mount, and no group left behind.

use std::fs::File;

use crosstalk_host::{HostRoot, lock_holder};
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
                holder: directory.metadata().ok().and_then(|meta| lock_holder(host, &meta)),
            }),
            Err(errno) => Err(Error::read(&path, errno.into())),
        }
    }
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
}
