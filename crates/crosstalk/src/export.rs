//! `crosstalk export`: recordings for the viewers of others.

use crate::bar::Bar;
use crate::exit::BadArgument;
use crate::quantity::{size, thousands};
use anyhow::{Context, Result};
use crosstalk_analysis::perfetto::{ExportError, export};
use crosstalk_analysis::{Question, SubjectKind, analyze};
use jiff::Timestamp;
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufWriter, Write, stderr};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  crosstalk export rec --perfetto rec.pftrace
  crosstalk export node-a node-b --perfetto both.pftrace --from 2026-11-15T21:00:00Z --to 2026-11-15T21:01:00Z
  crosstalk export s3://bucket/rec --perfetto pods.pftrace --subject pod

Open the file at ui.perfetto.dev, which reads it in your browser. Each node is a group: its verdicts, who held each core,
how busy it was, instructions per cycle and cache misses where they were counted, and how fast memory answered. Times
are those of the recording.")]
pub(crate) struct Args {
    /// What record, agent or bench wrote: folders, files or object-store URLs, of one node or many
    #[arg(value_name = "PATH", required = true)]
    places: Vec<String>,
    /// Write a trace for Perfetto's viewer
    #[arg(long, value_name = "FILE")]
    perfetto: PathBuf,
    /// process, container, pod or workload: whose names are shown
    #[arg(long, default_value = "process")]
    subject: SubjectKind,
    /// Only from this time on, such as 2026-11-15T21:59:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    to: Option<Timestamp>,
    /// Print JSON instead of lines
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let time = crate::analyze::time(args.from, args.to)?;
    let question = Question { subject: args.subject, time, ..Question::default() };
    let mut bar = Bar::new();
    let wrong = |error: crosstalk_recording::Error| BadArgument(error.to_string());
    let report = analyze(&args.places, &question, |read| bar.show(read)).map_err(wrong)?;
    let shown = args.perfetto.display();
    // Whole or not at all: a viewer shows half a trace as if it were one.
    let part = args.perfetto.with_extension("part");
    let file = File::create(&part).with_context(|| format!("cannot write {}", part.display()))?;
    let mut to = BufWriter::new(file);
    let exported = export(&args.places, &question, &report, &mut to, |read| bar.show(read))
        .map_err(|error| {
            let _ = fs::remove_file(&part);
            match error {
                ExportError::Read(error) => anyhow::Error::from(wrong(error)),
                ExportError::Write(error) => error.into(),
            }
        })?;
    drop(to);
    fs::rename(&part, &args.perfetto).with_context(|| format!("cannot write {shown}"))?;
    bar.clear();
    for unread in &exported.unread {
        let _ = writeln!(stderr(), "crosstalk: not used: {unread}");
    }
    let bytes = fs::metadata(&args.perfetto).map_or(0, |about| about.len());
    if args.json {
        let (rows, events) = (exported.rows, exported.events);
        println!(
            "{:#}",
            json!({ "file": args.perfetto, "rows": rows, "events": events, "bytes": bytes })
        );
    } else {
        let (rows, events) = (thousands(exported.rows), thousands(exported.events));
        println!(
            "{shown}: {rows} rows as {events} events, {}; open it at ui.perfetto.dev",
            size(bytes)
        );
    }
    Ok(ExitCode::SUCCESS)
}
