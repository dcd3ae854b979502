//! An Arrow IPC stream into a Parquet file, table by table, so memory stays flat.

use crate::error::Error;
use arrow_ipc::reader::StreamReader;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// A row group holds minutes of a busy machine: small enough to prune by time, large enough for
/// the dictionaries to pay.
const ROW_GROUP_ROWS: usize = 1 << 20;

/// Converts `stream` into a finished and synced Parquet file at `target`. A stream that breaks
/// off, as a kill -9 leaves it, is converted up to its last whole table.
pub(crate) fn convert(stream: &Path, target: &Path) -> Result<(), Error> {
    let input = File::open(stream).map_err(|e| Error::io(stream, e))?;
    let reader = StreamReader::try_new(BufReader::new(input), None)
        .map_err(|e| Error::encode(stream, &e))?;
    let schema = reader.schema();
    let about = schema
        .metadata()
        .iter()
        .map(|(key, value)| KeyValue::new(key.clone(), value.clone()))
        .collect();
    let output = File::create(target).map_err(|e| Error::io(target, e))?;
    let encode = |e| Error::encode(target, &e);
    let mut writer =
        ArrowWriter::try_new(output, schema, Some(properties(about))).map_err(encode)?;
    for batch in reader.map_while(Result::ok) {
        writer.write(&batch).map_err(encode)?;
    }
    let output = writer.into_inner().map_err(encode)?;
    output.sync_all().map_err(|e| Error::io(target, e))
}

fn properties(mut about: Vec<KeyValue>) -> WriterProperties {
    about.sort_by(|a, b| a.key.cmp(&b.key));
    let plain_numbers = ["on_cpu_ns", "runq_wait_ns", "cycles", "instructions", "llc_misses"];
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).expect("3 is a zstd level")))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_key_value_metadata(Some(about));
    let steady = ColumnPath::from("slot_start_ns");
    builder = builder
        .set_column_dictionary_enabled(steady.clone(), false)
        .set_column_encoding(steady, Encoding::DELTA_BINARY_PACKED);
    for name in plain_numbers {
        let column = ColumnPath::from(name);
        builder = builder
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    builder.build()
}
