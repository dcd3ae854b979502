use crate::Metadata;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use crosstalk_model::{Dataset, Kind};
use std::collections::HashMap;
use std::sync::Arc;

/// The Arrow schema of a data set.
pub fn arrow_schema(dataset: &Dataset) -> SchemaRef {
    Arc::new(with_metadata(dataset, &Metadata::default()))
}

/// The schema with what the file says about itself, and each column's meaning.
pub(crate) fn with_metadata(dataset: &Dataset, metadata: &Metadata) -> Schema {
    let fields: Vec<Field> = dataset
        .columns
        .iter()
        .map(|column| {
            let said = [("description", column.doc), ("unit", column.unit)];
            let said = said.into_iter().filter(|(_, text)| !text.is_empty());
            let said: HashMap<String, String> =
                said.map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
            Field::new(column.name, data_type(column.kind), column.nullable).with_metadata(said)
        })
        .collect();
    Schema::new_with_metadata(fields, metadata.entries().collect())
}

pub(crate) fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Int => DataType::Int64,
        // Spark refuses nanoseconds; slots begin at whole microseconds.
        Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Kind::Float => DataType::Float64,
        Kind::Flag => DataType::Boolean,
        Kind::Text => DataType::Utf8,
    }
}
