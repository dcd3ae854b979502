//! How columns lie in a Parquet file, so that a row takes few bytes and every engine reads it.
//!
//! `BYTE_STREAM_SPLIT` would take half a byte less for each length of time, but Spark's readers refuse it for integers.

use arrow_schema::{DataType, Schema};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

/// A row group holds minutes of a busy machine: small enough to prune by time, large enough for
/// the dictionaries to pay.
const ROW_GROUP_ROWS: usize = 1 << 20;
/// As many as a recorder holds. Pages are not told apart by what is in them, so smaller ones would only be more headers.
const PAGE_ROWS: usize = 1 << 17;
/// Against the usual 3 this makes times and waits, which are half of a file, a tenth smaller, for less than half a
/// microsecond a row.
const ZSTD_LEVEL: i32 = 8;

/// How a column without a dictionary is laid out. Numbers that rarely repeat have none: it would only be overhead.
/// Times follow one another, and counts of nearly any size and time on a core have about as many digits each: they are
/// packed as differences. Waits are mostly short and now and then very long, which spoils every packed block that one
/// of them is in.
fn without_dictionary(name: &str) -> Option<Encoding> {
    match name {
        "process_start_ns" => None,
        "time" | "slot_start_ns" | "on_cpu_ns" | "instructions" | "llc_misses" => {
            Some(Encoding::DELTA_BINARY_PACKED)
        }
        _ if name.ends_with("_bytes") => Some(Encoding::DELTA_BINARY_PACKED),
        "cycles" => Some(Encoding::PLAIN),
        _ if name.ends_with("_ns") => Some(Encoding::PLAIN),
        _ => None,
    }
}

/// The properties of a file of `schema` that says `about` of itself.
pub(crate) fn properties(schema: &Schema, mut about: Vec<KeyValue>) -> WriterProperties {
    about.sort_by(|a, b| a.key.cmp(&b.key));
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(
            ZstdLevel::try_new(ZSTD_LEVEL).expect("a level that zstd has"),
        ))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_key_value_metadata(Some(about));
    for field in schema.fields() {
        let is_float = *field.data_type() == DataType::Float64;
        if let Some(encoding) = without_dictionary(field.name()).filter(|_| !is_float) {
            let column = ColumnPath::from(field.name().as_str());
            builder = builder
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, encoding);
        }
    }
    builder.build()
}
