//! Why the processor does not start, or stops.

use std::path::{Path, PathBuf};

use crate::queue::QueueError;

/// What the processor as a whole can fail with; requests have their own answers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot be used.
    #[error("{0}")]
    Config(#[from] crate::config::ConfigError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("{}: {reason}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A forward queue cannot be opened.
    #[error("queue of endpoint {endpoint:?}: {source}")]
    Queue {
        /// The endpoint's name.
        endpoint: String,
        /// What the queue said.
        source: QueueError,
    },
    /// The static file of pods and workloads cannot be used.
    #[error("{}: {reason}", path.display())]
    StaticFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, with the place.
        reason: String,
    },
    /// The database cannot be used as configured.
    #[error("database: {0}")]
    Database(#[from] crosstalk_store::Error),
    /// A log pattern of the configuration cannot be used.
    #[error(transparent)]
    LogPattern(#[from] crosstalk_training_log::Error),
    /// Kubernetes cannot be spoken to as configured.
    #[error("kubernetes: {0}")]
    Kubernetes(String),
}

pub(crate) fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |source| Error::File { path: path.to_owned(), source }
}
