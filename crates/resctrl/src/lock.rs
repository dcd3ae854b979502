//! The flock convention on the mount root: exclusive to change, shared to read.
//!
//! flock belongs to an open file, not to a thread, so a second layer orders the threads of this process. A thread that
//! holds the exclusive lock may take it again: single operations lock for themselves and batches lock around them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::Error;

/// Which side of the convention is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// To read several files that belong together.
    Shared,
    /// To change something.
    Exclusive,
}

#[derive(Debug, Default)]
struct Owner {
    thread: Option<ThreadId>,
    depth: usize,
}

#[derive(Debug)]
pub(crate) struct MountLock {
    directory: File,
    path: PathBuf,
    patience: Duration,
    owner: Mutex<Owner>,
    released: Condvar,
}

/// Holds the lock until dropped.
#[derive(Debug)]
#[must_use]
pub struct LockGuard<'a> {
    lock: &'a MountLock,
}

impl MountLock {
    pub(crate) fn open(path: &Path, patience: Duration) -> Result<Self, Error> {
        let directory = File::open(path).map_err(|source| Error::read(path, source))?;
        Ok(Self {
            directory,
            path: path.to_owned(),
            patience,
            owner: Mutex::default(),
            released: Condvar::new(),
        })
    }

    /// Takes the lock; a thread that has it already goes deeper and keeps the mode it has.
    pub(crate) fn take(&self, mode: LockMode) -> Result<LockGuard<'_>, Error> {
        let me = thread::current().id();
        let mut owner = self.owner();
        if owner.thread == Some(me) {
            owner.depth += 1;
            return Ok(LockGuard { lock: self });
        }
        let deadline = Instant::now() + self.patience;
        while owner.thread.is_some() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.timeout());
            }
            owner =
                self.released.wait_timeout(owner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.flock_until(mode, deadline)?;
        *owner = Owner { thread: Some(me), depth: 1 };
        Ok(LockGuard { lock: self })
    }

    fn flock_until(&self, mode: LockMode, deadline: Instant) -> Result<(), Error> {
        let operation = match mode {
            LockMode::Shared => FlockOperation::NonBlockingLockShared,
            LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        let mut pause = Duration::from_micros(200);
        loop {
            match flock(&self.directory, operation) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < deadline => {
                    // flock has no timeout of its own, and a tool that hangs must not hang us.
                    #[allow(clippy::disallowed_methods)]
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => return Err(self.timeout()),
                Err(errno) => return Err(Error::read(&self.path, errno.into())),
            }
        }
    }

    fn timeout(&self) -> Error {
        let waited_ms = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX);
        Error::LockTimeout { path: self.path.clone(), waited_ms }
    }

    fn owner(&self) -> MutexGuard<'_, Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        let mut owner = self.lock.owner();
        owner.depth -= 1;
        if owner.depth == 0 {
            owner.thread = None;
            // Only a file that is no longer there can fail to unlock, and that lock is gone with it.
            let _ = flock(&self.lock.directory, FlockOperation::Unlock);
            self.lock.released.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(path: &Path) -> MountLock {
        MountLock::open(path, Duration::from_millis(20)).unwrap()
    }

    #[test]
    fn a_second_holder_is_told_that_the_lock_was_not_free() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (lock(directory.path()), lock(directory.path()));
        let held = first.take(LockMode::Exclusive).unwrap();
        assert!(matches!(second.take(LockMode::Shared), Err(Error::LockTimeout { .. })));
        drop(held);
        assert!(second.take(LockMode::Exclusive).is_ok());
    }

    #[test]
    fn the_holder_may_lock_again_and_readers_share() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (lock(directory.path()), lock(directory.path()));
        let outer = first.take(LockMode::Shared).unwrap();
        drop(first.take(LockMode::Shared).unwrap());
        assert!(second.take(LockMode::Shared).is_ok());
        assert!(second.take(LockMode::Exclusive).is_err(), "the inner guard must not unlock");
        drop(outer);
    }
}
