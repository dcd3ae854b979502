//! Data sets as tables that other machines can open: what a cluster is sent is not the files but the folder they are in,
//! which it lists itself.
//!
//! A folder is `DATASET/` above `node=` and `run=`, which become columns; where all of it is filed by days, `date=` and
//! `hour=` say which folders a query of some time needs. Only finished Parquet files are read so; any other is noted.
//! What is known to be damaged is left out, and of folders that are being merged only the files are read that their notes say.

use super::columns::Columns;
use super::damaged::{LeftOut, Rest};
use super::filed::{Filed, FoldersInTime};
use crate::notes::Notes;
use crosstalk_recording::{Reader, RecordedFile, State};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::TableReference;
use datafusion::datasource::TableProvider;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionContext;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use url::Url;

/// Registers every data set of a recording as a table of folders, without what is left out.
///
/// # Errors
/// The engine refuses a table.
pub(crate) fn register(
    context: &SessionContext,
    reader: &Reader,
    left_out: &LeftOut,
    notes: &Notes,
) -> Result<()> {
    let mut in_time = FoldersInTime::default();
    for dataset in reader.datasets() {
        let ours = reader.files().iter().filter(|file| file.dataset == dataset);
        let (listed, others): (Vec<&RecordedFile>, Vec<&RecordedFile>) =
            ours.partition(|file| file.state == State::Parquet && folder(&file.path).is_some());
        for file in others {
            notes.add(format!(
                "{}: it is no finished Parquet file below node= and run=, and a cluster reads no other",
                file.path
            ));
        }
        let (damaged, listed): (Vec<&RecordedFile>, Vec<&RecordedFile>) =
            listed.into_iter().partition(|file| left_out.damaged.contains(&file.path));
        let Some(columns) = Columns::of(&listed, notes) else { continue };
        let folders: BTreeSet<&str> = listed.iter().filter_map(|f| folder(&f.path)).collect();
        let urls = folders.into_iter().map(url).collect::<Result<Vec<_>>>()?;
        let parquet = context.state().default_table_options().parquet;
        let format = ParquetFormat::default().with_options(parquet);
        let exchanged: Vec<&RecordedFile> =
            listed.iter().copied().filter(|file| is_exchanged(reader, file)).collect();
        let filed = Filed::of(&listed, &columns.all(), !exchanged.is_empty());
        let by_time: &'static [&'static str] = filed.as_ref().map_or(&[][..], Filed::columns);
        let keys = ["node", "run"].iter().chain(by_time);
        let keys = keys.map(|name| ((*name).to_owned(), DataType::Utf8)).collect();
        let options = ListingOptions::new(Arc::new(format))
            .with_file_extension(".parquet")
            .with_table_partition_cols(keys);
        let config = ListingTableConfig::new_with_multi_paths(urls)
            .with_listing_options(options.clone())
            .with_schema(plain(columns.table().file_schema()));
        let mut table: Arc<dyn TableProvider> = Arc::new(ListingTable::try_new(config)?);
        let needed = left_out.needed.get(dataset).map_or(&[][..], Vec::as_slice);
        if !damaged.is_empty() || !(exchanged.is_empty() || needed.is_empty()) {
            let columns = (plain(columns.table().file_schema()), columns.all());
            let rest = Rest { name: dataset, whole: table, by_time, options, columns };
            table = rest.of(&listed, &damaged, &exchanged, needed)?;
        } else if let Some(filed) = &filed {
            table = filed.hidden_in(dataset, table)?;
        }
        if let Some(filed) = filed {
            in_time.add(dataset, filed);
        }
        context.register_table(TableReference::bare(dataset), table)?;
    }
    context.add_optimizer_rule(Arc::new(in_time));
    Ok(())
}

/// Whether a file lies where some are being exchanged for others: who lists its folder finds rows twice.
pub(crate) fn is_exchanged(reader: &Reader, file: &RecordedFile) -> bool {
    reader.exchanging().iter().any(|start| file.path.starts_with(start))
}

/// What is above `node=`.
fn folder(path: &str) -> Option<&str> {
    let (folder, below) = path.split_once("/node=")?;
    below.split('/').nth(1)?.starts_with("run=").then_some(folder)
}

fn url(folder: &str) -> Result<ListingTableUrl> {
    let wrong = |what: &str| DataFusionError::Configuration(format!("{folder}: {what}"));
    let url = if folder.contains("://") {
        Url::parse(&format!("{folder}/")).map_err(|e| wrong(&e.to_string()))?
    } else {
        let path = std::fs::canonicalize(Path::new(folder))?;
        Url::from_directory_path(path).map_err(|()| wrong("it is no path"))?
    };
    ListingTableUrl::try_new(url, None)
}

/// Texts as they are sent between machines: views into what was read become too large there.
fn plain(schema: &SchemaRef) -> SchemaRef {
    let kind = |field: &Field| match field.data_type() {
        DataType::Utf8View => DataType::Utf8,
        other => other.clone(),
    };
    let fields = schema.fields().iter().map(|f| f.as_ref().clone().with_data_type(kind(f)));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_data_set_is_above_its_nodes() {
        let file = "s3://cluster/rec/tasks/node=a/run=b/date=2026-01-01/hour=05/tasks-1.parquet";
        assert_eq!(folder(file), Some("s3://cluster/rec/tasks"));
        assert_eq!(folder("rec/tasks/node=a/tasks-1.parquet"), None);
        assert_eq!(folder("tasks-1.parquet"), None);
    }
}
