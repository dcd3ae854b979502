//! A file that is being written, whatever its format.

use crate::arrow_part::ArrowPart;
use crate::csv_part::CsvPart;
use crate::error::Error;
use crate::{Metadata, lock};
use arrow_array::RecordBatch;
use crosstalk_model::Dataset;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The format of finished files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text that every tool opens; metadata in a JSON file beside it.
    #[default]
    Csv,
    /// Columns, compressed; metadata inside.
    Parquet,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "csv" => Ok(Self::Csv),
            "parquet" => Ok(Self::Parquet),
            other => Err(format!("\"{other}\" is not one of csv, parquet")),
        }
    }
}

/// Where the pieces of one file are.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    folder: PathBuf,
    stem: String,
}

impl Paths {
    pub(crate) fn new(folder: PathBuf, stem: String) -> Self {
        Self { folder, stem }
    }

    /// The paths of the file that the part at `path` becomes.
    pub(crate) fn of_part(path: &Path, ending: &str) -> Option<Self> {
        let stem = path.file_name()?.to_str()?.strip_suffix(ending)?;
        Some(Self { folder: path.parent()?.to_owned(), stem: stem.to_owned() })
    }

    pub(crate) fn with(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}{ending}", self.stem))
    }

    /// Makes what was renamed in the folder survive a power cut.
    pub(crate) fn sync_folder(&self) -> Result<(), Error> {
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|e| Error::io(&self.folder, e))
    }
}

/// A file that is being written.
pub(crate) enum Part {
    Csv(CsvPart),
    Arrow(Box<ArrowPart>),
}

impl Part {
    /// Starts a new file; never touches one that exists.
    pub(crate) fn create(
        format: Format,
        dataset: Dataset,
        (folder, stem): (PathBuf, String),
        metadata: &Metadata,
    ) -> Result<Self, Error> {
        fs::create_dir_all(&folder)
            .map_err(|source| Error::Unwritable { path: folder.clone(), source })?;
        let mut attempt = 1;
        loop {
            let stem = if attempt == 1 { stem.clone() } else { format!("{stem}-{attempt}") };
            let paths = Paths::new(folder.clone(), stem);
            let made = match format {
                Format::Csv => CsvPart::create(&paths, dataset, metadata).map(Self::Csv),
                Format::Parquet => ArrowPart::create(&paths, dataset, metadata)
                    .map(|part| Self::Arrow(Box::new(part))),
            };
            match made {
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                    attempt += 1;
                }
                Err(Error::Io { source, .. }) => {
                    return Err(Error::Unwritable { path: folder, source });
                }
                other => return other,
            }
        }
    }

    /// Appends a table; when this returns, a kill -9 no longer costs it.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        match self {
            Self::Csv(part) => part.write(batch),
            Self::Arrow(part) => part.write(batch),
        }
    }

    /// How large the file being written is.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Csv(part) => part.bytes(),
            Self::Arrow(part) => part.bytes(),
        }
    }

    /// Turns the part into the finished file and returns its path.
    pub(crate) fn finish(self) -> Result<PathBuf, Error> {
        match self {
            Self::Csv(part) => part.finish(),
            Self::Arrow(part) => part.finish(),
        }
    }
}

/// Creates and locks a part, provided that neither it nor the file it will become exists.
pub(crate) fn create_locked(part: &Path, finished: &Path) -> Result<File, Error> {
    if finished.exists() {
        return Err(Error::io(finished, io::ErrorKind::AlreadyExists.into()));
    }
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create_new(true)
        .open(part)
        .map_err(|e| Error::io(part, e))?;
    lock::try_lock(&file).map_err(|e| Error::io(part, e))?;
    Ok(file)
}
