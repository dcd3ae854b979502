use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the agent does not start. A source that fails is no reason: the others go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The configuration file cannot be read.
    #[error("{}: {source}; `crosstalk agent --print-config` prints one to start from", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Something in file or environment cannot be.
    #[error("{place}: {what}")]
    Config {
        /// File and line, or the variable.
        place: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// The buffers cannot be made.
    #[error("cannot make a buffer: {0}")]
    Window(#[from] crosstalk_window::WindowError),
    /// A thread or the runtime cannot be made.
    #[error("cannot start {what}: {source}")]
    Start {
        /// Which.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl AgentError {
    pub(crate) fn config(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Config { place: place.into(), what: what.into() }
    }
}
