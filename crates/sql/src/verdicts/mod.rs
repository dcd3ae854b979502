//! Verdicts from statistics that an engine gathers: files of SQL that DataFusion and Spark run alike.

mod text;

use crate::{Error, Session};
use crosstalk_analysis::{Asked, Gather, Question, Report, Statistic, Take, analyze_gathered};
use crosstalk_recording::Reader;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::physical_plan::execute_stream;
use futures_util::StreamExt;
use std::ops::Range;
use std::sync::Arc;
pub use text::{Columns, file, losses, prepare, statement};
pub(crate) use text::{activity, bursts, cores, lossy};
use tokio::runtime::Runtime;

/// Says who slowed whom in the recordings at `places`, by statistics that `options.engine` gathers.
///
/// # Errors
/// There is no recording there, or the engine cannot be had.
pub fn analyze(
    places: &[String],
    question: &Question,
    options: &crate::Options,
) -> Result<Report, Error> {
    let runtime = Runtime::new().map_err(|e| Error::Engine(e.to_string()))?;
    let reader = Arc::new(Reader::open(places)?);
    let session = runtime.block_on(Session::over(&reader, options))?;
    let mut engine = OnSession { runtime: &runtime, session: &session, prepared: None };
    let mut report = analyze_gathered(places, question, &mut engine)?;
    report.unread.extend(session.notes.take());
    Ok(report)
}

struct OnSession<'a> {
    runtime: &'a Runtime,
    session: &'a Session,
    /// The run whose views stand.
    prepared: Option<(String, String)>,
}

impl Gather for OnSession<'_> {
    fn gather(&mut self, what: Statistic, of: &Asked<'_>, take: Take<'_>) -> Result<(), String> {
        let run = (of.node.to_owned(), of.run.to_owned());
        let session = self.session;
        if self.prepared.as_ref() != Some(&run) {
            let columns = self.runtime.block_on(columns(session)).map_err(|e| e.to_string())?;
            let lossy = async { session.context.sql(&losses(of)).await?.collect().await };
            let lossy = self.runtime.block_on(lossy).map_err(|e| e.strip_backtrace())?;
            let lossy = lossy.first().and_then(|batch| {
                batch.column(0).as_primitive_opt::<Int64Type>().filter(|c| !c.is_empty())
            });
            let has_losses = lossy.is_some_and(|count| count.value(0) > 0);
            for text in prepare(of, &columns, has_losses) {
                let made = async { session.context.sql(&text).await?.collect().await };
                self.runtime.block_on(made).map_err(|e| e.strip_backtrace())?;
            }
            self.prepared = Some(run);
        }
        for part in divided(what, of) {
            let answered = async {
                let frame = session.context.sql(&statement(what, &part)).await?;
                let context = Arc::new(frame.task_ctx());
                let mut rows = execute_stream(frame.create_physical_plan().await?, context)?;
                while let Some(batch) = rows.next().await {
                    let batch = plainly(&batch?)?;
                    if let Err(why) = take(&batch) {
                        return Ok(Err(why));
                    }
                }
                Ok(Ok(()))
            };
            let answered: datafusion::error::Result<Result<(), String>> =
                self.runtime.block_on(answered);
            answered.map_err(|e| format!("{}: {}", what.name(), e.strip_backtrace()))??;
        }
        Ok(())
    }
}

/// Cores times stretches of one join: so much of one side of it is held in memory.
const CORES_AT_ONCE: usize = 40;

/// What is asked for in parts, so that a join of everybody with everybody fits into memory however many cores there are.
fn divided<'a>(what: Statistic, of: &Asked<'a>) -> Vec<Asked<'a>> {
    let joins = matches!(what, Statistic::Exposures | Statistic::ProbeExposures | Statistic::Waits);
    if !joins {
        return vec![of.clone()];
    }
    let at_once = (CORES_AT_ONCE / of.cores.len().max(1)).max(1);
    let part = |some: &[Range<u64>]| Asked { stretches: some.to_vec(), ..of.clone() };
    of.stretches.chunks(at_once).map(part).collect()
}

/// The batch with whole numbers of 64 bits, doubles and plain texts, whatever the engine made of them.
pub(crate) fn plainly(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let kind = |kind: &DataType| match kind {
        kind if kind.is_integer() => DataType::Int64,
        kind if kind.is_numeric() => DataType::Float64,
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        other => other.clone(),
    };
    let schema = batch.schema();
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| Field::new(field.name(), kind(field.data_type()), true))
        .collect();
    let columns = fields.iter().zip(batch.columns()).map(|(f, column)| cast(column, f.data_type()));
    let columns = columns.collect::<Result<Vec<ArrayRef>, ArrowError>>()?;
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

/// The columns of `tasks`.
async fn columns(session: &Session) -> datafusion::error::Result<Columns> {
    let tasks = session.context.table("tasks").await?;
    let names = tasks.schema().fields().iter().map(|field| field.name().clone());
    Ok(Columns(names.collect()))
}
