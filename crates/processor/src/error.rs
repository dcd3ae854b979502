//! Why the processor does not start, or stops.

use std::path::{Path, PathBuf};

use crate::queue::QueueError;

/// What the processor as a whole can fail with; requests have their own answers.
///
/// Each variant's text is whole, the cause included, so none names a cause beside it: whoever prints a chain of causes
/// would print it twice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] crosstalk_settings::SettingsError),
    /// A file cannot be read or written.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// It cannot listen as configured.
    #[error(transparent)]
    Serve(#[from] crosstalk_serve::ServeError),
    /// A certificate or key cannot be used.
    #[error("{}: {reason}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A forward queue cannot be opened.
    #[error("queue of endpoint {endpoint:?}: {cause}")]
    Queue {
        /// The endpoint's name.
        endpoint: String,
        /// What the queue said.
        cause: QueueError,
    },
    /// The queue of log lines cannot be opened.
    #[error("queue of log lines: {cause}")]
    LogQueue {
        /// What the queue said.
        cause: QueueError,
    },
    /// The static file of pods and workloads cannot be used.
    #[error(transparent)]
    StaticFile(#[from] crosstalk_inventory::StaticFileError),
    /// The database cannot be used as configured.
    #[error("database: {0}")]
    Database(crosstalk_store::Error),
    /// A log pattern of the configuration cannot be used.
    #[error(transparent)]
    LogPattern(#[from] crosstalk_training_log::Error),
    /// Kubernetes cannot be spoken to as configured.
    #[error("kubernetes: {0}")]
    Kubernetes(String),
}

impl From<crosstalk_store::Error> for Error {
    fn from(error: crosstalk_store::Error) -> Self {
        Error::Database(error)
    }
}

pub(crate) fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |cause| Error::File { path: path.to_owned(), cause }
}

/// An HTTP client's error with its causes, which say what matters ("connection refused").
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_causes_says_nothing_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("q");
        let missing = || std::io::Error::other("no such thing");
        let address = ([127, 0, 0, 1], 1).into();
        let config = crate::Config::from_text("p.toml", "listen = 1").unwrap_err();
        for error in [
            Error::Queue {
                endpoint: "store".into(),
                cause: QueueError::InUse { path: path.clone() },
            },
            Error::Queue {
                endpoint: "store".into(),
                cause: QueueError::Io { path: path.clone(), source: missing() },
            },
            Error::Serve(crosstalk_serve::ServeError::Listen { address, cause: missing() }),
            Error::Database(crosstalk_store::Error::UnknownScheme { scheme: "foo".into() }),
            Error::Config(config),
            file_error(&path)(missing()),
        ] {
            assert_eq!(with_causes(&error), error.to_string());
        }
    }
}
