use crate::notes::Notes;
use crosstalk_recording::RecordedFile;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::project_schema;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use std::sync::Arc;

/// Files whose columns are looked at: the first, the last, and some between. A column that a newer version added is in
/// the last.
const LOOKED_AT: usize = 8;

/// The columns of a data set: those of its files, then `node` and `run`.
#[derive(Clone, Debug)]
pub(super) struct Columns(TableSchema);

impl Columns {
    /// What the files have together; `None` where none of them can be read.
    pub(super) fn of(files: &[&RecordedFile], notes: &Notes) -> Option<Self> {
        let mut fields: Vec<Field> = Vec::new();
        let step = files.len().div_ceil(LOOKED_AT).max(1);
        let last = files.len().checked_sub(1);
        for at in (0..files.len()).step_by(step).chain(last) {
            let schema = match files[at].schema() {
                Ok(schema) => schema,
                Err(error) => {
                    notes.add(error.to_string());
                    continue;
                }
            };
            for field in schema.fields() {
                // A file without the column has nothing there.
                let field = field.as_ref().clone().with_nullable(true);
                let kind = viewed(field.data_type());
                match fields.iter().find(|known| known.name() == field.name()) {
                    None => fields.push(field.with_data_type(kind)),
                    Some(known) if *known.data_type() != kind => notes.add(format!(
                        "{}: its column {} holds {kind}, that of other files {}",
                        files[at].path,
                        field.name(),
                        known.data_type()
                    )),
                    Some(_) => {}
                }
            }
        }
        let partition =
            |name: &str| -> FieldRef { Arc::new(Field::new(name, DataType::Utf8, false)) };
        let own = vec![partition("node"), partition("run")];
        let schema = Arc::new(Schema::new(fields));
        (!schema.fields().is_empty())
            .then(|| Self(TableSchema::builder(schema).with_table_partition_cols(own).build()))
    }

    pub(super) fn table(&self) -> TableSchema {
        self.0.clone()
    }

    pub(super) fn all(&self) -> SchemaRef {
        self.0.table_schema().clone()
    }

    pub(super) fn projected(&self, projection: Option<&Vec<usize>>) -> Result<SchemaRef> {
        project_schema(&self.all(), projection)
    }
}

/// Texts as views into what was read: they are compared and grouped without being copied.
fn viewed(kind: &DataType) -> DataType {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        other => other.clone(),
    }
}
