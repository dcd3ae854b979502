//! Spark: the same files of SQL with a small PySpark job that runs them, and what it gathered judged.

mod judged;
mod plan;

pub use judged::judge;
pub use plan::emit;

/// What the job reads: every run, its files and what differs from run to run.
const RUNS: &str = "runs.json";
/// The folder that the job writes into.
const GATHERED: &str = "gathered";
