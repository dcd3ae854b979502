use crate::notes::Notes;
use crate::{Error, session};
use ballista::extension::SessionContextExt;
use ballista_core::extension::SessionConfigExt;
use crosstalk_recording::{Reader, RecordedFile, State};
use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableConfigExt, ListingTableUrl,
};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::{SessionConfig, SessionContext};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A session on the cluster, with every data set as a table.
pub(crate) async fn connect(
    address: &str,
    reader: &Arc<Reader>,
    places: &[String],
    notes: &Notes,
) -> Result<SessionContext, Error> {
    let config = session::told(SessionConfig::new_with_ballista());
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(super::stores::runtime()?)
        .with_default_features()
        .build();
    let context = SessionContext::remote_with_state(&format!("df://{address}"), state).await?;
    for file in reader.files() {
        if let Some((url, store, _)) = file.object()
            && let Ok(url) = url.parse()
        {
            context.register_object_store(&url, store);
        }
        if file.state != State::Parquet {
            notes.add(format!(
                "{}: a cluster reads finished Parquet files; crosstalk recover and compact make it one",
                file.path
            ));
        }
    }
    for dataset in reader.datasets() {
        let is_ours =
            |file: &&RecordedFile| file.dataset == dataset && file.state == State::Parquet;
        let files: Vec<&RecordedFile> = reader.files().iter().filter(is_ours).collect();
        if !files.is_empty() {
            let table = table(&context, dataset, &files, places).await?;
            context.register_table(dataset, Arc::new(table))?;
        }
    }
    Ok(context)
}

async fn table(
    context: &SessionContext,
    dataset: &str,
    files: &[&RecordedFile],
    places: &[String],
) -> Result<ListingTable, Error> {
    let layouts: BTreeSet<Vec<String>> = files.iter().map(|file| partitions(&file.path)).collect();
    let partitions = match layouts.into_iter().collect::<Vec<_>>().as_slice() {
        [one] if one.len() >= 2 => one.clone(),
        [_] => {
            return Err(Error::Refused(format!(
                "{}: it is in no folder of a node and a run, which a cluster needs",
                files[0].path
            )));
        }
        _ => {
            return Err(Error::Refused(format!(
                "{dataset}: its files are filed in different ways, by hours and not, which a cluster cannot read as one table"
            )));
        }
    };
    let columns = partitions.into_iter().map(|name| (name, DataType::Utf8)).collect();
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_extension(".parquet")
        .with_table_partition_cols(columns);
    let folder = |place: &String| -> Result<ListingTableUrl, Error> {
        let place = match place.contains("://") {
            true => place.clone(),
            false => std::fs::canonicalize(place)
                .map_err(|e| Error::io(place.as_ref(), e))?
                .display()
                .to_string(),
        };
        Ok(ListingTableUrl::parse(format!("{}/{dataset}/", place.trim_end_matches('/')))?)
    };
    let folders = places.iter().map(folder).collect::<Result<Vec<_>, _>>()?;
    let config = ListingTableConfig::new_with_multi_paths(folders)
        .with_listing_options(options)
        .infer_schema(&context.state())
        .await?;
    Ok(ListingTable::try_new(config)?)
}

/// The names of the folders that say something: node, run, date, hour.
fn partitions(path: &str) -> Vec<String> {
    path.split('/').filter_map(|folder| Some(folder.split_once('=')?.0.to_owned())).collect()
}
