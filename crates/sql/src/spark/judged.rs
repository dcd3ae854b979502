use super::{GATHERED, RUNS};
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
/// There is no recording, or the job has not run.
pub fn judge(
    places: &[String],
    question: &Question,
    folder: &Path,
    memory: usize,
) -> Result<Report, Error> {
    let list = folder.join(RUNS);
    let text = std::fs::read_to_string(&list).map_err(|e| Error::io(&list, e))?;
    let wrong = |e| Error::Refused(format!("{}: {e}", list.display()));
    let runs: Vec<Value> = serde_json::from_str(&text).map_err(wrong)?;
    let said = |run: &Value, key: &str| run[key].as_str().unwrap_or_default().to_owned();
    let numbers = runs.iter().enumerate();
    let numbers = numbers.map(|(at, run)| ((said(run, "node"), said(run, "run")), at)).collect();
    let runtime = Runtime::new().map_err(|e| Error::Engine(e.to_string()))?;
    let context = crate::session::embedded(memory)?;
    let gathered = folder.join(GATHERED);
    let mut files = Files { runtime, context, gathered, numbers };
    Ok(analyze_gathered(places, question, &mut files)?)
}

struct Files {
    runtime: Runtime,
    context: SessionContext,
    gathered: PathBuf,
    numbers: HashMap<(String, String), usize>,
}

impl Gather for Files {
    fn gather(&mut self, what: Statistic, of: &Asked<'_>, take: Take<'_>) -> Result<(), String> {
        let run = (of.node.to_owned(), of.run.to_owned());
        let number = self.numbers.get(&run).ok_or("it was not in the job; write it anew")?;
        let folder = self.gathered.join(number.to_string()).join(what.name());
        if !folder.exists() {
            return Err(format!("{}: the job has not written it yet", folder.display()));
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
