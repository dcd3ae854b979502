//! One at a time: who changes the files of a folder holds it.

use crate::Error;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// A folder that nobody else changes as long as this is there. The kernel ends it with the process, however that ends,
/// and nothing is left in the folder.
#[derive(Debug)]
pub(crate) struct Held(#[allow(dead_code)] File);

/// Holds a folder. `None` if somebody else does.
pub(crate) fn hold(folder: &Path) -> Result<Option<Held>, Error> {
    let opened = File::open(folder).map_err(|e| Error::io(folder, e))?;
    match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Held(opened))),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(Error::io(folder, error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_held_by_one_until_that_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let held = hold(folder.path()).unwrap();
        assert!(held.is_some() && hold(folder.path()).unwrap().is_none());
        drop(held);
        assert!(hold(folder.path()).unwrap().is_some());
    }
}
