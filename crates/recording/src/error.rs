use std::io;
use std::path::{Path, PathBuf};

/// Why a recording could not be written or read.
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
         recording.out (what was written so far is kept; finish it with crosstalk recover DIR)",
        path.display()
    )]
    DiskFull {
        /// The file being written.
        path: PathBuf,
    },
    /// The folder holds a recording already.
    #[error(
        "{} already holds a recording ({run}); choose another folder, or add a run to it with --append, which \
         queries tell apart by the column run",
        path.display()
    )]
    Occupied {
        /// The folder.
        path: PathBuf,
        /// A run that is there.
        run: String,
    },
    /// Rows of a data set for which no file was opened.
    #[error("no file is open for the data set {dataset}")]
    NotOpen {
        /// The data set.
        dataset: &'static str,
    },
    /// A finished file has other rows than the part it was made from, which is kept.
    #[error(
        "{} has {stands} rows where {expected} were written; {} is kept and finished by crosstalk recover",
        path.display(), part.display()
    )]
    RowsDiffer {
        /// The part.
        part: PathBuf,
        /// The finished file.
        path: PathBuf,
        /// Rows written.
        expected: u64,
        /// Rows in the finished file.
        stands: u64,
    },
    /// There is no recording to read.
    #[error(
        "{place}: no recording here; give a folder that crosstalk record, agent or bench wrote, or its files"
    )]
    NothingThere {
        /// The folder, file or URL.
        place: String,
    },
    /// A file holds something else than it should.
    #[error("{path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The object store does not answer as it should.
    #[error("{url}: {reason}")]
    Store {
        /// The object or the store.
        url: String,
        /// What it said.
        reason: String,
    },
    /// Nobody answers where the object store is.
    #[error("{url}: {reason}")]
    Unreachable {
        /// The object or the store.
        url: String,
        /// What was tried, and for how long.
        reason: String,
    },
    /// The object store does not let these keys do that.
    #[error("{url}: {reason}")]
    Denied {
        /// The object or the store.
        url: String,
        /// What it said.
        reason: String,
    },
    /// Any other failure of a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A fault of ours.
    #[error("the recorder panicked: {reason}; this is a bug in crosstalk")]
    Panicked {
        /// What the panic said.
        reason: String,
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

    /// A part that holds something else than its writer wrote.
    pub(crate) fn damaged(path: &Path, error: &dyn std::error::Error) -> Self {
        let reason = format!("it is damaged ({error}); it is left as it is");
        Self::Unreadable { path: path.display().to_string(), reason }
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
