//! What the agent costs while it watches, as a process, by the kernel's own books, at rest and beside built-in loads that
//! wait for each other's cores; what of that are verdicts; and whether it goes on watching while `wrk` asks as fast as it can. Needs root and Debian's wrk.

mod process;

use crosstalk_figure::wrk::Load;
use crosstalk_figure::{Figure, Section, has, is_asked_for};
use process::{Agent, Loads};
use std::error::Error;
use std::time::{Duration, Instant};

const FINE: (&str, &str) = ("CROSSTALK_AGENT_SAMPLING_PERIOD", "1ms");
const NO_VERDICTS: (&str, &str) = ("CROSSTALK_AGENT_VERDICTS_ENABLED", "false");
const WINDOW: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    if !is_asked_for() {
        return Ok(());
    }
    let length = Duration::from_secs(if has("--quick") { 10 } else { 120 });
    let mut section = Section::new("The agent at work");
    let (share, mib) = watch(&[], length)?;
    section.extend([
        Figure::new("default settings: processor time, of one core", format!("{share:.2} %"))
            .against("below 1 %", share < 1.0),
        Figure::new("default settings: largest resident set", format!("{mib:.1} MiB"))
            .against("below 64 MiB", mib < 64.0),
    ]);
    let (without, mib_without) = watch(&[NO_VERDICTS], length)?;
    section.extend([
        Figure::new("without verdicts: processor time, of one core", format!("{without:.2} %")),
        Figure::new("without verdicts: largest resident set", format!("{mib_without:.1} MiB")),
    ]);
    section.extend(beside_loads(length)?);
    let (share, mib) = watch(&[FINE], length)?;
    section.extend([
        Figure::new("sampling at 1 kHz: processor time, of one core", format!("{share:.2} %"))
            .against("below 20 % (200m)", share < 20.0),
        Figure::new("sampling at 1 kHz: largest resident set", format!("{mib:.1} MiB"))
            .against("below 256 MiB", mib < 256.0),
    ]);
    section.extend(under_load(if has("--quick") { WINDOW + 5 } else { 60 })?);
    Ok(section.finish()?)
}

/// Runs an agent for so long; returns its share of one core in per cent and its largest resident set in MiB.
fn watch(environment: &[(&str, &str)], length: Duration) -> Result<(f64, f64), Box<dyn Error>> {
    let agent = Agent::start(environment)?;
    // Starting is not watching: programs are loaded and verified, memory is touched for the first time.
    pause(Duration::from_secs(5));
    let (before, began) = (agent.cpu_seconds(), Instant::now());
    pause(length);
    let used = agent.cpu_seconds() - before;
    let share = used / began.elapsed().as_secs_f64() * 100.0;
    Ok((share, agent.peak_mib()))
}

/// What verdicts cost where there is somebody to judge: with them, and without.
fn beside_loads(length: Duration) -> Result<[Figure; 4], Box<dyn Error>> {
    let loads = Loads::start()?;
    let (share, mib) = watch(&[], length)?;
    let (without, mib_without) = watch(&[NO_VERDICTS], length)?;
    let beside = format!("beside {} loads", loads.count());
    Ok([
        Figure::new(format!("{beside}: processor time, of one core"), format!("{share:.2} %"))
            .against("below 1 %", share < 1.0),
        Figure::new(format!("{beside}: largest resident set"), format!("{mib:.1} MiB"))
            .against("below 64 MiB", mib < 64.0),
        Figure::new(
            format!("{beside}, without verdicts: processor time, of one core"),
            format!("{without:.2} %"),
        ),
        Figure::new(
            format!("{beside}, without verdicts: largest resident set"),
            format!("{mib_without:.1} MiB"),
        ),
    ])
}

/// Samples at 1 kHz while `wrk` asks over four connections as fast as it can.
fn under_load(seconds: u32) -> Result<[Figure; 3], Box<dyn Error>> {
    let agent = Agent::start(&[FINE])?;
    pause(Duration::from_secs(2));
    let lost_before = agent.lost_rows()?;
    let url = format!("http://{}/metrics?window_seconds={WINDOW}", agent.address());
    let load = Load::run(&url, 4, seconds)?;
    let counters = agent.counters(WINDOW)?;
    let lost = agent.lost_rows()? - lost_before;
    // The newest samples are still in the kernel: how old the newest is says how many.
    let due = (f64::from(WINDOW) - counters.newest_seconds) * 1000.0;
    let missing = (due - counters.samples).max(0.0).floor();
    let what = format!("1 kHz under wrk -c4 for {seconds} s");
    Ok([
        Figure::new(
            format!("{what}: answers"),
            format!(
                "{:.0} requests/s, p99 {:.3} ms, {} errors",
                load.requests_per_s, load.p99_ms, load.errors
            ),
        )
        .against("no error", load.errors == 0),
        Figure::new(
            format!("{what}: samples of the last {WINDOW} s"),
            format!("{} there, {missing} missing", counters.samples),
        )
        .against("none missing", missing <= 1.0),
        Figure::new(format!("{what}: slots late or lost"), lost.to_string())
            .against("0", lost == 0.0),
    ])
}

#[allow(clippy::disallowed_methods)] // a known length of time is what is measured
fn pause(length: Duration) {
    std::thread::sleep(length);
}
