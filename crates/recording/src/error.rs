use std::io;
use std::path::{Path, PathBuf};

/// Why a recording could not be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The output folder cannot be used.
    #[error(
        "cannot write into {}: {source}; choose another folder: --out, or the agent's recording.out",
        path.display()
    )]
    Unwritable {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The disk is full.
    #[error(
        "no space left for {}; free some or choose another folder: --out, or the agent's \
         recording.out (what was written so far is kept and recovered by the next recording into \
         the same folder)",
        path.display()
    )]
    DiskFull {
        /// The file being written.
        path: PathBuf,
    },
    /// Any other failure of a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The data could not be encoded.
    #[error("cannot encode {}: {reason}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// The encoder's reason.
        reason: String,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => Self::DiskFull { path: path.to_owned() },
            _ => Self::Io { path: path.to_owned(), source },
        }
    }

    /// An error of the Arrow or Parquet encoder, which wraps the file's own.
    pub(crate) fn encode(path: &Path, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(inner) = cause {
            if let Some(io) = inner.downcast_ref::<io::Error>()
                && let Some(code) = io.raw_os_error()
            {
                return Self::io(path, io::Error::from_raw_os_error(code));
            }
            cause = inner.source();
        }
        Self::Encode { path: path.to_owned(), reason: error.to_string() }
    }
}
