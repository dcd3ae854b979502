//! `crosstalk workload`: known victims and culprits.

use crate::exit::BadArgument;
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
    /// stream (takes bandwidth), thrash (takes cache), compute (takes a core only); chase and serve (suffer)
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
    /// Share of the time it is on in which it works, such as 0.5
    #[arg(long, value_name = "SHARE", default_value = "1", value_parser = parse_share)]
    duty: f64,
    /// Requests that arrive in a second, of serve
    #[arg(long, value_name = "PER_SECOND", default_value = "100", value_parser = parse_rate)]
    rate: f64,
    /// Seed of when requests arrive, of serve
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    arrivals: u64,
    /// On and off in turns of random length, fixed by this seed [default: on throughout]
    #[arg(long, value_name = "SEED")]
    phases: Option<u64>,
    /// The shortest turn on or off
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_duration)]
    shortest: Duration,
    /// The longest turn on or off
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    longest: Duration,
    /// Stop after this long [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// How often it says what it got done
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    every: Duration,
}

const AFTER_HELP: &str = "\
Examples:
  crosstalk workload chase --core 0 --rest 3ms --duration 60s           a victim
  crosstalk workload stream --core 1 --phases 7 --duration 60s          its noisy neighbour, on and off
  crosstalk workload serve --core 0 --rate 200 --every 5s               a victim with requests and their latency
  crosstalk workload compute --duty 0.3                                 a third of a core, and nothing else

Prints one JSON line when a phase begins and one each second with the pieces done (of serve, with the quantiles of its
latency since the last): the truth about who ran when and how fast, to hold a verdict against.";

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| format!("\"{text}\" is not a share above 0 and up to 1, such as 0.5"))
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1e6);
    rate.ok_or_else(|| format!("\"{text}\" is not a rate above 0 and up to a million, such as 100"))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot handle signals")?;
    }
    if args.longest < args.shortest {
        return Err(BadArgument("--longest is shorter than --shortest".to_owned()).into());
    }
    // So that tables and verdicts tell one load from another.
    let _ = crosstalk_host::thread::set_name(args.kind.name());
    let turns = |seed| Schedule::random(seed, args.shortest, args.longest);
    let load = Load {
        kind: args.kind,
        bytes: usize::try_from(args.bytes).context("more than this machine can address")?,
        rest: args.rest.unwrap_or_default(),
        duty: args.duty,
        rate: args.rate,
        schedule: args.phases.map_or(Schedule::steady(), turns),
        arrivals: args.arrivals,
        core: args.core,
        duration: args.duration,
        every: args.every,
    };
    load.run(&stop, &mut std::io::stdout().lock()).context("the workload cannot run")?;
    Ok(ExitCode::SUCCESS)
}
