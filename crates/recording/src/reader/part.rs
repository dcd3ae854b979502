//! Parts of Parquet files: Arrow streams, read up to their last whole table.

use super::parquet::narrow;
use super::{Batches, RecordedFile, Wanted};
use crate::part::Paths;
use crate::{Error, Metadata, arrow_part, parquet};
use arrow_schema::SchemaRef;
use std::path::Path;

pub(super) fn batches(file: &RecordedFile, wanted: &Wanted) -> Result<Batches, Error> {
    let path = Path::new(&file.path);
    // What follows the last whole table was cut off by a crash, or is being written.
    let tables = parquet::whole_tables(parquet::open_stream(path)?, path);
    let (wanted, path) = (wanted.clone(), file.path.clone());
    let failed = move |reason: String| Error::Unreadable { path: path.clone(), reason };
    Ok(Box::new(
        tables.map(move |table| narrow(&table?, &wanted).map_err(|e| failed(e.to_string()))),
    ))
}

pub(super) fn schema(file: &RecordedFile) -> Result<SchemaRef, Error> {
    Ok(parquet::open_stream(Path::new(&file.path))?.schema())
}

pub(super) fn metadata(file: &RecordedFile) -> Result<Metadata, Error> {
    let path = Path::new(&file.path);
    if let Some(about) = Paths::of_part(path, arrow_part::ENDING).and_then(|paths| paths.about()) {
        return Ok(about);
    }
    Ok(Metadata::from_entries(parquet::open_stream(path)?.schema().metadata()))
}
