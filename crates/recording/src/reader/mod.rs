//! Recordings read back: a folder, some files or an object store, as Arrow batches.
//!
//! Only the columns and the time that are asked for are read, as far as the format lets one skip the
//! rest. Parts that a crash left or that are still being written are read too, up to their last whole
//! row. A file that cannot be read is an error that names it, and the next one follows.

mod csv;
mod file;
mod locate;
mod object;
mod parquet;
mod part;

pub use file::{RecordedFile, State};

use crate::store::Store;
use crate::{Error, Metadata};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use object_store::ObjectStore;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// A recording, or many of them, opened for reading.
///
/// ```no_run
/// use crosstalk_recording::Reader;
///
/// let reader = Reader::open(["rec"])?;
/// let tasks = reader.scan("tasks").columns(["pid", "on_cpu_ns"]);
/// for piece in tasks.pieces() {
///     let piece = piece?;
///     println!("{} rows of node {}", piece.batch.num_rows(), piece.file.node);
/// }
/// # Ok::<(), crosstalk_recording::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    files: Vec<RecordedFile>,
    exchanging: Vec<String>,
    unread: Vec<String>,
}

impl Reader {
    /// Finds the files of recordings at `places`: folders, single files, or URLs such as
    /// `s3://bucket/folder`.
    ///
    /// # Errors
    /// There is nothing at one of them, or it cannot be listed.
    pub fn open<P: AsRef<str>>(places: impl IntoIterator<Item = P>) -> Result<Self, Error> {
        let (mut files, mut exchanging, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for place in places {
            let found = locate::files(place.as_ref())?;
            files.extend(found.files);
            exchanging.extend(found.exchanging);
            unread.extend(found.unread.iter().map(ToString::to_string));
        }
        files.sort_by(|a, b| (&a.dataset, &a.node, &a.name).cmp(&(&b.dataset, &b.node, &b.name)));
        files.dedup_by(|a, b| a.path == b.path);
        // Between a rename and a removal, or after a crash there, a part stands beside its finished file.
        let finished: HashSet<String> =
            files.iter().filter(|f| f.state.is_finished()).map(|f| f.stem().to_owned()).collect();
        files.retain(|file| file.state.is_finished() || !finished.contains(file.stem()));
        Ok(Self { files, exchanging, unread })
    }

    /// How the names of objects begin that stand beside those which they are exchanged for ([`crate::Exchange`],
    /// [`crate::Additions`]): whoever lists them without heeding notes takes both.
    pub fn exchanging(&self) -> &[String] {
        &self.exchanging
    }

    /// Folders that none of the files are of, and why: what is to be read there cannot be told.
    pub fn unread(&self) -> &[String] {
        &self.unread
    }

    /// The same, with those files only that this holds for.
    #[must_use]
    pub fn only(&self, keep: impl Fn(&RecordedFile) -> bool) -> Self {
        let files = self.files.iter().filter(|file| keep(file)).cloned().collect();
        Self { files, exchanging: self.exchanging.clone(), unread: self.unread.clone() }
    }

    /// The files found, by data set, node and time.
    pub fn files(&self) -> &[RecordedFile] {
        &self.files
    }

    /// The names of the data sets there are.
    pub fn datasets(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.files.iter().map(|file| file.dataset.as_str()).collect();
        names.dedup();
        names
    }

    /// All rows and columns of a data set, to be narrowed down.
    pub fn scan(&self, dataset: &str) -> Scan<'_> {
        let files = self.files.iter().filter(|file| file.dataset == dataset).collect();
        Scan { files, columns: None, time: None, some: None }
    }
}

/// What is to be read of a data set.
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    files: Vec<&'a RecordedFile>,
    columns: Option<Vec<String>>,
    time: Option<Range<u64>>,
    some: Option<String>,
}

/// Rows of one file.
#[derive(Clone, Debug)]
pub struct Piece<'a> {
    /// The file.
    pub file: &'a RecordedFile,
    /// The rows.
    pub batch: RecordBatch,
}

impl<'a> Scan<'a> {
    /// Only these columns, in the file's order. One that a file does not have is left out there.
    #[must_use]
    pub fn columns<C: Into<String>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Only rows whose slot begins in this range, Unix nanoseconds. Files that lie in folders of another time are not
    /// opened.
    #[must_use]
    pub fn between(mut self, time: Range<u64>) -> Self {
        self.files.retain(|file| file.can_hold(&time));
        self.time = Some(time);
        self
    }

    /// Without those rows that a file says, of many at once, to have nothing above 0 in this column. Others of that kind
    /// may still be among what is read.
    #[must_use]
    pub fn with_some(mut self, column: impl Into<String>) -> Self {
        self.some = Some(column.into());
        self
    }

    /// Only files that this holds for.
    #[must_use]
    pub fn files(mut self, keep: impl Fn(&RecordedFile) -> bool) -> Self {
        self.files.retain(|file| keep(file));
        self
    }

    /// The files that would be read.
    pub fn chosen(&self) -> &[&'a RecordedFile] {
        &self.files
    }

    /// The rows, file by file. After an error the next file follows.
    pub fn pieces(&self) -> impl Iterator<Item = Result<Piece<'a>, Error>> + use<'a> {
        let wanted = Wanted {
            columns: self.columns.clone(),
            time: self.time.clone(),
            some: self.some.clone(),
        };
        let files = self.files.clone().into_iter();
        files.flat_map(move |file| -> Box<dyn Iterator<Item = Result<Piece<'a>, Error>>> {
            match file.batches(&wanted) {
                Ok(batches) => Box::new(
                    until_broken(batches)
                        .map(move |batch| batch.map(|batch| Piece { file, batch }))
                        .filter(|piece| !piece.as_ref().is_ok_and(|p| p.batch.num_rows() == 0)),
                ),
                Err(error) => Box::new(std::iter::once(Err(error))),
            }
        })
    }
}

/// What follows the first failure of a file is not to be trusted, and may be the same failure for ever.
fn until_broken(batches: Batches) -> impl Iterator<Item = Result<RecordBatch, Error>> {
    let mut is_broken = false;
    batches.map_while(move |batch| {
        let is_wanted = !is_broken;
        is_broken |= batch.is_err();
        is_wanted.then_some(batch)
    })
}

/// What the formats are asked for.
#[derive(Clone, Debug, Default)]
struct Wanted {
    columns: Option<Vec<String>>,
    time: Option<Range<u64>>,
    /// A column that must be above 0 somewhere.
    some: Option<String>,
}

impl Wanted {
    fn has(&self, column: &str) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(|name| name == column))
    }

    /// Whether a file or a part of one that spans these slots (both inclusive) can hold wanted rows.
    fn overlaps(&self, first_ns: i64, last_ns: i64) -> bool {
        let as_ns = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        self.time
            .as_ref()
            .is_none_or(|time| last_ns >= as_ns(time.start) && first_ns < as_ns(time.end))
    }
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, Error>>>;

impl RecordedFile {
    fn batches(&self, wanted: &Wanted) -> Result<Batches, Error> {
        match self.state {
            State::Parquet => parquet::batches(self, wanted),
            State::Csv | State::CsvPart => csv::batches(self, wanted),
            State::ArrowPart => part::batches(self, wanted),
        }
    }

    /// The columns it has, in its order. It reads the end of a Parquet file: one that is cut off is an error.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn schema(&self) -> Result<SchemaRef, Error> {
        match self.state {
            State::Parquet => parquet::schema(self),
            State::ArrowPart => part::schema(self),
            State::Csv | State::CsvPart => csv::columns(self),
        }
    }

    /// How many rows it has, if it says so at its end.
    ///
    /// # Errors
    /// The end cannot be read.
    pub fn rows(&self) -> Result<Option<u64>, Error> {
        match self.state {
            State::Parquet => parquet::rows(self).map(Some),
            State::Csv | State::CsvPart | State::ArrowPart => Ok(None),
        }
    }

    /// Its rows and columns, to be narrowed down.
    pub fn scan(&self) -> Scan<'_> {
        Scan { files: vec![self], columns: None, time: None, some: None }
    }

    /// Removes it, and what a CSV file says of itself beside it. One that is gone is no error.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self) -> Result<(), Error> {
        self.store.remove(self.store.below(&self.name))?;
        let Some(stem) = self.name.strip_suffix(".csv") else { return Ok(()) };
        self.store.remove(self.store.below(&format!("{stem}.json")))
    }

    /// The object it is: the URL of its store, the store, and its name there. `None` for a file of this machine.
    pub fn object(&self) -> Option<(&str, Arc<dyn ObjectStore>, &str)> {
        match &self.store {
            Store::Local => None,
            Store::Remote(remote) => Some((&remote.bucket, remote.objects.clone(), &self.name)),
        }
    }

    /// What the file says about itself.
    ///
    /// # Errors
    /// It cannot be read, or does not say.
    pub fn metadata(&self) -> Result<Metadata, Error> {
        match self.state {
            State::Parquet => parquet::metadata(self),
            State::ArrowPart => part::metadata(self),
            State::Csv => csv::metadata(self, ".csv", ".json"),
            State::CsvPart => csv::metadata(self, ".csv.part", ".json.part"),
        }
    }
}
