//! Parquet files of which one may be damaged, denied or gone: it is noted, and the others are read.
//!
//! An engine that reads a thousand objects fails where one of them does. Here a file that fails is read once more by the
//! recording's own reader: where that fails, too, it is the file's fault, the reader's error names it, and its rows end
//! there. Otherwise it is the query's, and the error stands. So it does where the store cannot even be connected to any
//! more, which is tried ten times: to try that for each of a thousand objects would take hours.

use crate::notes::Notes;
use crosstalk_recording::{Error, RecordedFile};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::object_store::ObjectStore;
use datafusion::object_store::path::Path as ObjectPath;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use datafusion_datasource::morsel::{
    Morsel, MorselPlan, MorselPlanner, Morselizer, PendingMorselPlanner,
};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// What is known of the files of a scan.
pub(super) struct Files {
    pub(super) at: HashMap<ObjectPath, RecordedFile>,
    pub(super) notes: Notes,
}

impl Files {
    /// Whether it is the file that failed, and not the query: then it is noted.
    ///
    /// # Errors
    /// It is neither: the store has gone.
    async fn is_broken(self: Arc<Self>, place: ObjectPath) -> Result<bool> {
        let asked = tokio::task::spawn_blocking(move || {
            let Some(file) = self.at.get(&place) else { return Ok(false) };
            match file.scan().pieces().find_map(|piece| piece.err()) {
                None => Ok(false),
                Some(why @ Error::Unreachable { .. }) => {
                    Err(DataFusionError::External(Box::new(why)))
                }
                Some(why) => {
                    self.notes.add(why.to_string());
                    Ok(true)
                }
            }
        });
        asked.await.unwrap_or(Ok(false))
    }
}

/// A source of Parquet that goes on behind a file which cannot be read.
pub(super) struct Tolerant {
    inner: Arc<dyn FileSource>,
    files: Arc<Files>,
}

impl Tolerant {
    pub(super) fn over(inner: Arc<dyn FileSource>, files: Arc<Files>) -> Arc<dyn FileSource> {
        Arc::new(Self { inner, files })
    }

    fn again(&self, inner: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Self::over(inner, self.files.clone())
    }
}

impl FileSource for Tolerant {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.inner.create_file_opener(store, config, partition)
    }

    fn create_morselizer(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let inner = self.inner.create_morselizer(store, config, partition)?;
        Ok(Box::new(Opening { inner, files: self.files.clone() }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        self.again(self.inner.with_batch_size(batch_size))
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, how: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_extra(how, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn repartitioned(
        &self,
        partitions: usize,
        least_bytes: usize,
        ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        self.inner.repartitioned(partitions, least_bytes, ordering, config)
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let pushed = self.inner.try_pushdown_filters(filters, config)?;
        let updated_node = pushed.updated_node.map(|inner| self.again(inner));
        Ok(FilterPushdownPropagation { filters: pushed.filters, updated_node })
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        let sorted = self.inner.try_pushdown_sort(order, properties)?;
        Ok(sorted.map(|inner| self.again(inner)))
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    fn try_pushdown_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn FileSource>>> {
        let projected = self.inner.try_pushdown_projection(projection)?;
        Ok(projected.map(|inner| self.again(inner)))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}

struct Opening {
    inner: Box<dyn Morselizer>,
    files: Arc<Files>,
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}

impl Morselizer for Opening {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let of = Of { place: file.object_meta.location.clone(), files: self.files.clone() };
        let inner = self.inner.plan_file(file);
        Ok(Box::new(Planning { inner, of }))
    }
}

/// The file that something is of.
#[derive(Clone)]
struct Of {
    place: ObjectPath,
    files: Arc<Files>,
}

impl fmt::Debug for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.place, f)
    }
}

impl Of {
    /// The error, unless it is the file's fault.
    async fn fault(self, error: DataFusionError) -> Result<()> {
        if self.files.is_broken(self.place).await? { Ok(()) } else { Err(error) }
    }

    fn around(&self, mut plan: MorselPlan) -> MorselPlan {
        let morsels = plan.take_morsels().into_iter();
        let morsels =
            morsels.map(|inner| -> Box<dyn Morsel> { Box::new(Rows { inner, of: self.clone() }) });
        let planners = plan.take_ready_planners().into_iter();
        let planners = planners.map(|inner| -> Box<dyn MorselPlanner> {
            Box::new(Planning { inner: Ok(inner), of: self.clone() })
        });
        let around =
            MorselPlan::new().with_morsels(morsels.collect()).with_planners(planners.collect());
        match plan.take_pending_planner() {
            Some(pending) => around.with_pending_planner(self.clone().resumed(pending)),
            None => around,
        }
    }

    /// What is wrong with what was fetched is found out when it is planned.
    async fn resumed(self, pending: PendingMorselPlanner) -> Result<Box<dyn MorselPlanner>> {
        Ok(Box::new(Planning { inner: pending.await, of: self }))
    }

    async fn nothing(self, error: DataFusionError) -> Result<Box<dyn MorselPlanner>> {
        self.fault(error).await?;
        Ok(Box::new(Nothing))
    }
}

#[derive(Debug)]
struct Planning {
    inner: Result<Box<dyn MorselPlanner>>,
    of: Of,
}

impl MorselPlanner for Planning {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { inner, of } = *self;
        match inner.and_then(|inner| inner.plan()) {
            Ok(plan) => Ok(plan.map(|plan| of.around(plan))),
            Err(error) => Ok(Some(MorselPlan::new().with_pending_planner(of.nothing(error)))),
        }
    }
}

/// Of a file that cannot be read.
#[derive(Debug)]
struct Nothing;

impl MorselPlanner for Nothing {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        Ok(None)
    }
}

#[derive(Debug)]
struct Rows {
    inner: Box<dyn Morsel>,
    of: Of,
}

impl Morsel for Rows {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let Self { inner, of } = *self;
        let rows = inner.into_stream();
        let until_broken = futures_util::stream::unfold(Some(rows), move |rows| {
            let of = of.clone();
            async move {
                let mut rows = rows?;
                match rows.next().await? {
                    Ok(batch) => Some((Ok(batch), Some(rows))),
                    // What follows the first failure of a file is not to be trusted.
                    Err(error) => of.fault(error).await.err().map(|error| (Err(error), None)),
                }
            }
        });
        until_broken.boxed()
    }
}
