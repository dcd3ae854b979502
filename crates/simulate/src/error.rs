use std::io;
use std::path::PathBuf;

/// Why a simulated recording cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The rows cannot be.
    #[error(transparent)]
    Recording(#[from] crosstalk_recording::Error),
    /// The labels cannot be.
    #[error("{path}: {source}")]
    Labels {
        /// Where they were to go.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
}
