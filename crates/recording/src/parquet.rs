//! An Arrow IPC stream into a Parquet file, table by table, so memory stays flat.

use crate::Metadata;
use crate::encoding::properties;
use crate::error::Error;
use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A row group is held until it is whole, each page in a buffer as large as it was before it was compressed. A recorder
/// writes it earlier, so that it takes no more memory to finish a long file than a short one.
const HELD_ROWS: usize = 1 << 17;
const HELD_BYTES: usize = 2 << 20;

/// Converts `stream` into a finished and synced Parquet file at `target`, which says about itself what
/// the stream does or, where there is newer, `about`. A stream that breaks off, as a kill -9 leaves it,
/// is converted up to its last whole table. Answers how many rows it has.
pub(crate) fn convert(stream: &Path, target: &Path, about: Option<Metadata>) -> Result<u64, Error> {
    let reader = open_stream(stream)?;
    let schema = reader.schema();
    let about = about.unwrap_or_else(|| Metadata::from_entries(schema.metadata()));
    let about = about.entries().map(|(key, value)| KeyValue::new(key, value)).collect();
    let plain = Arc::new(schema.as_ref().clone().with_metadata(HashMap::new()));
    let output = File::create(target).map_err(|e| Error::io(target, e))?;
    let encode = |e| Error::encode(target, &e);
    let properties = properties(&plain, about);
    let mut writer = ArrowWriter::try_new(output, plain, Some(properties)).map_err(encode)?;
    let mut rows = 0;
    for batch in whole_tables(reader, stream) {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        writer.write(&batch).map_err(encode)?;
        if writer.in_progress_rows() >= HELD_ROWS || writer.in_progress_size() >= HELD_BYTES {
            writer.flush().map_err(encode)?;
        }
    }
    let output = writer.into_inner().map_err(encode)?;
    output.sync_all().map_err(|e| Error::io(target, e))?;
    Ok(rows)
}

/// A Parquet file of rows that were recorded before: many files merged, or rows summed up. Until it is whole it has
/// another name, which no reader takes for a file of a recording.
pub struct ParquetFile {
    writer: ArrowWriter<File>,
    target: PathBuf,
    passing: PathBuf,
    rows: u64,
}

impl ParquetFile {
    /// Begins a file of `schema` that says `about` of itself.
    ///
    /// # Errors
    /// It cannot be written there.
    pub fn create(target: &Path, schema: &SchemaRef, about: &Metadata) -> Result<Self, Error> {
        let passing = target.with_extension("parquet.new");
        let about = about.entries().map(|(key, value)| KeyValue::new(key, value)).collect();
        let plain = Arc::new(schema.as_ref().clone().with_metadata(HashMap::new()));
        let output = File::create(&passing).map_err(|e| Error::io(&passing, e))?;
        let writer = ArrowWriter::try_new(output, plain.clone(), Some(properties(&plain, about)))
            .map_err(|e| Error::encode(&passing, &e))?;
        Ok(Self { writer, target: target.to_owned(), passing, rows: 0 })
    }

    /// Adds rows.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(|e| Error::encode(&self.passing, &e))
    }

    /// Rows so far.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Leaves nothing of it.
    pub fn give_up(self) {
        drop(self.writer);
        // Under its passing name nobody reads it, should it stay.
        let _ = std::fs::remove_file(&self.passing);
    }

    /// Ends it, makes it safe on disk and gives it its name.
    ///
    /// # Errors
    /// The end cannot be written.
    pub fn finish(self) -> Result<FinishedRows, Error> {
        let Self { writer, target, passing, rows } = self;
        let output = writer.into_inner().map_err(|e| Error::encode(&passing, &e))?;
        output.sync_all().map_err(|e| Error::io(&passing, e))?;
        let bytes = output.metadata().map_err(|e| Error::io(&passing, e))?.len();
        std::fs::rename(&passing, &target).map_err(|e| Error::io(&target, e))?;
        Ok(FinishedRows { path: target, rows, bytes })
    }
}

/// A [`ParquetFile`] that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedRows {
    /// Where it is.
    pub path: PathBuf,
    /// Its rows.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
}

/// Rows of the whole tables of a stream.
pub(crate) fn whole_rows(stream: &Path) -> Result<u64, Error> {
    whole_tables(open_stream(stream)?, stream).map(|t| t.map(|t| t.num_rows() as u64)).sum()
}

/// Rows of a finished file, by its footer.
pub(crate) fn finished_rows(path: &Path) -> Result<u64, Error> {
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let mut footer = ParquetMetaDataReader::new();
    footer.try_parse(&file).map_err(|e| Error::encode(path, &e))?;
    let footer = footer.finish().map_err(|e| Error::encode(path, &e))?;
    Ok(u64::try_from(footer.file_metadata().num_rows()).unwrap_or(0))
}

/// The tables of a stream up to where it was cut off. Anything else that is wrong with it is an error: what
/// follows may still be readable, and is not to be thrown away.
pub(crate) fn whole_tables(
    reader: StreamReader<BufReader<File>>,
    stream: &Path,
) -> impl Iterator<Item = Result<RecordBatch, Error>> + use<> {
    let path = stream.to_owned();
    let is_cut = |error: &ArrowError| matches!(error, ArrowError::IoError(_, e) if e.kind() == io::ErrorKind::UnexpectedEof);
    reader
        .take_while(move |table| !table.as_ref().is_err_and(is_cut))
        .map(move |table| table.map_err(|e| Error::damaged(&path, &e)))
}

pub(crate) fn open_stream(stream: &Path) -> Result<StreamReader<BufReader<File>>, Error> {
    let input = File::open(stream).map_err(|e| Error::io(stream, e))?;
    StreamReader::try_new(BufReader::new(input), None).map_err(|e| Error::encode(stream, &e))
}
