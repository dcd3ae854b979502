use std::io;
use std::path::PathBuf;

/// Why the probe cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The list of cores cannot be read.
    #[error("{}: {source}; the probe needs the list of cores, check --host-root", path.display())]
    Topology {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The list of cores is empty or unreadable.
    #[error("{}: names no core; check --host-root", path.display())]
    NoCores {
        /// The file.
        path: PathBuf,
    },
    /// The probe's thread could not be made.
    #[error("probe thread: {0}")]
    Thread(#[source] io::Error),
}
