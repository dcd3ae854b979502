//! `crosstalk simulate`: recordings whose truth is known.

use crate::exit::BadArgument;
use crate::quantity::{size, thousands};
use anyhow::{Context, Result};
use crosstalk_recording::Format;
use crosstalk_settings::{Loader, effective, parse_duration};
use crosstalk_simulate::{Options, Progress, SLOT_NS, Scenario, Written, record};
use jiff::Timestamp;
use serde_json::json;
use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Folder to write to; it must hold no recording
    #[arg(long, value_name = "DIR", required_unless_present = "print_scenario")]
    out: Option<PathBuf>,
    /// Machines to simulate
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,
    /// How much of their time
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = parse_duration)]
    duration: Duration,
    /// What the machine is and what runs on it, as TOML, YAML or JSON [default: a busy node of 36 cores]
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// The same seed makes the same recording
    #[arg(long, value_name = "SEED", default_value = "1")]
    seed: u64,
    /// The first slot
    #[arg(long, value_name = "TIME", default_value = "2026-01-01T00:00:00Z")]
    start: Timestamp,
    /// csv or parquet
    #[arg(long, default_value = "parquet")]
    format: Format,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
    /// Print the scenario as TOML, every key with its value, and write nothing
    #[arg(long)]
    print_scenario: bool,
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk simulate --out sim --duration 5m && crosstalk analyze sim
  crosstalk simulate --print-scenario > busy.toml                       a scenario to start from
  crosstalk simulate --out sim --scenario busy.toml --nodes 8 --seed 7

Writes the data sets tasks, slots and probe as record does, and beside them labels/labels-NODE.jsonl: for every pair
and resource who lost how many seconds to whom, every 10 s (span \"window\") and in all (span \"recording\"). Losses come
from a model of caches, memory, clocks and turns on cores, and are known exactly: the machine is simulated with and
without each of the twelve processes with the most memory traffic. Memory does not grow with length or nodes.";

/// How often progress is shown.
const EVERY: Duration = Duration::from_millis(300);

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let scenario =
        Loader::new("simulate").file(args.scenario.as_deref()).load::<Scenario>()?.config;
    if args.print_scenario {
        print!("{}", effective(&scenario)?);
        return Ok(ExitCode::SUCCESS);
    }
    let start_ns = u64::try_from(args.start.as_nanosecond()).unwrap_or(0);
    if start_ns < 3_600_000_000_000 {
        return Err(BadArgument("--start is before 1970-01-01T01:00:00Z".to_owned()).into());
    }
    let options = Options {
        out: args.out.clone().unwrap_or_default(),
        nodes: args.nodes,
        duration: args.duration,
        seed: args.seed,
        start_ns: start_ns - start_ns % SLOT_NS,
        format: args.format,
    };
    let began = Instant::now();
    let written = record(&scenario, &options, progress()).context("cannot simulate")?;
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    tell(args, &options, &written, began.elapsed());
    Ok(ExitCode::SUCCESS)
}

/// A line on a terminal that says how far it is.
fn progress() -> impl FnMut(Progress) {
    let (live, mut shown) = (stderr().is_terminal(), Instant::now());
    move |now| {
        if live && shown.elapsed() >= EVERY {
            shown = Instant::now();
            let (rows, percent) = (thousands(now.rows), 100.0 * now.share);
            let _ = write!(stderr(), "\r\x1b[K{percent:.0} %, {rows} rows");
        }
    }
}

fn tell(args: &Args, options: &Options, written: &Written, took: Duration) {
    let bytes: u64 = written.files.iter().map(|file| file.bytes).sum();
    let labels = options.out.join("labels");
    if args.json {
        let files: Vec<_> = written.files.iter().map(|file| {
            json!({ "dataset": file.dataset.name, "path": file.path, "rows": file.rows, "bytes": file.bytes })
        }).collect();
        println!(
            "{:#}",
            json!({
                "out": options.out,
                "nodes": options.nodes,
                "seed": options.seed,
                "rows": written.rows,
                "task_rows": written.task_rows,
                "bytes": bytes,
                "labels": labels,
                "label_lines": written.labels,
                "seconds": took.as_secs_f64(),
                "files": files,
            })
        );
        return;
    }
    println!(
        "{} rows ({} of tasks) of {} nodes in {}, {} in {:.1} s\n{} labels in {}",
        thousands(written.rows),
        thousands(written.task_rows),
        options.nodes,
        options.out.display(),
        size(bytes),
        took.as_secs_f64(),
        thousands(written.labels),
        labels.display(),
    );
}
