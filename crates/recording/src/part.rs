//! A file that is being written, whatever its format.
//!
//! Beside the rows lies `STEM.json.part`, what the file says about itself so far. It is replaced whole
//! when there is news, such as rows that were lost, so a crash loses neither.

use crate::Metadata;
use crate::arrow_part::ArrowPart;
use crate::csv_part::CsvPart;
use crate::error::Error;
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

const ABOUT: &str = ".json.part";
/// Endings of what is only there for a moment.
pub(crate) const PASSING: [&str; 2] = [".json.tmp", ".parquet.tmp"];

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

    /// What the file says about itself so far; `None` if nobody wrote that down.
    pub(crate) fn about(&self) -> Option<Metadata> {
        fs::read_to_string(self.with(ABOUT)).ok().and_then(|text| Metadata::from_json(&text))
    }

    pub(crate) fn write_about(&self, metadata: &Metadata) -> Result<(), Error> {
        let (new, about) = (self.with(PASSING[0]), self.with(ABOUT));
        fs::write(&new, metadata.to_json()).map_err(|e| Error::io(&new, e))?;
        fs::rename(&new, &about).map_err(|e| Error::io(&about, e))
    }

    /// Puts it beside the finished file.
    pub(crate) fn publish_about(&self) -> Result<(), Error> {
        let about = self.with(ABOUT);
        match fs::rename(&about, self.with(".json")) {
            // A crash between the two renames of an earlier attempt.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|e| Error::io(&about, e)),
        }
    }

    /// The finished file holds it, or there is nothing to say it about.
    pub(crate) fn remove_about(&self) {
        let _ = fs::remove_file(self.with(ABOUT));
    }

    /// Makes what was renamed in the folder survive a power cut.
    pub(crate) fn sync_folder(&self) -> Result<(), Error> {
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|e| Error::io(&self.folder, e))
    }
}

enum Rows {
    Csv(CsvPart),
    Arrow(Box<ArrowPart>),
}

/// A file that is being written.
pub(crate) struct Part {
    paths: Paths,
    rows: Rows,
}

impl Part {
    /// Starts a new file; never touches one that exists.
    pub(crate) fn create(
        format: Format,
        dataset: &Dataset,
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
                Format::Csv => CsvPart::create(&paths, dataset).map(Rows::Csv),
                Format::Parquet => ArrowPart::create(&paths, dataset, metadata)
                    .map(|part| Rows::Arrow(Box::new(part))),
            };
            match made {
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                    attempt += 1;
                }
                Err(Error::Io { source, .. }) => {
                    return Err(Error::Unwritable { path: folder, source });
                }
                Err(other) => return Err(other),
                Ok(rows) => {
                    paths.write_about(metadata)?;
                    return Ok(Self { paths, rows });
                }
            }
        }
    }

    /// Appends a table; when this returns, a kill -9 no longer costs it.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        match &mut self.rows {
            Rows::Csv(part) => part.write(batch),
            Rows::Arrow(part) => part.write(batch),
        }
    }

    /// Replaces what the file says about itself.
    pub(crate) fn describe(&self, metadata: &Metadata) -> Result<(), Error> {
        self.paths.write_about(metadata)
    }

    /// How large the file being written is.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.rows {
            Rows::Csv(part) => part.bytes(),
            Rows::Arrow(part) => part.bytes(),
        }
    }

    /// Turns the part, which has so many rows, into the finished file and returns its path.
    pub(crate) fn finish(self, rows: u64) -> Result<PathBuf, Error> {
        match self.rows {
            Rows::Csv(part) => part.finish(),
            Rows::Arrow(part) => part.finish(rows),
        }
    }
}

/// Creates and locks a part, provided that neither it nor the file it will become exists.
pub(crate) fn create_locked(part: &Path, finished: &Path) -> Result<File, Error> {
    if finished.exists() {
        return Err(Error::io(finished, io::ErrorKind::AlreadyExists.into()));
    }
    // Locked before it has its name, so that no other recorder can "recover" it meanwhile.
    let new = part.with_extension(format!("part.{}", std::process::id()));
    let io = |e| Error::io(part, e);
    let _ = fs::remove_file(&new);
    let file =
        OpenOptions::new().read(true).append(true).create_new(true).open(&new).map_err(io)?;
    let locked = file.try_lock().map_err(|e| io(e.into()));
    let named = locked.and_then(|()| fs::hard_link(&new, part).map_err(io));
    let removed = fs::remove_file(&new).map_err(io);
    named.and(removed).map(|()| file)
}
