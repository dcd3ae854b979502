use super::{GATHERED, RUNS, asked};
use crate::Error;
use crate::verdicts::plainly;
use crosstalk_analysis::{Asked, Gather, Question, Report, Statistic, Take, analyze_gathered};
use datafusion::error::Result as EngineResult;
use datafusion::execution::context::SessionContext;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::ParquetReadOptions;
use futures_util::StreamExt;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Judges what the job in `folder` gathered of the recordings at `places`.
///
/// # Errors
/// There is no recording, the job has not run, or it was written for another question.
pub fn judge(
    places: &[String],
    question: &Question,
    folder: &Path,
    memory: usize,
) -> Result<Report, Error> {
    let list = folder.join(RUNS);
    let text = std::fs::read_to_string(&list).map_err(|e| Error::io(&list, e))?;
    let wrong = |e| Error::Refused(format!("{}: {e}", list.display()));
    let list: Value = serde_json::from_str(&text).map_err(wrong)?;
    is_same_question(&list, question, folder)?;
    let said = |run: &Value, key: &str| run[key].as_str().unwrap_or_default().to_owned();
    let runs = list["runs"].as_array().into_iter().flatten().enumerate();
    let planned = |(number, run): (usize, &Value)| {
        let datasets = run["files"].as_object().into_iter().flat_map(|files| files.keys().cloned());
        let planned = Planned { number, datasets: datasets.collect() };
        ((said(run, "node"), said(run, "run")), planned)
    };
    let planned = runs.map(planned).collect();
    let runtime = Runtime::new().map_err(|e| Error::Engine(e.to_string()))?;
    let context = crate::session::embedded(memory)?;
    let gathered = folder.join(GATHERED);
    let mut files = Files { runtime, context, gathered, planned };
    Ok(analyze_gathered(places, question, &mut files)?)
}

/// What was gathered for one question is no answer to another.
fn is_same_question(list: &Value, question: &Question, folder: &Path) -> Result<(), Error> {
    let (then, now) = (&list["question"], asked(question));
    if *then == now {
        return Ok(());
    }
    let shown = |asked: &Value| {
        let subject = asked["subject"].as_str().unwrap_or("unknown").to_owned();
        match (asked["time_ns"][0].as_u64(), asked["time_ns"][1].as_u64()) {
            (Some(from), Some(to)) => format!("--subject {subject}, from {from} to {to} ns"),
            _ => format!("--subject {subject}, all of the time"),
        }
    };
    Err(Error::Refused(format!(
        "{}: its job was written for another question ({}; now asked: {}); ask that one, or write a job for this one with \
         --emit into another folder",
        folder.display(),
        shown(then),
        shown(&now)
    )))
}

struct Files {
    runtime: Runtime,
    context: SessionContext,
    gathered: PathBuf,
    planned: HashMap<(String, String), Planned>,
}

/// A run of the job.
struct Planned {
    number: usize,
    /// What the job reads of it.
    datasets: Vec<String>,
}

impl Gather for Files {
    fn gather(&mut self, what: Statistic, of: &Asked<'_>, take: Take<'_>) -> Result<(), String> {
        let run = (of.node.to_owned(), of.run.to_owned());
        let planned = self.planned.get(&run).ok_or(
            "it was not in the job, which takes finished Parquet files only; crosstalk compact makes them of others, then \
             write the job anew",
        )?;
        if !planned.datasets.iter().any(|dataset| dataset == what.needs()) {
            return Ok(());
        }
        let folder = self.gathered.join(planned.number.to_string()).join(what.name());
        if !folder.exists() {
            return Err(format!(
                "{}: the job has not written it yet, or left the run out, which it said",
                folder.display()
            ));
        }
        // Of all statistics this one has an order.
        let order = match what {
            Statistic::Bins => " ORDER BY bin_ns, first_ns, first_pid",
            _ => "",
        };
        let place = folder.display().to_string();
        let context = self.context.clone();
        let read = async {
            let options = ParquetReadOptions::default();
            let _ = context.deregister_table("gathered")?;
            context.register_parquet("gathered", format!("{place}/"), options).await?;
            let frame = context.sql(&format!("SELECT * FROM gathered{order}")).await?;
            let work = Arc::new(frame.task_ctx());
            let mut rows = execute_stream(frame.create_physical_plan().await?, work)?;
            while let Some(batch) = rows.next().await {
                if let Err(why) = take(&plainly(&batch?)?) {
                    return Ok(Err(why));
                }
            }
            Ok(Ok(()))
        };
        let read: EngineResult<Result<(), String>> = self.runtime.block_on(read);
        read.map_err(|e| format!("{place}: {}", e.strip_backtrace()))?
    }
}
