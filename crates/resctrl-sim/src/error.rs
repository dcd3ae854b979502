//! What can go wrong before the simulated kernel answers.

use std::path::PathBuf;

use crate::Profile;

/// Why a simulator could not be started or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such machine.
    #[error("unknown profile {0:?}: choose one of {names}", names = Profile::NAMES.join(", "))]
    UnknownProfile(String),
    /// The mount failed.
    #[error("{}: cannot mount the simulator: {source} (it needs /dev/fuse, and root or fusermount3)", path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// What failed.
        source: std::io::Error,
    },
    /// The mount point is no directory.
    #[error("{}: no directory to mount on: create it first", path.display())]
    NoDirectory {
        /// The mount point.
        path: PathBuf,
    },
    /// One resctrl on another would hide it.
    #[error("{}: there is a resctrl already: use it, end it first, or choose another directory", path.display())]
    AlreadyThere {
        /// The mount point.
        path: PathBuf,
    },
    /// The unmount failed.
    #[error("{}: cannot unmount the simulator: {source}", path.display())]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// What failed.
        source: std::io::Error,
    },
}
