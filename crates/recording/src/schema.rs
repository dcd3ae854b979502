use crate::Metadata;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use crosstalk_model::{Dataset, Kind};
use std::collections::HashMap;
use std::sync::Arc;

/// The Arrow schema of a data set.
pub fn arrow_schema(dataset: Dataset) -> SchemaRef {
    Arc::new(with_metadata(dataset, &Metadata::default()))
}

/// The schema with what the file says about itself, and each column's meaning.
pub(crate) fn with_metadata(dataset: Dataset, metadata: &Metadata) -> Schema {
    let fields: Vec<Field> = dataset
        .columns()
        .iter()
        .map(|column| {
            let doc = HashMap::from([("description".to_owned(), column.doc.to_owned())]);
            Field::new(column.name, data_type(column.kind), column.nullable).with_metadata(doc)
        })
        .collect();
    Schema::new_with_metadata(fields, metadata.entries().collect())
}

const fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::U64 => DataType::UInt64,
        Kind::U32 => DataType::UInt32,
        Kind::F64 => DataType::Float64,
        Kind::Bool => DataType::Boolean,
        Kind::Text => DataType::Utf8,
    }
}
