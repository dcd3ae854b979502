//! Files that are replaced while we run: tokens, certificates, keys.

use crate::Secret;
use crate::error::SettingsError;
use arc_swap::ArcSwap;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// How often the files are looked at, at most.
const LOOK: Duration = Duration::from_secs(1);

type Read<T> = Box<dyn Fn() -> Result<T, SettingsError> + Send + Sync>;

/// What files say, read again when one of them was replaced. While the new ones cannot be used the old value stays, and
/// the log says why: whoever renews a certificate writes it before its key.
pub struct Renewed<T> {
    files: Vec<PathBuf>,
    read: Read<T>,
    value: ArcSwap<T>,
    began: Instant,
    /// Milliseconds since it began when the files are due to be looked at.
    due_ms: AtomicU64,
    seen: Mutex<Vec<Option<Stamp>>>,
}

/// What changes with a file's content: also when a link to it is turned, as Kubernetes does with secrets.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

fn stamp(path: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(path).ok()?;
    let changed = (about.mtime(), about.mtime_nsec());
    Some(Stamp { device: about.dev(), inode: about.ino(), length: about.len(), changed })
}

impl<T> Renewed<T> {
    /// Reads for the first time; `read` is called again when one of `files` has changed.
    ///
    /// # Errors
    /// If it cannot be read now.
    pub fn new(
        files: Vec<PathBuf>,
        read: impl Fn() -> Result<T, SettingsError> + Send + Sync + 'static,
    ) -> Result<Self, SettingsError> {
        // Before reading: a change in between is then seen, not missed.
        let seen = Mutex::new(files.iter().map(|file| stamp(file)).collect());
        let value = ArcSwap::from_pointee(read()?);
        let due_ms = AtomicU64::new(LOOK.as_millis() as u64);
        Ok(Self { files, read: Box::new(read), value, began: Instant::now(), due_ms, seen })
    }

    /// The value, renewed if its files were.
    pub fn get(&self) -> Arc<T> {
        let now_ms = self.began.elapsed().as_millis() as u64;
        if !self.files.is_empty() && now_ms >= self.due_ms.load(Ordering::Relaxed) {
            self.due_ms.store(now_ms + LOOK.as_millis() as u64, Ordering::Relaxed);
            self.look();
        }
        self.value.load_full()
    }

    fn look(&self) {
        let mut seen = match self.seen.try_lock() {
            Ok(seen) => seen,
            Err(TryLockError::Poisoned(seen)) => seen.into_inner(),
            // Another request looks already.
            Err(TryLockError::WouldBlock) => return,
        };
        let now: Vec<_> = self.files.iter().map(|file| stamp(file)).collect();
        if now == *seen {
            return;
        }
        *seen = now;
        match (self.read)() {
            Ok(value) => {
                self.value.store(Arc::new(value));
                tracing::info!(files = ?self.files, "read again");
            }
            Err(error) => tracing::warn!(%error, "cannot use what was renewed; the old stays"),
        }
    }
}

impl<T> fmt::Debug for Renewed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Renewed").field("files", &self.files).finish_non_exhaustive()
    }
}

/// A secret given as it is, or by the file it stands in.
pub type RenewedSecret = Renewed<Secret>;

impl Renewed<Secret> {
    /// The secret that a configuration names in one way or the other, if it does; a file's is trimmed.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn of(value: Option<&Secret>, file: Option<&Path>) -> Result<Option<Self>, SettingsError> {
        match (value, file) {
            (Some(secret), _) => {
                let secret = secret.clone();
                Self::new(Vec::new(), move || Ok(secret.clone())).map(Some)
            }
            (None, Some(path)) => {
                let path = path.to_owned();
                let read = {
                    let path = path.clone();
                    move || match std::fs::read_to_string(&path) {
                        Ok(text) => Ok(Secret::new(text.trim())),
                        Err(cause) => Err(SettingsError::Read { path: path.clone(), cause }),
                    }
                };
                Self::new(vec![path], read).map(Some)
            }
            (None, None) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_again_when_its_file_is_replaced_and_kept_while_that_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "old\n").unwrap();
        let secret = RenewedSecret::of(None, Some(&file)).unwrap().unwrap();
        assert_eq!(secret.get().reveal(), "old");
        let at_once = || secret.due_ms.store(0, Ordering::Relaxed);
        std::fs::remove_file(&file).unwrap();
        at_once();
        assert_eq!(secret.get().reveal(), "old");
        std::fs::write(&file, "newer\n").unwrap();
        at_once();
        assert_eq!(secret.get().reveal(), "newer");
        assert!(RenewedSecret::of(None, Some(&folder.path().join("none"))).is_err());
    }
}
