//! Data sets as tables: every file of a recording that can be read, finished or not, with the node and the run that it
//! belongs to as columns.
//!
//! Parquet is read by DataFusion itself, which prunes columns and row groups; CSV and unfinished parts go through the
//! recording's own reader. Files of other nodes, runs, days or hours than a query asks for are not even opened.

mod columns;
#[cfg(feature = "ballista")]
pub(crate) mod damaged;
#[cfg(feature = "ballista")]
mod filed;
#[cfg(feature = "ballista")]
pub(crate) mod listed;
mod prune;
mod rows;
mod tolerant;
mod truncated;

use crate::notes::Notes;
use async_trait::async_trait;
use columns::Columns;
use crosstalk_recording::{Reader, RecordedFile, State};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{DFSchema, Statistics, TableReference};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::Result;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::object_store::ObjectMeta;
use datafusion::object_store::path::Path as ObjectPath;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::union::UnionExec;
use datafusion::scalar::ScalarValue;
use rows::FileRows;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tolerant::{Files, Tolerant};

/// How many times what they take in a file rows take in memory: the engine holds the side of a join whole that seems small
/// to it. A row of tasks is 7 bytes there, and more than 200 here.
const IN_MEMORY: usize = 32;

/// Registers every data set of a recording as a table, and the stores they lie in. What cannot be read is noted.
///
/// # Errors
/// The engine refuses a table or a store.
pub(crate) fn register(
    context: &SessionContext,
    reader: &Arc<Reader>,
    notes: &Notes,
) -> Result<()> {
    for file in reader.files() {
        if let Some((url, store, _)) = file.object()
            && let Ok(url) = url.parse()
        {
            context.register_object_store(&url, store);
        }
    }
    for dataset in reader.datasets() {
        let files: Vec<&RecordedFile> =
            reader.files().iter().filter(|file| file.dataset == dataset).collect();
        if let Some(columns) = Columns::of(&files, notes) {
            let table = RecordedTable {
                reader: reader.clone(),
                dataset: dataset.to_owned(),
                columns,
                notes: notes.clone(),
            };
            // A file of another's making may have a point in its name.
            context.register_table(TableReference::bare(dataset), Arc::new(table))?;
        }
    }
    Ok(())
}

#[derive(Debug)]
struct RecordedTable {
    reader: Arc<Reader>,
    dataset: String,
    columns: Columns,
    notes: Notes,
}

#[async_trait]
impl TableProvider for RecordedTable {
    fn schema(&self) -> SchemaRef {
        self.columns.all()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let how = |filter: &&Expr| {
            if prune::is_about_files(filter) {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Inexact
            }
        };
        Ok(filters.iter().map(how).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let follows: Vec<Expr> = filters.iter().flat_map(truncated::follows_from).collect();
        let filters = &[filters, &follows].concat();
        let files = self.reader.files().iter().filter(|file| file.dataset == self.dataset);
        let chosen = prune::files(state, &files.collect::<Vec<_>>(), filters)?;
        let chosen = prune::in_time(state, &self.columns.all(), chosen, filters)?;
        let (finished, others): (Vec<_>, Vec<_>) =
            chosen.into_iter().cloned().partition(|file| file.state == State::Parquet);
        // The engine sees to what was asked, but not to what follows from it.
        let bounds =
            conjunction(follows.into_iter().map(prune::unqualified).collect::<Result<Vec<_>>>()?);
        let names = DFSchema::try_from(self.columns.all())?;
        let bounds = bounds.map(|all| state.create_physical_expr(all, &names)).transpose()?;
        let mut plans = self.parquet(state, finished, bounds, projection, limit).await?;
        plans.extend(self.streamed(others, projection, limit)?);
        if plans.is_empty() {
            return Ok(Arc::new(EmptyExec::new(self.columns.projected(projection)?)));
        }
        UnionExec::try_new(plans)
    }
}

impl RecordedTable {
    async fn parquet(
        &self,
        state: &dyn Session,
        files: Vec<RecordedFile>,
        bounds: Option<Arc<dyn PhysicalExpr>>,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        type Of = (Vec<PartitionedFile>, HashMap<ObjectPath, RecordedFile>);
        let mut stores: BTreeMap<String, Of> = BTreeMap::new();
        for file in &files {
            let Some((store, location)) = self.place(file)? else { continue };
            let (parts, at) = stores.entry(store).or_default();
            at.insert(location.clone(), file.clone());
            let text = |value: &str| ScalarValue::Utf8(Some(value.to_owned()));
            let meta = ObjectMeta {
                location,
                last_modified: Default::default(),
                size: file.bytes,
                e_tag: None,
                version: None,
            };
            let values = vec![text(&file.node), text(&file.run)];
            let part = PartitionedFile::new_from_meta(meta).with_partition_values(values);
            parts.push(part);
        }
        // It keeps the ends of files that were read, for the next query.
        let format = ParquetFormat::default().with_options(state.default_table_options().parquet);
        let mut plans = Vec::new();
        for (store, (parts, at)) in stores {
            let known = Files { at, notes: self.notes.clone() };
            let bytes: u64 = parts.iter().map(|part| part.object_meta.size).sum();
            let mut statistics = Statistics::new_unknown(&self.columns.all());
            statistics.total_byte_size =
                Precision::Inexact((bytes as usize).saturating_mul(IN_MEMORY));
            let mut source = ParquetSource::new(self.columns.table());
            if let Some(bounds) = &bounds {
                source = source.with_predicate(bounds.clone());
            }
            let source = Arc::new(source);
            let config = FileScanConfigBuilder::new(ObjectStoreUrl::parse(store)?, source)
                .with_file_group(FileGroup::new(parts))
                .with_statistics(statistics)
                .with_projection_indices(projection.cloned())?
                .with_limit(limit)
                .build();
            let plan = format.create_physical_plan(state, config).await?;
            plans.push(tolerant(plan, known));
        }
        Ok(plans)
    }

    /// The store a file lies in, and its name there. One that is gone is noted.
    fn place(&self, file: &RecordedFile) -> Result<Option<(String, ObjectPath)>> {
        if let Some((url, _, name)) = file.object() {
            return Ok(Some((url.to_owned(), ObjectPath::parse(name)?)));
        }
        match std::fs::canonicalize(&file.path) {
            Ok(path) => Ok(Some(("file:///".to_owned(), ObjectPath::from_absolute_path(path)?))),
            Err(error) => {
                self.notes.add(format!("{}: {error}", file.path));
                Ok(None)
            }
        }
    }

    fn streamed(
        &self,
        files: Vec<RecordedFile>,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if files.is_empty() {
            return Ok(None);
        }
        let schema = self.columns.projected(projection)?;
        let rows = |file: RecordedFile| -> Arc<dyn PartitionStream> {
            Arc::new(FileRows { file, schema: schema.clone(), notes: self.notes.clone() })
        };
        let parts = files.into_iter().map(rows).collect();
        let plan = StreamingTableExec::try_new(schema.clone(), parts, None, [], false, limit)?;
        Ok(Some(Arc::new(plan)))
    }
}

/// The same plan, for which a file that cannot be read is none of the query's business.
fn tolerant(plan: Arc<dyn ExecutionPlan>, files: Files) -> Arc<dyn ExecutionPlan> {
    let source = plan.downcast_ref::<DataSourceExec>();
    let config = source.and_then(|source| source.data_source().downcast_ref::<FileScanConfig>());
    let Some(config) = config else { return plan };
    let over = Tolerant::over(config.file_source.clone(), Arc::new(files));
    let config = FileScanConfigBuilder::from(config.clone()).with_source(over).build();
    DataSourceExec::from_data_source(config)
}
