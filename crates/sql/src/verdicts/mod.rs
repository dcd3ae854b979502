//! Verdicts from statistics that an engine gathers: files of SQL that DataFusion and Spark run alike.

mod text;

use crate::{Error, MEMORY, Session};
use crosstalk_analysis::{Asked, Gather, Question, Report, Statistic, Take, analyze_gathered};
use crosstalk_recording::Reader;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::dataframe::DataFrame;
use datafusion::physical_plan::execute_stream;
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
pub use text::{Columns, file, losses, prepare, statement};
pub(crate) use text::{activity, bursts, cores, lossy, waiting};
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
    let most_pairs = (PAIRS_AT_ONCE as f64 * options.memory as f64 / MEMORY as f64) as u64;
    let mut engine =
        OnSession { runtime: &runtime, session, prepared: None, views: Vec::new(), most_pairs };
    let mut report = analyze_gathered(places, question, &mut engine)?;
    let noted =
        engine.session.notes.take().into_iter().filter(|what| !report.unread.contains(what));
    report.unread.extend(noted.collect::<Vec<_>>());
    Ok(report)
}

struct OnSession<'a> {
    runtime: &'a Runtime,
    session: Session,
    /// The run whose views stand.
    prepared: Option<(String, String)>,
    /// What makes them.
    views: Vec<String>,
    /// See `PAIRS_AT_ONCE`.
    most_pairs: u64,
}

impl Gather for OnSession<'_> {
    fn gather(&mut self, what: Statistic, of: &Asked<'_>, take: Take<'_>) -> Result<(), String> {
        let runtime = self.runtime;
        let in_part = |why: String| format!("{}: {why}", what.name());
        for part in divided(what, of, self.most_pairs) {
            self.prepare(of)?;
            let frame = self.planned(&statement(what, &part)).map_err(in_part)?;
            let answered = async {
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
                runtime.block_on(answered);
            answered.map_err(|e| in_part(e.strip_backtrace()))??;
        }
        Ok(())
    }
}

impl OnSession<'_> {
    /// Makes the views that the statistics of a run stand on.
    fn prepare(&mut self, of: &Asked<'_>) -> Result<(), String> {
        let run = (of.node.to_owned(), of.run.to_owned());
        if self.prepared.as_ref() == Some(&run) {
            return Ok(());
        }
        self.views.clear();
        let frame = self.planned(&losses(of))?;
        let columns = self.runtime.block_on(columns(&self.session)).map_err(|e| e.to_string())?;
        let lossy = self.runtime.block_on(frame.collect()).map_err(|e| e.strip_backtrace())?;
        let lossy = lossy.first().and_then(|batch| {
            batch.column(0).as_primitive_opt::<Int64Type>().filter(|c| !c.is_empty())
        });
        let has_losses = lossy.is_some_and(|count| count.value(0) > 0);
        self.views = prepare(of, &columns, has_losses);
        self.make_views(&self.session)?;
        self.prepared = Some(run);
        Ok(())
    }

    fn make_views(&self, session: &Session) -> Result<(), String> {
        for text in &self.views {
            let made = async { session.context.sql(text).await?.collect().await };
            self.runtime.block_on(made).map_err(|e| e.strip_backtrace())?;
        }
        Ok(())
    }

    /// Plans what is asked, on a session without the files that a cluster cannot read.
    fn planned(&self, text: &str) -> Result<DataFrame, String> {
        let plan = |session: &Session| {
            let frame = self.runtime.block_on(session.context.sql(text));
            frame.map_err(|e| e.strip_backtrace())
        };
        let frame = plan(&self.session)?;
        let rest = self.runtime.block_on(self.session.without_damaged(&frame));
        let Some(rest) = rest.map_err(|e| e.to_string())? else { return Ok(frame) };
        self.make_views(&rest)?;
        plan(&rest)
    }
}

/// Rows times those beside them in a slot of a core that are joined at once, with the memory that is usual: forty cores
/// with one row each for 10 s.
const PAIRS_AT_ONCE: u64 = 400_000;

/// What is asked for in parts, so that a join of everybody with everybody fits into memory however many cores there are,
/// and however many take turns on one. Parts end where bins do: each bin is answered by one of them.
fn divided<'a>(what: Statistic, of: &Asked<'a>, most_pairs: u64) -> Vec<Asked<'a>> {
    let joins = matches!(what, Statistic::Exposures | Statistic::ProbeExposures | Statistic::Waits);
    if !joins {
        return vec![of.clone()];
    }
    let places = (of.bin_ns / of.slot_ns.max(1)).max(1) * of.cores.len().max(1) as u64;
    // With one row in each slot of a core this is the number of rows.
    let pairs = |rows: u64| rows.saturating_mul(rows.div_ceil(places));
    let part =
        |stretches: Vec<Range<u64>>| Asked { stretches, rows: BTreeMap::new(), ..of.clone() };
    let (mut parts, mut open, mut sum) = (Vec::new(), Vec::<Range<u64>>::new(), 0);
    for stretch in &of.stretches {
        let mut from_ns = stretch.start;
        for (bin_ns, rows) in of.rows.range(stretch.clone()) {
            let more = pairs(*rows);
            if sum > 0 && sum + more > most_pairs {
                if from_ns < *bin_ns {
                    open.push(from_ns..*bin_ns);
                    from_ns = *bin_ns;
                }
                parts.push(part(std::mem::take(&mut open)));
                sum = 0;
            }
            sum += more;
        }
        open.push(from_ns..stretch.end);
    }
    if !open.is_empty() {
        parts.push(part(open));
    }
    parts
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

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_analysis::SubjectKind;

    const BIN: u64 = 40_000_000;

    fn asked(rows: u64) -> Asked<'static> {
        Asked {
            node: "",
            run: "",
            subject: SubjectKind::Process,
            time: None,
            slot_ns: 1_000_000,
            bin_ns: BIN,
            cores: Vec::new(),
            stretches: vec![0..4 * BIN, 8 * BIN..10 * BIN],
            rows: [0, 1, 2, 3, 8, 9].map(|bin| (bin * BIN, rows)).into(),
            own_quota: Arc::default(),
            datasets: Vec::new(),
        }
    }

    #[test]
    fn what_is_joined_at_once_is_bounded_by_rows_and_every_bin_is_asked_for_once() {
        // One row in each slot; then ten, each of which meets ten.
        for (rows, most, parts) in [(40, 240, 1), (40, 120, 2), (400, 120, 6), (400, 8_000, 3)] {
            let of = asked(rows);
            let divided = divided(Statistic::Waits, &of, most);
            assert_eq!(divided.len(), parts, "{rows} rows, {most}: {divided:?}");
            let ranges: Vec<Range<u64>> =
                divided.into_iter().flat_map(|part| part.stretches).collect();
            let bins = of.rows.keys().map(|bin| ranges.iter().filter(|r| r.contains(bin)).count());
            assert!(bins.into_iter().all(|times| times == 1), "{ranges:?}");
            let length: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            assert_eq!(length, 6 * BIN, "{ranges:?}");
        }
        assert_eq!(divided(Statistic::Sums, &asked(400), 1).len(), 1);
    }
}
