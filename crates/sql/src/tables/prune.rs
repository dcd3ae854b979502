//! Which files can hold rows that a query asks for, by what their folders say: the node, the run, and the time.

use crosstalk_recording::RecordedFile;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Whether a filter speaks of nothing but the node and the run, which a file's folders say.
pub(super) fn is_about_files(filter: &Expr) -> bool {
    let columns = filter.column_refs();
    let known = |name: &str| matches!(name, "node" | "run");
    !columns.is_empty() && columns.iter().all(|column| known(&column.name)) && !filter.is_volatile()
}

/// The files that can hold rows a query asks for.
pub(super) fn files<'a>(
    state: &dyn Session,
    files: &[&'a RecordedFile],
    filters: &[Expr],
) -> Result<Vec<&'a RecordedFile>> {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let schema = Arc::new(Schema::new(vec![text("node"), text("run")]));
    let nodes: StringArray = files.iter().map(|file| Some(file.node.as_str())).collect();
    let runs: StringArray = files.iter().map(|file| Some(file.run.as_str())).collect();
    let table = RecordBatch::try_new(schema.clone(), vec![Arc::new(nodes), Arc::new(runs)])?;
    let names = DFSchema::try_from(schema)?;
    let mut wanted = vec![true; files.len()];
    for filter in filters.iter().filter(|filter| is_about_files(filter)) {
        let bare = filter.clone();
        let bare = unqualified(bare)?;
        let holds = state.create_physical_expr(bare, &names)?.evaluate(&table)?;
        let holds = holds.into_array(files.len())?;
        let Some(holds) = holds.as_boolean_opt() else { continue };
        for (at, wanted) in wanted.iter_mut().enumerate() {
            *wanted &= holds.is_valid(at) && holds.value(at);
        }
    }
    Ok(files.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(file, _)| *file).collect())
}

/// Those of them whose folders are of a time that the filters leave open. What a filter says that is not understood
/// leaves everything open.
pub(super) fn in_time<'a>(
    state: &dyn Session,
    schema: &SchemaRef,
    files: Vec<&'a RecordedFile>,
    filters: &[Expr],
) -> Result<Vec<&'a RecordedFile>> {
    let times =
        Times { of: files.iter().map(|file| file.within()).collect(), schema: schema.clone() };
    let bare = filters.iter().cloned().map(unqualified).collect::<Result<Vec<_>>>()?;
    let Some(all) = conjunction(bare).filter(|_| times.of.iter().any(Option::is_some)) else {
        return Ok(files);
    };
    let filter = state.create_physical_expr(all, &DFSchema::try_from(schema.clone())?);
    let Some(wanted) = filter.ok().and_then(|filter| times.left_open(filter)) else {
        return Ok(files);
    };
    Ok(files.into_iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(file, _)| file).collect())
}

/// The times of files or folders, as an engine asks for them.
pub(super) struct Times {
    pub(super) of: Vec<Option<Range<u64>>>,
    pub(super) schema: SchemaRef,
}

impl Times {
    /// Which of them a filter leaves open; `None` where it is not understood.
    pub(super) fn left_open(&self, filter: Arc<dyn PhysicalExpr>) -> Option<Vec<bool>> {
        let known = PruningPredicateBuilder::new().with_file_schema(self.schema.clone());
        known.try_build(filter).and_then(|known| known.prune(self)).ok()
    }

    /// One end of each, as the column has it.
    fn bounds(&self, column: &Column, end: impl Fn(&Range<u64>) -> u64) -> Option<ArrayRef> {
        let field = self.schema.field_with_name(&column.name).ok()?;
        let per = match column.name.as_str() {
            "slot_start_ns" => 1,
            // Microseconds.
            "time" => 1_000,
            _ => return None,
        };
        let bound = |own: &Option<Range<u64>>| i64::try_from(end(own.as_ref()?) / per).ok();
        let bounds: Int64Array = self.of.iter().map(bound).collect();
        cast(&bounds, field.data_type()).ok()
    }
}

impl PruningStatistics for Times {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |own| own.start)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |own| own.end.saturating_sub(1))
    }

    fn num_containers(&self) -> usize {
        self.of.len()
    }

    fn null_counts(&self, _: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// The filter with its columns called as those of the table of files.
pub(super) fn unqualified(filter: Expr) -> Result<Expr> {
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let bare = filter.transform(|expr| {
        Ok(match expr {
            Expr::Column(column) => Transformed::yes(Expr::Column(Column::from_name(column.name))),
            other => Transformed::no(other),
        })
    });
    Ok(bare?.data)
}
