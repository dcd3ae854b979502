use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a service does not listen. The text of each is whole, its cause included.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {cause}; choose another with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        cause: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("{}: {reason}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that the configuration names cannot be read.
    #[error(transparent)]
    Settings(#[from] crosstalk_settings::SettingsError),
    /// No thread can be made.
    #[error("cannot start a thread to serve on: {0}")]
    Thread(io::Error),
}
