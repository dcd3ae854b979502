//! Spark: the same files of SQL with a small PySpark job that runs them, and what it gathered judged.

mod judged;
mod plan;

use crosstalk_analysis::Question;
pub use judged::judge;
pub use plan::emit;
use serde_json::{Value, json};

/// What the job reads: the question, every run, its files and what differs from run to run.
const RUNS: &str = "runs.json";
/// The folder that the job writes into.
const GATHERED: &str = "gathered";

/// What of a question the job depends on.
fn asked(question: &Question) -> Value {
    let time = question.time.as_ref().map(|time| [time.start, time.end]);
    json!({ "subject": question.subject.name(), "time_ns": time })
}
