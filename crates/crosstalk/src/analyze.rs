//! `crosstalk analyze`: recordings into verdicts.

use crate::exit::BadArgument;
use crate::quantity::thousands;
use crate::table::{Align, render};
use anyhow::Result;
use crosstalk_analysis::{Question, Report, SubjectKind, Told, analyze};
use jiff::Timestamp;
use serde_json::json;
use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What record, agent or bench wrote: folders, files or object-store URLs
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
    /// Print JSON: verdicts, what could not be told, and what could not be read
    #[arg(long)]
    json: bool,
    /// Exit with 5 when somebody lost time to somebody
    #[arg(long)]
    exit_code: bool,
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk analyze rec
  crosstalk analyze rec --subject container --json | jq '.verdicts[] | {victim, aggressor, lost_seconds}'
  crosstalk analyze s3://bucket/rec --from 2026-11-15T21:00:00Z --to 2026-11-15T22:00:00Z

A verdict says who lost how much of its time to whom, through what, with a 95 % interval. It comes from a joint
regression of the victim's cost on all who ran beside it in the very slots in which it ran; waiting for a core is summed
from who held it. Without hardware counters only subjects that sleep and wake can be judged by their cost. What cannot
be told is said to be so. Needs some seconds in which a neighbour both ran and rested.";

/// Somebody lost time to somebody, and the exit code was to say so.
const FOUND: u8 = 5;
/// How often progress is shown.
const EVERY: Duration = Duration::from_millis(300);

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let ns = |time: Timestamp| u64::try_from(time.as_nanosecond()).unwrap_or(0);
    let time = match (args.from.map(ns), args.to.map(ns)) {
        (None, None) => None,
        (from, to) => Some(from.unwrap_or(0)..to.unwrap_or(u64::MAX)),
    };
    if time.as_ref().is_some_and(|time| time.is_empty()) {
        return Err(BadArgument("--to is not after --from".to_owned()).into());
    }
    let question = Question { subject: args.subject, time };
    let report = analyze(&args.places, &question, progress())?;
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    for unread in &report.unread {
        let _ = writeln!(stderr(), "crosstalk: not read: {unread}");
    }
    if args.json {
        let verdicts = report.verdicts();
        println!(
            "{:#}",
            json!({ "verdicts": verdicts, "runs": report.runs, "unread": report.unread })
        );
    } else {
        print!("{}", text(&report));
    }
    let found = args.exit_code && !report.verdicts().is_empty();
    Ok(if found { FOUND.into() } else { ExitCode::SUCCESS })
}

/// A line on a terminal that says how far reading has come.
fn progress() -> impl FnMut(u64) {
    let (live, mut shown) = (stderr().is_terminal(), Instant::now());
    move |rows| {
        if live && shown.elapsed() >= EVERY {
            shown = Instant::now();
            let _ = write!(stderr(), "\r\x1b[Kread {} rows", thousands(rows));
        }
    }
}

fn text(report: &Report) -> String {
    let verdicts = report.verdicts();
    let mut text = if verdicts.is_empty() {
        "nobody is seen to have lost time to a neighbour\n".to_owned()
    } else {
        table(&verdicts)
    };
    for run in &report.runs {
        let seconds = run.to_ns.saturating_sub(run.from_ns) as f64 / 1e9;
        let mut line = format!("\n{}: {} rows, {seconds:.1} s", run.node, thousands(run.rows));
        if run.lossy_slots > 0 {
            line += &format!(", {} slots with losses left out", thousands(run.lossy_slots));
        }
        text += &format!("{line}\n");
        const SHOWN: usize = 5;
        for unsaid in run.cannot_tell.iter().take(SHOWN) {
            let about = match unsaid.neighbours.as_slice() {
                [] => String::new(),
                some => format!(" beside {}", some.join(", ")),
            };
            text += &format!("cannot tell for {}{about}: {}\n", unsaid.victim, unsaid.because);
        }
        let more = run.cannot_tell.len().saturating_sub(SHOWN);
        if more > 0 {
            text += &format!("... nor for {more} more (--json has all)\n");
        }
    }
    text
}

fn table(verdicts: &[&Told]) -> String {
    let header = [
        ("victim", Align::Left),
        ("lost", Align::Right),
        ("share", Align::Right),
        ("95 %", Align::Right),
        ("to", Align::Left),
        ("through", Align::Left),
        ("from", Align::Left),
        ("until", Align::Left),
    ];
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let clock = |ns: u64| {
        let time = Timestamp::from_nanosecond(ns.into()).unwrap_or(Timestamp::UNIX_EPOCH);
        time.strftime("%H:%M:%S").to_string()
    };
    let rows: Vec<Vec<String>> = verdicts
        .iter()
        .map(|v| {
            vec![
                printable(&v.victim),
                format!("{:.2} s", v.lost_seconds),
                percent(v.slowdown),
                format!("{:.1} to {:.1}", v.low * 100.0, v.high * 100.0),
                printable(&v.aggressor),
                v.resource.to_owned(),
                clock(v.from_ns),
                clock(v.to_ns),
            ]
        })
        .collect();
    render(&header, &rows)
}

/// A process may name itself with control characters; a terminal must not obey them.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
