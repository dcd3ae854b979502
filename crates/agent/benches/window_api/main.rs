//! The agent against the usual design (`baseline/app.py`): same data, same machine, same run.
//!
//! 30 s of 1 kHz samples of 50 metrics, sampled on at that rate while `wrk` asks for the last
//! 20 s. Needs Debian's wrk and python3-venv; the baseline is installed below the target folder.
//! `cargo bench -p crosstalk-agent -- --quick` takes seconds instead of a minute.

mod baseline;
mod load;
mod subject;

use load::Load;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let seconds = if quick { 5 } else { 60 };
    let connections = 4;

    let agent = subject::Subject::start()?;
    let ours = Load::run(&agent.url(), connections, seconds)?;
    let resting = agent.lateness_at_rest();
    let loaded = agent.finish();

    let python = baseline::Baseline::start()?;
    let theirs = Load::run(&python.url(), connections, seconds)?;
    drop(python);

    println!(
        "wrk -t1 -c{connections} -d{seconds}s, window of 20 s at 1 kHz, 50 metrics, 8 statistics"
    );
    println!("{:<22} {:>12} {:>12} {:>12} {:>8}", "", "requests/s", "p50", "p99", "errors");
    for (name, load) in [("agent", &ours), ("FastAPI baseline", &theirs)] {
        println!(
            "{name:<22} {:>12.1} {:>9.3} ms {:>9.3} ms {:>8}",
            load.requests_per_s, load.p50_ms, load.p99_ms, load.errors
        );
    }
    println!("requests/s ratio: {:.0} x (target 50)", ours.requests_per_s / theirs.requests_per_s);
    println!("p99 ratio: 1/{:.0} (target 1/100)", theirs.p99_ms / ours.p99_ms);
    println!("samples late by more than a slot: {resting} before the load, {loaded} during it");
    Ok(())
}
