use crate::notes::Notes;
use crosstalk_recording::{Piece, RecordedFile};
use datafusion::arrow::array::{
    ArrayRef, RecordBatch, RecordBatchOptions, StringArray, new_null_array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use std::sync::Arc;

/// Batches that wait for the engine.
const WAITING: usize = 2;

/// The rows of one file that only the recording's own reader can read.
#[derive(Debug)]
pub(super) struct FileRows {
    pub(super) file: RecordedFile,
    /// The columns asked for.
    pub(super) schema: SchemaRef,
    pub(super) notes: Notes,
}

impl PartitionStream for FileRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStream::builder(self.schema.clone(), WAITING);
        let rows = stream.tx();
        let (schema, file, notes) = (self.schema.clone(), self.file.clone(), self.notes.clone());
        stream.spawn_blocking(move || {
            let names = schema.fields().iter().map(|field| field.name().clone());
            // Rows are counted even where no column is asked for.
            let names = names.chain(["slot_start_ns".to_owned()]);
            for piece in file.scan().columns(names).pieces() {
                let batch = match piece {
                    Ok(piece) => conform(&piece, &schema)?,
                    Err(error) => {
                        notes.add(error.to_string());
                        continue;
                    }
                };
                if rows.blocking_send(Ok(batch)).is_err() {
                    break;
                }
            }
            Ok(())
        });
        stream.build()
    }
}

/// The batch with the columns asked for, absent where the file has none.
fn conform(piece: &Piece<'_>, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let rows = piece.batch.num_rows();
    let same = |value: &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(std::iter::repeat_n(value, rows)))
    };
    let column = |name: &str, kind| match (name, piece.batch.column_by_name(name)) {
        ("node", _) => Ok(same(&piece.file.node)),
        ("run", _) => Ok(same(&piece.file.run)),
        (_, Some(column)) => cast(column, kind),
        (_, None) => Ok(new_null_array(kind, rows)),
    };
    let columns: Result<Vec<ArrayRef>, ArrowError> =
        schema.fields().iter().map(|field| column(field.name(), field.data_type())).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns?, &options)
}
