//! `crosstalk sql`: one query, or one after the other.

use super::{EngineArgs, tell};
use anyhow::{Context, Result};
use crosstalk_sql::query::{Format, Output};
use crosstalk_sql::{Error, Session, shell};
use std::fs::Permissions;
use std::io::{BufWriter, IsTerminal, Read, Write, stdin, stdout};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::runtime::Runtime;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What record, agent or bench wrote: a folder, a file or an object-store URL [default: this folder]
    #[arg(value_name = "PATH")]
    place: Option<String>,
    /// The query; without one, and on a terminal, queries are read one after the other
    #[arg(value_name = "QUERY")]
    query: Option<String>,
    /// More recordings beside PATH; may be repeated
    #[arg(long, value_name = "PATH")]
    and: Vec<String>,
    /// Read the query from a file
    #[arg(long, short, value_name = "FILE.sql", conflicts_with = "query")]
    file: Option<PathBuf>,
    /// table, csv, json, jsonl or parquet [default: table, or what the name after --out says]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write the rows to a file
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Say how the query would be run; with --explain=analyze run it and say how it was
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "plan")]
    explain: Option<Explain>,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Explain {
    /// What the engine plans
    Plan,
    /// What it then did, with times and rows
    Analyze,
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk sql rec                                               queries one after the other; \\? says what else
  crosstalk sql rec 'SELECT comm, sum(on_cpu_ns) / 1e9 AS s FROM tasks GROUP BY comm ORDER BY s DESC LIMIT 5'
  crosstalk sql rec 'SELECT * FROM per_second' --out seconds.parquet
  crosstalk sql s3://bucket/rec \"SELECT node, count(*) FROM tasks WHERE time >= '2026-11-15T21:00:00Z' GROUP BY node\"
  crosstalk sql rec -f question.sql --format json

Every data set is a table (tasks, slots, cache, probe, steal, ...), with the columns node and run. Ready views:
per_second, per_container, task_cache, neighbours, waited_for, losses. docs/sql.md shows each with its result.
Keys of object stores come from the environment, as their own tools take them (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, ...).

Exit codes: 0 done, 1 failed, 2 the query is wrong, or no recording there.";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    // In the folder of a recording the query alone will do.
    if args.query.is_none() && args.file.is_none() && args.place.as_deref().is_some_and(is_query) {
        args.query = args.place.take();
    }
    let mut places = vec![args.place.clone().unwrap_or_else(|| ".".to_owned())];
    places.extend(args.and.iter().cloned());
    let query = query(&args)?;
    let runtime = Runtime::new().context("cannot start threads")?;
    let session = runtime.block_on(Session::open(&places, &args.engine.options()))?;
    let done = match &query {
        Some(query) => answer(&runtime, &session, query, &args),
        None => shell::run(&runtime, &session).map_err(Into::into),
    };
    tell(&session.notes);
    done.map(|()| ExitCode::SUCCESS)
}

/// Whether an argument is a query and not a place: places have no blanks, or are there.
fn is_query(text: &str) -> bool {
    text.trim().contains(char::is_whitespace) && !Path::new(text).exists() && !text.contains("://")
}

fn query(args: &Args) -> Result<Option<String>> {
    if let Some(path) = &args.file {
        let text = std::fs::read_to_string(path);
        return Ok(Some(text.with_context(|| path.display().to_string())?));
    }
    if args.query.is_some() || stdin().is_terminal() {
        return Ok(args.query.clone());
    }
    let mut text = String::new();
    stdin().read_to_string(&mut text).context("cannot read a query from standard input")?;
    Ok(Some(text))
}

fn answer(runtime: &Runtime, session: &Session, query: &str, args: &Args) -> Result<()> {
    if let Some(how) = args.explain {
        let text = runtime.block_on(session.explain(query, how == Explain::Analyze))?;
        return stdout().write_all(text.as_bytes()).context("cannot write to standard output");
    }
    let format = format(args)?;
    match &args.out {
        None => {
            write(runtime, session, query, format, BufWriter::new(stdout()))?;
        }
        Some(path) => {
            let rows = keep(runtime, session, query, format, path)?;
            let _ = writeln!(std::io::stderr(), "crosstalk: {rows} rows in {}", path.display());
        }
    }
    Ok(())
}

/// Writes the rows to a file. A name means a whole file: until it is, it has a name that is nobody's, and what it is
/// called by is on the disk.
fn keep(
    runtime: &Runtime,
    session: &Session,
    query: &str,
    format: Format,
    path: &Path,
) -> Result<usize> {
    let failed = || format!("cannot write {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // A file of a new name gets the rights that any file does, and not those of a secret.
    let part = tempfile::Builder::new()
        .prefix(".crosstalk-")
        .suffix(".part")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .with_context(failed)?;
    let into = BufWriter::new(part.as_file());
    let rows = write(runtime, session, query, format, into)?;
    part.as_file().sync_all().with_context(failed)?;
    part.persist(path).map_err(|error| error.error).with_context(failed)?;
    Ok(rows)
}

fn format(args: &Args) -> Result<Format> {
    let ending = args.out.as_ref().and_then(|path| path.extension()?.to_str());
    let format = args.format.or_else(|| ending?.parse().ok()).unwrap_or_default();
    if format == Format::Parquet && args.out.is_none() {
        return Err(Error::Refused("Parquet needs a file: --out FILE.parquet".to_owned()).into());
    }
    Ok(format)
}

fn write(
    runtime: &Runtime,
    session: &Session,
    query: &str,
    format: Format,
    into: impl Write + Send,
) -> Result<usize> {
    let written = async {
        let frame = session.plan(query).await?;
        let mut output = Output::new(format, frame.schema().inner(), into)?;
        session.run_planned(query, frame, |batch| output.write(&batch)).await?;
        output.finish()
    };
    Ok(runtime.block_on(written)?)
}
