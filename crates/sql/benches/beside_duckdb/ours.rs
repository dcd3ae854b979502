//! Our own answers, in a process that does nothing else.

use super::questions::{Question, Questions};
use super::{has, number};
use crosstalk_analysis::Question as Judged;
use crosstalk_figure::process;
use crosstalk_sql::query::{Format, Output};
use crosstalk_sql::{Options, Session, verdicts};
use serde_json::{Map, Value, json};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::time::Instant;
use tokio::runtime::Runtime;

/// Asks all ten `--times` times and tells the best seconds of each. With a folder for answers they are held and then written
/// there, as rivals hold theirs; otherwise rows are counted as they come.
pub(super) fn answer(folder: &str, answers: Option<&str>) -> Result<Value, Box<dyn Error>> {
    let times: usize = number("--times", 1)?;
    let runtime = Runtime::new()?;
    let places = [folder.to_owned()];
    let session = runtime.block_on(Session::open(&places, &Options::default()))?;
    let questions = runtime.block_on(Questions::of(folder, &session))?;
    let mut best = Map::new();
    let mut ask = |question: &Question| -> Result<(), Box<dyn Error>> {
        let mut fastest = f64::MAX;
        for time in 0..times {
            let began = Instant::now();
            if let Some(answers) = answers {
                let batches = runtime.block_on(session.collect(&question.text))?;
                fastest = fastest.min(began.elapsed().as_secs_f64());
                if time == 0 {
                    keep(&runtime, &session, question, &batches, Path::new(answers))?;
                }
            } else {
                runtime.block_on(session.run(&question.text, |_| Ok(())))?;
                fastest = fastest.min(began.elapsed().as_secs_f64());
            }
        }
        // Of several runs all are asked.
        let before = best.get(&question.name).and_then(Value::as_f64).unwrap_or(0.0);
        best.insert(question.name.clone(), json!(before + fastest));
        Ok(())
    };
    for question in &questions.views {
        ask(question)?;
    }
    for run in &questions.runs {
        for text in &run.prepare {
            runtime.block_on(session.collect(text))?;
        }
        for question in &run.questions {
            ask(question)?;
        }
    }
    let peak = process::peak_bytes(std::process::id());
    let told = has("--tell").then(|| questions.told());
    Ok(json!({ "seconds": best, "peak_bytes": peak, "questions": told }))
}

/// Verdicts, as `crosstalk analyze --engine datafusion` has them.
pub(super) fn judge(folder: &str) -> Result<Value, Box<dyn Error>> {
    let began = Instant::now();
    let report = verdicts::analyze(&[folder.to_owned()], &Judged::default(), &Options::default())?;
    if report.has_failed {
        return Err(report.unread.join("; ").into());
    }
    let seconds = began.elapsed().as_secs_f64();
    let peak = process::peak_bytes(std::process::id());
    Ok(json!({ "seconds": seconds, "peak_bytes": peak, "verdicts": report.verdicts().len() }))
}

fn keep(
    runtime: &Runtime,
    session: &Session,
    question: &Question,
    batches: &[datafusion::arrow::array::RecordBatch],
    folder: &Path,
) -> Result<(), Box<dyn Error>> {
    let frame = runtime.block_on(session.plan(&question.text))?;
    let file = File::create(folder.join(format!("{}.parquet", question.name)))?;
    let mut output = Output::new(Format::Parquet, frame.schema().inner(), file)?;
    for batch in batches {
        output.write(batch)?;
    }
    output.finish()?;
    Ok(())
}
