use std::io;
use std::path::PathBuf;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file cannot be read.
    #[error("{}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        cause: io::Error,
    },
    /// Something in it cannot be.
    #[error("{place}: {what}")]
    Invalid {
        /// File and line, variable, or flag.
        place: String,
        /// The key, what is wrong with it, and what would be right.
        what: String,
    },
}

impl SettingsError {
    pub(crate) fn invalid(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Invalid { place: place.into(), what: what.into() }
    }
}
