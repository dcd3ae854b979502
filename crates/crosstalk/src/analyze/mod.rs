//! `crosstalk analyze`: recordings into verdicts.

mod engine;
mod text;

use crate::bar::Bar;
use crate::exit::BadArgument;
use anyhow::{Context, Result};
use crosstalk_analysis::{Progress, Question, Report, SubjectKind, analyze, html};
use jiff::Timestamp;
use serde_json::json;
use std::io::{Write, stderr};
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What record, agent or bench wrote: folders, files or object-store URLs, of one node or many
    #[arg(value_name = "PATH", required = true)]
    places: Vec<String>,
    /// process, container, pod or workload: who victims and culprits are
    #[arg(long, default_value = "process")]
    subject: SubjectKind,
    /// Only from this time on, such as 2026-11-15T21:59:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// Only before this time
    #[arg(long, value_name = "TIME")]
    to: Option<Timestamp>,
    /// What a workload says it got done: a training log, JSON lines, a CSV or the processor's answer; may be repeated
    #[arg(long, value_name = "[NAME=]FILE")]
    progress: Vec<String>,
    /// How far times without a zone in a --progress file are ahead of UTC
    #[arg(long, value_name = "+HH:MM", default_value = "+00:00", value_parser = zone, allow_hyphen_values = true)]
    log_zone: i64,
    /// Print a JSON list of verdicts; with --json=full an object that also has what could not be told or read
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "verdicts")]
    json: Option<Json>,
    /// Write a page to look at: one HTML file that needs nothing else
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Have an engine gather the statistics: datafusion, ballista://HOST:PORT, or spark with --emit or --gathered
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// With --engine spark: write the SQL and a PySpark job into this folder
    #[arg(long, value_name = "DIR", requires = "engine")]
    emit: Option<PathBuf>,
    /// With --engine spark: judge what the job in this folder gathered
    #[arg(long, value_name = "DIR", requires = "engine", conflicts_with = "emit")]
    gathered: Option<PathBuf>,
    /// With --engine: what sorts and groups may hold before they go to disk, and joins at all [default: 512MiB]
    #[arg(long, value_name = "SIZE", requires = "engine", value_parser = crosstalk_settings::parse_bytes)]
    memory: Option<u64>,
    /// Exit with 5 when somebody lost time to somebody
    #[arg(long)]
    exit_code: bool,
}

/// What JSON is printed.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Json {
    /// A list of verdicts
    Verdicts,
    /// Verdicts, training, runs with their caveats, what could not be told, what could not be read
    Full,
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk analyze rec
  crosstalk analyze rec --report rec.html
  crosstalk analyze rec --subject container --json | jq '.[] | {victim, aggressor, lost_seconds}'
  crosstalk analyze rec --progress victim.jsonl               what crosstalk workload printed says whose it is
  crosstalk analyze rec --progress trainer=train.log          which iterations were slow, and because of whom
  crosstalk analyze node-a node-b --subject workload --progress ml/llm=training.json
  crosstalk analyze rec --engine datafusion                   an engine gathers what the same core then judges
  crosstalk analyze s3://bucket/rec --from 2026-11-15T21:00:00Z --to 2026-11-15T22:00:00Z

A verdict says who lost how much of its time to whom, through what, with a 95 % interval. It comes from a joint
regression of the victim's cost on all who ran beside it in the very slots in which it ran; waiting for a core is summed
from who held it. Without hardware counters only subjects that sleep and wake, or tell their progress, can be judged by
their cost. What cannot be told is said to be so. Needs some seconds in which a neighbour both ran and rested.

Exit codes: 0 done, 1 nothing could be read or an engine failed, 2 bad command line or no recording there, 5 with --exit-code: a loss was found.";

/// Somebody lost time to somebody, and the exit code was to say so.
const FOUND: u8 = 5;
/// Nothing could be read, or an engine failed.
const FAILED: u8 = 1;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let question = question(args)?;
    let report = match &args.engine {
        Some(engine) => match engine::ask(engine, args, &question)? {
            engine::Answer::Report(report) => report,
            engine::Answer::Done(code) => return Ok(code),
        },
        None => {
            let mut bar = Bar::new();
            let report = analyze(&args.places, &question, |read| bar.show(read));
            bar.clear();
            // Nothing was to be written: a place without a recording is a mistake in the command.
            report.map_err(|error| BadArgument(error.to_string()))?
        }
    };
    for unread in &report.unread {
        let _ = writeln!(stderr(), "crosstalk: not used: {}", text::printable(unread));
    }
    match args.json {
        Some(Json::Verdicts) => println!("{:#}", json!(report.verdicts())),
        Some(Json::Full) => println!("{:#}", full(&report)),
        None => print!("{}", text::text(&report)),
    }
    if let Some(path) = &args.report {
        let shown = path.display();
        std::fs::write(path, html::page(&report))
            .with_context(|| format!("cannot write the report to {shown}"))?;
        let _ = writeln!(stderr(), "crosstalk: report in {shown}");
    }
    if report.is_from_nothing() || report.has_failed {
        return Ok(FAILED.into());
    }
    let found = args.exit_code && !report.verdicts().is_empty();
    Ok(if found { FOUND.into() } else { ExitCode::SUCCESS })
}

/// The slots between two times, if either was given.
pub(crate) fn time(from: Option<Timestamp>, to: Option<Timestamp>) -> Result<Option<Range<u64>>> {
    let ns = |time: Timestamp| u64::try_from(time.as_nanosecond()).unwrap_or(0);
    match (from.map(ns), to.map(ns)) {
        (None, None) => Ok(None),
        (from, to) => {
            let time = from.unwrap_or(0)..to.unwrap_or(u64::MAX);
            if time.is_empty() {
                return Err(BadArgument("--to is not after --from".to_owned()).into());
            }
            Ok(Some(time))
        }
    }
}

fn question(args: &Args) -> Result<Question> {
    let time = time(args.from, args.to)?;
    let open = |argument: &String| {
        let wrong = |error| BadArgument(format!("--progress {error}"));
        Progress::open(argument, args.log_zone).map_err(wrong)
    };
    let progress = args.progress.iter().map(open).collect::<Result<_, _>>()?;
    Ok(Question { subject: args.subject, time, progress, pictures: args.report.is_some() })
}

fn full(report: &Report) -> serde_json::Value {
    json!({
        "verdicts": report.verdicts(),
        "training": report.training,
        "cannot_tell": report.cannot_tell(),
        "runs": report.runs.iter().map(|run| json!({
            "node": run.node,
            "run": run.run,
            "from_ns": run.from_ns,
            "to_ns": run.to_ns,
            "rows": run.rows,
            "late_rows": run.late_rows,
            "slots": run.slots,
            "lossy_slots": run.lossy_slots,
            "small_losses": run.small_losses,
            "caveats": run.caveats,
        })).collect::<Vec<_>>(),
        "unread": report.unread,
    })
}

/// Seconds ahead of UTC.
fn zone(text: &str) -> Result<i64, String> {
    let wrong = || format!("\"{text}\" is not a zone such as +02:00 or -05:30");
    let (sign, rest) = match text.split_at_checked(1) {
        Some(("+", rest)) => (1, rest),
        Some(("-", rest)) => (-1, rest),
        _ => return Err(wrong()),
    };
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let part = |text: &str, most: i64| {
        text.parse().ok().filter(|part| (0..=most).contains(part)).ok_or_else(wrong)
    };
    Ok(sign * (part(hours, 14)? * 3_600 + part(minutes, 59)? * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_hours_and_minutes_with_a_sign() {
        assert_eq!(zone("+02:00"), Ok(7_200));
        assert_eq!(zone("-05:30"), Ok(-19_800));
        assert_eq!(zone("+9"), Ok(32_400));
        for wrong in ["", "2", "+", "+25:00", "CET", "+02:99", "é"] {
            assert!(zone(wrong).is_err(), "{wrong}");
        }
    }
}
