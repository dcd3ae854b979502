//! `crosstalk analyze --engine`: the report as JSON, which `crosstalk analyze` makes text or a page of.

use anyhow::Result;
use crosstalk_analysis::{Question, SubjectKind};
use crosstalk_sql::{Engine, Error, MEMORY, Options, spark, verdicts};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What record, agent or bench wrote
    #[arg(value_name = "PATH", required = true)]
    places: Vec<String>,
    /// datafusion, ballista://HOST:PORT, or spark with --emit or --gathered
    #[arg(long, value_name = "ENGINE", default_value = "datafusion")]
    engine: String,
    /// Write the SQL and a PySpark job into this folder
    #[arg(long, value_name = "DIR")]
    emit: Option<PathBuf>,
    /// Judge what the job in this folder gathered
    #[arg(long, value_name = "DIR", conflicts_with = "emit")]
    gathered: Option<PathBuf>,
    /// process, container, pod or workload
    #[arg(long, default_value = "process")]
    subject: SubjectKind,
    /// Only slots from this one on, Unix nanoseconds
    #[arg(long, value_name = "NS")]
    from_ns: Option<u64>,
    /// Only slots before this one
    #[arg(long, value_name = "NS")]
    to_ns: Option<u64>,
    /// What sorts and groups may hold before they go to disk, and joins at all [default: 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = crosstalk_settings::parse_bytes)]
    memory: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let time = (args.from_ns.is_some() || args.to_ns.is_some())
        .then(|| args.from_ns.unwrap_or(0)..args.to_ns.unwrap_or(u64::MAX));
    let question = Question { subject: args.subject, time, ..Question::default() };
    let memory = args.memory.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(MEMORY);
    let report = match (args.engine.as_str(), &args.emit, &args.gathered) {
        ("spark", Some(folder), _) => {
            let emitted = spark::emit(&args.places, &question, folder)?;
            print!("{emitted}");
            return Ok(ExitCode::SUCCESS);
        }
        ("spark", None, Some(folder)) => spark::judge(&args.places, &question, folder, memory)?,
        ("spark", None, None) => {
            let what = "--engine spark needs --emit DIR, to write the job, or --gathered DIR, to judge what it gathered";
            return Err(Error::Refused(what.to_owned()).into());
        }
        (engine, None, None) => {
            let engine: Engine = engine
                .parse()
                .map_err(|why| Error::Refused(format!("--engine: {why}; there is spark, too")))?;
            verdicts::analyze(&args.places, &question, &Options { engine, memory })?
        }
        _ => {
            let what = "--emit and --gathered go with --engine spark";
            return Err(Error::Refused(what.to_owned()).into());
        }
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(if report.has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
