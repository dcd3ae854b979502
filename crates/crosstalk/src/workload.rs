//! `crosstalk workload`: known victims and culprits.

use anyhow::{Context, Result};
use crosstalk_settings::{parse_bytes, parse_duration};
use crosstalk_workload::{Kind, Load, Schedule};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// stream (takes bandwidth), chase (suffers), compute (takes a core only) or thrash (takes cache)
    kind: Kind,
    /// Memory it works on
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = parse_bytes)]
    bytes: u64,
    /// The only core it runs on
    #[arg(long, value_name = "CORE")]
    core: Option<u32>,
    /// Pause after each piece of work: a victim that sleeps shows its cost without hardware counters
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    rest: Option<Duration>,
    /// On and off in turns of random length, fixed by this seed [default: on throughout]
    #[arg(long, value_name = "SEED")]
    phases: Option<u64>,
    /// Stop after this long [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk workload chase --core 0 --rest 3ms --duration 60s           a victim
  crosstalk workload stream --core 1 --phases 7 --duration 60s          its noisy neighbour, on and off

Prints one JSON line when a phase begins and one each second with the pieces done: the truth about who ran when and
how fast, to hold a verdict against.";

/// Bounds of a phase.
const PHASE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot handle signals")?;
    }
    let load = Load {
        kind: args.kind,
        bytes: usize::try_from(args.bytes).context("more than this machine can address")?,
        rest: args.rest.unwrap_or_default(),
        schedule: args.phases.map_or(Schedule::steady(), |s| Schedule::random(s, PHASE.0, PHASE.1)),
        core: args.core,
        duration: args.duration,
    };
    load.run(&stop, &mut std::io::stdout().lock()).context("the workload cannot run")?;
    Ok(ExitCode::SUCCESS)
}
