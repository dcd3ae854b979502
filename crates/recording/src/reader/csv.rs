//! CSV files, finished or not: the header says which columns there are, the metadata beside it what they
//! hold.

use super::parquet::narrow;
use super::{Batches, RecordedFile, Wanted};
use crate::schema::data_type;
use crate::store::Store;
use crate::{Error, Metadata};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_csv::ReaderBuilder;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use crosstalk_model::Kind;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::sync::Arc;

const BATCH_ROWS: usize = 16 * 1024;

pub(super) fn batches(file: &RecordedFile, wanted: &Wanted) -> Result<Batches, Error> {
    let path = file.path.clone();
    let failed = move |reason: String| Error::Unreadable { path: path.clone(), reason };
    let (input, schema) = begin(file)?;
    let whole = WholeLines { input, line: Vec::new(), at: 0 };
    let reader = ReaderBuilder::new(Arc::new(schema))
        .with_batch_size(BATCH_ROWS)
        .build_buffered(BufReader::with_capacity(1 << 16, whole))
        .map_err(|e| failed(e.to_string()))?;
    let wanted = wanted.clone();
    Ok(Box::new(reader.map(move |batch| {
        let narrowed = batch.and_then(|batch| narrow(&in_utc(batch)?, &wanted));
        narrowed.map_err(|e| failed(e.to_string()))
    })))
}

/// The columns a file has.
pub(super) fn columns(file: &RecordedFile) -> Result<SchemaRef, Error> {
    let unreadable =
        |e: ArrowError| Error::Unreadable { path: file.path.clone(), reason: e.to_string() };
    let none = RecordBatch::new_empty(Arc::new(begin(file)?.1));
    Ok(in_utc(none).map_err(unreadable)?.schema())
}

/// The file behind its header, and what the header says.
fn begin(file: &RecordedFile) -> Result<(Box<dyn BufRead>, Schema), Error> {
    let failed = |reason: String| Error::Unreadable { path: file.path.clone(), reason };
    let mut input = open(file)?;
    let mut header = String::new();
    input.read_line(&mut header).map_err(|e| failed(e.to_string()))?;
    if header.trim().is_empty() {
        return Err(failed("it is empty".to_owned()));
    }
    let schema = schema(&header, &file.metadata()?).map_err(failed)?;
    Ok((input, schema))
}

/// What the file beside a CSV says.
pub(super) fn metadata(file: &RecordedFile, ending: &str, about: &str) -> Result<Metadata, Error> {
    let stem = file.name.strip_suffix(ending).unwrap_or(&file.name);
    let name = format!("{stem}{about}");
    let text = file.store.read(&name)?;
    let found = std::str::from_utf8(&text).ok().and_then(Metadata::from_json);
    let reason = "it is not the JSON that describes a CSV file".to_owned();
    found.ok_or_else(|| Error::Unreadable { path: file.store.shown(&name), reason })
}

fn open(file: &RecordedFile) -> Result<Box<dyn BufRead>, Error> {
    Ok(match &file.store {
        Store::Local => {
            let input = File::open(&file.path).map_err(|e| Error::io(file.path.as_ref(), e))?;
            Box::new(BufReader::with_capacity(1 << 16, input))
        }
        Store::Remote(_) => {
            let whole: Bytes = file.store.read(&file.name)?;
            Box::new(BufReader::new(Cursor::new(whole)))
        }
    })
}

fn schema(header: &str, about: &Metadata) -> Result<Schema, String> {
    let columns = about.get("columns").ok_or("its metadata does not describe its columns")?;
    let field = |name: &str| {
        let kind = columns.get(name).and_then(|column| column.get("kind")?.as_str());
        let kind = Kind::ALL.into_iter().find(|known| Some(known.name()) == kind);
        let kind =
            kind.ok_or_else(|| format!("its metadata does not say what \"{name}\" holds"))?;
        let parsed = match data_type(kind) {
            DataType::Timestamp(unit, _) => DataType::Timestamp(unit, Some("+00:00".into())),
            other => other,
        };
        Ok(Field::new(name, parsed, true))
    };
    let fields: Result<Vec<Field>, String> = header.trim_end().split(',').map(field).collect();
    fields.map(Schema::new)
}

/// Times are parsed by their offset, since names of zones would need a database of them; from here on
/// they are called what they are called everywhere else.
fn in_utc(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let (schema, mut columns, _) = batch.into_parts();
    let mut fields = Vec::with_capacity(columns.len());
    for (field, column) in schema.fields().iter().zip(&mut columns) {
        if let Some(times) = column.as_primitive_opt::<TimestampMicrosecondType>() {
            *column = Arc::new(times.clone().with_timezone("UTC"));
        }
        fields.push(field.as_ref().clone().with_data_type(column.data_type().clone()));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

/// Leaves out a last line without its end: it is being written, or a crash cut it off.
struct WholeLines {
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    at: usize,
}

impl Read for WholeLines {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.line.len() {
            self.line.clear();
            self.at = 0;
            self.input.read_until(b'\n', &mut self.line)?;
            if self.line.last() != Some(&b'\n') {
                self.line.clear();
                return Ok(0);
            }
        }
        let left = &self.line[self.at..];
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}
