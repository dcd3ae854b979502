use datafusion::error::DataFusionError;
use std::path::PathBuf;

/// Why a question could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A recording cannot be opened or read.
    #[error(transparent)]
    Recording(#[from] crosstalk_recording::Error),
    /// The query is wrong: what, where, and what may have been meant.
    #[error("{0}")]
    Query(String),
    /// The engine failed.
    #[error("{0}")]
    Engine(String),
    /// What was asked for cannot be.
    #[error("{0}")]
    Refused(String),
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        Self::Engine(error.strip_backtrace())
    }
}

impl Error {
    pub(crate) fn io(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}
