//! `crosstalk recover`.

use crate::quantity::size;
use anyhow::{Result, bail};
use crosstalk_recording::{Destination, recover, upload};
use crosstalk_sources::state_folder;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  crosstalk recover rec
  crosstalk recover /var/lib/crosstalk --json | jq .files
  crosstalk recover s3://bucket/rec                 finish what waits in the spool for it, and send it

Every row that had reached the file is kept. Files that a recorder is still writing are left to it.")]
pub(crate) struct Args {
    /// The folder or object store that was given to record or agent
    #[arg(value_name = "DIR|URL")]
    out: String,
    /// Where files wait for an object store [default: spool in $STATE_DIRECTORY or /var/lib/crosstalk]
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Print JSON instead of lines
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let spool = || state_folder(None).join("spool");
    let to = Destination::new(&args.out, &args.spool.clone().unwrap_or_else(spool))?;
    let folder = to.folder().display();
    if !to.folder().is_dir() {
        match to.url() {
            Some(url) => bail!("nothing waits for {url}: there is no folder {folder}; see --spool"),
            None => bail!("{folder}: there is no such folder"),
        }
    }
    let found = recover(to.folder());
    let sent = to.upload(|_| {}).map(upload).transpose()?;
    if args.json {
        let failed: Vec<_> = found
            .failed
            .iter()
            .map(|(path, reason)| json!({ "path": path, "reason": reason }))
            .collect();
        let sent = sent
            .as_ref()
            .map(|sent| json!({ "files": sent.files, "bytes": sent.bytes, "left": sent.left }));
        let report =
            json!({ "files": found.files, "failed": failed, "in_use": found.in_use, "sent": sent });
        println!("{report:#}");
    } else {
        for file in &found.files {
            println!("finished {}", file.display());
        }
        for part in &found.in_use {
            println!("still being written: {}", part.display());
        }
        if found.files.is_empty() && found.failed.is_empty() && found.in_use.is_empty() {
            println!("nothing was left unfinished below {folder}");
        }
        if let Some((sent, url)) = sent.as_ref().zip(to.url()) {
            println!("sent {} files, {}, to {url}", sent.files, size(sent.bytes));
        }
    }
    if let Some(sent) = sent.filter(|sent| sent.left > 0) {
        let why = sent.error.unwrap_or_default();
        bail!("{} files still wait in {folder}: {why}", sent.left);
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
