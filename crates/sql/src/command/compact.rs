//! `crosstalk compact`: the small files of each day merged.

use anyhow::{Context, Result};
use crosstalk_sql::compact::{Outcome, compact};
use crosstalk_sql::{Engine, MEMORY, Options};
use serde_json::json;
use std::process::ExitCode;
use tokio::runtime::Runtime;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A recording: a folder, or a URL such as s3://bucket/rec
    #[arg(value_name = "PATH")]
    place: String,
    /// What sorting may hold before it goes to disk [default: 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = crosstalk_settings::parse_bytes)]
    memory: Option<u64>,
    #[command(flatten)]
    waits: super::Waits,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk compact rec
  crosstalk compact /var/lib/crosstalk/recordings --json
  crosstalk compact s3://bucket/rec                               every night, say: it removes what it merged the night before

Every folder of a run, or of a day of it where it is filed by days, becomes one Parquet file a day, sorted by second, then
by process and core: a question about a minute reads a part of one file. CSV becomes Parquet. A folder that is still
being written is left alone. Readers see either the old files or the new one, never both; rows are counted before the
old ones go. Sorting goes to disk beyond --memory, in the folder that TMPDIR names.

In an object store the merged objects are put beside the old ones, and a note that readers of crosstalk heed tells which
are read. The old ones are removed by the next call, or by this one with --grace 0s: until then other tools see both.";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let memory = args.memory.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(MEMORY);
    let options = Options { engine: Engine::Embedded, memory };
    let runtime = Runtime::new().context("cannot start threads")?;
    let outcomes = runtime.block_on(compact(&args.place, &options, args.waits.patience()))?;
    if args.json {
        println!("{:#}", json!(outcomes.iter().map(object).collect::<Vec<_>>()));
    } else {
        outcomes.iter().for_each(|outcome| println!("{}", line(outcome)));
    }
    Ok(ExitCode::SUCCESS)
}

fn object(outcome: &Outcome) -> serde_json::Value {
    match outcome {
        Outcome::Merged { folder, files, rows, bytes } => json!({
            "folder": folder, "rows": rows,
            "files_before": files.0, "files": files.1, "bytes_before": bytes.0, "bytes": bytes.1,
        }),
        Outcome::Left { folder, because } => json!({ "folder": folder, "left_because": because }),
    }
}

fn line(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Merged { folder, files, rows, bytes } => format!(
            "{}: {} files are {} now, {rows} rows, {} bytes were {}",
            folder.display(),
            files.0,
            files.1,
            bytes.1,
            bytes.0
        ),
        Outcome::Left { folder, because } => format!("{}: left: {because}", folder.display()),
    }
}
