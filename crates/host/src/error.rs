use std::io;
use std::path::PathBuf;

/// A file of the host could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", path.display())]
pub struct HostError {
    /// The file.
    pub path: PathBuf,
    /// The kernel's reason.
    pub source: io::Error,
}
