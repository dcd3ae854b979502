use crosstalk_recording::RecordedFile;
use datafusion::arrow::array::{Array, AsArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
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

/// The filter with its columns called as those of the table of files.
fn unqualified(filter: Expr) -> Result<Expr> {
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let bare = filter.transform(|expr| {
        Ok(match expr {
            Expr::Column(column) => {
                Transformed::yes(Expr::Column(datafusion::common::Column::from_name(column.name)))
            }
            other => Transformed::no(other),
        })
    });
    Ok(bare?.data)
}
