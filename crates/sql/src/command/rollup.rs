//! `crosstalk rollup`: seconds and minutes instead of milliseconds.

use anyhow::Result;
use crosstalk_settings::parse_duration;
use crosstalk_sql::rollup::{Keep, RolledUp, rollup};
use serde_json::json;
use std::io::{Write, stderr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A recording: a folder, or a URL such as s3://bucket/rec
    #[arg(value_name = "PATH")]
    place: String,
    /// Where the sums go [default: PATH]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Then remove files of every data set whose every row is older than this, such as 7d; of tasks, slots and cache, once they
    /// are summed up
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    keep: Option<Duration>,
    /// Keep sums of seconds for this long, such as 90d; those of minutes stay
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    keep_seconds: Option<Duration>,
    #[command(flatten)]
    waits: super::Waits,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk rollup rec
  crosstalk rollup /var/lib/crosstalk/recordings --keep 7d --keep-seconds 90d
  crosstalk rollup s3://bucket/rec --keep 7d                       sums beside the rows; with --out DIR into a folder
  crosstalk sql rec 'SELECT comm, sum(on_cpu_ns), max(wait_p99_ns) FROM tasks_per_minute GROUP BY comm'
  crosstalk sql rec 'SELECT comm, sketch_quantile(wait_sketch, 0.99) FROM tasks_per_minute GROUP BY comm'

Writes the data sets tasks_per_second and tasks_per_minute: for each process the exact sums of what can be summed, and of
its time on a core in a slot and of its waits the median, p90, p99 (within 1 %), the greatest, and the sketch itself,
which merges (DDSketch, in the bytes of DataDog's Java library). Likewise slots_per_second and slots_per_minute, for each core
what was lost, its idle time and how late ticks were, and cache_per_second and cache_per_minute, for each process, cache and
group its memory traffic and what it held. Files that were summed up before are left out. Where a
second lies in two files it has two rows; they add up. sketch_quantile(SKETCH, Q) merges sketches.

--keep removes files of tasks, slots and cache when they are summed up, and so are all files that share sums with them; of
other data sets (probe, steal, ...) there are no sums.

In an object store sums are put there one day of a run after the other, and a note that readers of crosstalk heed tells which
are read. Sums that others took the place of are removed by the next call, or by this one with --grace 0s.";

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let from = |keep: Duration| now.saturating_sub(keep).as_nanos() as u64;
    let keep =
        Keep { rows_from_ns: args.keep.map(from), seconds_from_ns: args.keep_seconds.map(from) };
    let done = rollup(&args.place, args.out.as_deref(), keep, args.waits.patience())?;
    for unread in done.iter().flat_map(|one| &one.unread) {
        let _ = writeln!(stderr(), "crosstalk: not used: {unread}");
    }
    if args.json {
        println!("{:#}", json!(done.iter().map(object).collect::<Vec<_>>()));
    } else {
        done.iter().for_each(|one| println!("{}", line(one)));
    }
    Ok(ExitCode::SUCCESS)
}

fn object(one: &RolledUp) -> serde_json::Value {
    json!({
        "node": one.node, "run": one.run, "dataset": one.dataset, "files": one.files, "rows": one.rows, "bytes": one.bytes,
        "second_rows": one.seconds.0, "second_bytes": one.seconds.1,
        "minute_rows": one.minutes.0, "minute_bytes": one.minutes.1,
        "removed": one.removed, "unread": one.unread,
    })
}

fn line(one: &RolledUp) -> String {
    if one.files == 0 && one.removed.is_empty() {
        return format!("{} {} {}: nothing new", one.node, one.run, one.dataset);
    }
    format!(
        "{} {} {}: {} rows in {} bytes are {} seconds in {} and {} minutes in {}; {} files removed",
        one.node,
        one.run,
        one.dataset,
        one.rows,
        one.bytes,
        one.seconds.0,
        one.seconds.1,
        one.minutes.0,
        one.minutes.1,
        one.removed.len()
    )
}
