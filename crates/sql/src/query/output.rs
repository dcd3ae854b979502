//! Rows as a table, CSV, JSON or Parquet.

use crate::Error;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use std::io::Write;
use std::str::FromStr;
use std::sync::Arc;

/// Rows that a table shows: its columns are only as wide as they must be, so they are all held first.
const TABLE_ROWS: usize = 1_000;

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// With a header.
    Csv,
    /// A list of objects; absent values are left out.
    Json,
    /// An object a line.
    JsonLines,
    /// A Parquet file.
    Parquet,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "table" => Ok(Self::Table),
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            "jsonl" => Ok(Self::JsonLines),
            "parquet" => Ok(Self::Parquet),
            other => Err(format!("\"{other}\" is not one of table, csv, json, jsonl, parquet")),
        }
    }
}

/// Where the rows of one query go.
pub struct Output<W: Write + Send> {
    sink: Sink<W>,
    rows: usize,
}

enum Sink<W: Write + Send> {
    Table { into: W, held: Vec<RecordBatch>, schema: SchemaRef },
    Csv(Box<csv::Writer<W>>),
    Json(json::ArrayWriter<W>),
    JsonLines(json::LineDelimitedWriter<W>),
    Parquet(Box<ArrowWriter<W>>),
}

impl<W: Write + Send> Output<W> {
    /// Writes rows of `schema` into `into`.
    ///
    /// # Errors
    /// The format has no place for one of the columns.
    pub fn new(format: Format, schema: &SchemaRef, into: W) -> Result<Self, Error> {
        let sink = match format {
            Format::Table => Sink::Table { into, held: Vec::new(), schema: plain(schema) },
            Format::Csv => {
                let mut writer = csv::WriterBuilder::new().with_header(true).build(into);
                writer.write(&RecordBatch::new_empty(plain(schema))).map_err(failed)?;
                Sink::Csv(Box::new(writer))
            }
            Format::Json => Sink::Json(json::ArrayWriter::new(into)),
            Format::JsonLines => Sink::JsonLines(json::LineDelimitedWriter::new(into)),
            Format::Parquet => {
                let level = ZstdLevel::try_new(3).map_err(|e| Error::Engine(e.to_string()))?;
                let properties =
                    WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
                let writer = ArrowWriter::try_new(into, plain(schema), Some(properties));
                Sink::Parquet(Box::new(writer.map_err(|e| Error::Engine(e.to_string()))?))
            }
        };
        Ok(Self { sink, rows: 0 })
    }

    /// Writes some rows.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let batch = plainly(batch).map_err(failed)?;
        let before = self.rows;
        self.rows += batch.num_rows();
        match &mut self.sink {
            Sink::Table { held, .. } => {
                let room = TABLE_ROWS.saturating_sub(before).min(batch.num_rows());
                held.push(batch.slice(0, room));
                Ok(())
            }
            Sink::Csv(writer) => writer.write(&batch).map_err(failed),
            Sink::Json(writer) => writer.write(&batch).map_err(failed),
            Sink::JsonLines(writer) => writer.write(&batch).map_err(failed),
            Sink::Parquet(writer) => writer.write(&batch).map_err(|e| Error::Engine(e.to_string())),
        }
    }

    /// Ends it, with every byte handed on; how many rows there were.
    ///
    /// # Errors
    /// The end cannot be written.
    pub fn finish(self) -> Result<usize, Error> {
        self.end().map(|(rows, _)| rows)
    }

    fn end(self) -> Result<(usize, W), Error> {
        let rows = self.rows;
        let io = |e: std::io::Error| Error::Engine(format!("cannot write the rows: {e}"));
        let mut into = match self.sink {
            Sink::Table { mut into, mut held, schema } => {
                if held.is_empty() {
                    held.push(RecordBatch::new_empty(schema));
                }
                writeln!(into, "{}", pretty_format_batches(&held).map_err(failed)?).map_err(io)?;
                match rows.saturating_sub(TABLE_ROWS) {
                    0 => writeln!(into, "{rows} rows").map_err(io)?,
                    more => writeln!(
                        into,
                        "{rows} rows, {more} of them not shown; --format csv, json or parquet has all"
                    )
                    .map_err(io)?,
                }
                into
            }
            Sink::Csv(writer) => writer.into_inner(),
            Sink::Json(mut writer) => {
                writer.finish().map_err(failed)?;
                let mut into = writer.into_inner();
                writeln!(into).map_err(io)?;
                into
            }
            Sink::JsonLines(mut writer) => {
                writer.finish().map_err(failed)?;
                writer.into_inner()
            }
            Sink::Parquet(writer) => {
                writer.into_inner().map_err(|e| Error::Engine(e.to_string()))?
            }
        };
        // What waits in a buffer is lost without a word when that is dropped.
        into.flush().map_err(io)?;
        Ok((rows, into))
    }
}

fn failed(error: ArrowError) -> Error {
    Error::Engine(format!("cannot write the rows: {error}"))
}

/// Texts as every reader of Parquet knows them.
fn plain(schema: &SchemaRef) -> SchemaRef {
    let field = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8View => field.as_ref().clone().with_data_type(DataType::Utf8),
        _ => field.as_ref().clone(),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

pub(crate) fn plainly(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = plain(&batch.schema());
    let columns: Result<Vec<ArrayRef>, ArrowError> = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| cast(column, field.data_type()))
        .collect();
    RecordBatch::try_new(schema, columns?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Int64Array;
    use std::io::{BufWriter, Error as IoError, Result as IoResult};

    /// A disk without room.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> IoResult<usize> {
            Err(IoError::from(std::io::ErrorKind::StorageFull))
        }

        fn flush(&mut self) -> IoResult<()> {
            Ok(())
        }
    }

    #[test]
    fn rows_that_the_disk_has_no_room_for_are_not_said_to_be_written() {
        let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
        let rows: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let batch = RecordBatch::try_new(schema.clone(), vec![rows]).unwrap();
        let all = [Format::Table, Format::Csv, Format::Json, Format::JsonLines, Format::Parquet];
        for format in all {
            let written = || {
                let mut output = Output::new(format, &schema, BufWriter::new(Full))?;
                output.write(&batch)?;
                output.finish()
            };
            assert!(written().is_err(), "{format:?}");
            let mut output = Output::new(format, &schema, BufWriter::new(Vec::new())).unwrap();
            output.write(&batch).unwrap();
            let (rows, into) = output.end().unwrap();
            assert!(rows == 3 && into.buffer().is_empty(), "{format:?}");
        }
    }
}
