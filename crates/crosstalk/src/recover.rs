//! `crosstalk recover`.

use anyhow::{Result, bail};
use crosstalk_recording::recover;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  crosstalk recover rec
  crosstalk recover /var/lib/crosstalk --json | jq .files

Every row that had reached the file is kept. Files that a recorder is still writing are left to it.")]
pub(crate) struct Args {
    /// The folder that was given to record or agent
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print JSON instead of lines
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if !args.folder.is_dir() {
        bail!("{}: there is no such folder", args.folder.display());
    }
    let found = recover(&args.folder);
    if args.json {
        let failed: Vec<_> = found
            .failed
            .iter()
            .map(|(path, reason)| json!({ "path": path, "reason": reason }))
            .collect();
        println!("{:#}", json!({ "files": found.files, "failed": failed, "in_use": found.in_use }));
    } else {
        for file in &found.files {
            println!("finished {}", file.display());
        }
        for part in &found.in_use {
            println!("still being written: {}", part.display());
        }
        if found.files.is_empty() && found.failed.is_empty() && found.in_use.is_empty() {
            println!("nothing was left unfinished below {}", args.folder.display());
        }
    }
    match found.failed.first() {
        None => Ok(ExitCode::SUCCESS),
        Some((path, reason)) => {
            let more = found.failed.len() - 1;
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            bail!("could not finish {}: {reason}{more}", path.display())
        }
    }
}
