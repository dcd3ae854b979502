//! The agent against the usual design (`baseline/app.py`): same data, same machine, same run.
//!
//! 30 s of 1 kHz samples of 50 metrics, sampled on at that rate while `wrk` asks for the last
//! 20 s. Needs Debian's wrk and python3-venv; the baseline is installed below the target folder.
//! `cargo bench -p crosstalk-agent -- --quick` takes seconds instead of a minute.

mod baseline;
mod subject;

use crosstalk_figure::wrk::Load;
use crosstalk_figure::{Figure, Section, has, is_asked_for};
use std::error::Error;
use subject::RESTING_SECONDS;

fn main() -> Result<(), Box<dyn Error>> {
    if !is_asked_for() {
        return Ok(());
    }
    let quick = has("--quick");
    let seconds = if quick { 5 } else { 60 };
    let connections = 4;

    let agent = subject::Subject::start()?;
    let ours = Load::run(&agent.url(), connections, seconds)?;
    let resting = agent.lateness_at_rest();
    let loaded = agent.finish();

    let python = baseline::Baseline::start()?;
    let theirs = Load::run(&python.url(), connections, seconds)?;
    drop(python);

    let what = format!("wrk -t1 -c{connections} -d{seconds}s, 20 s at 1 kHz, 50 metrics");
    let per_thousand = |late: u64, seconds: u32| late as f64 / f64::from(seconds);
    let is_as_at_rest =
        per_thousand(loaded, seconds) <= 1.5 * per_thousand(resting, RESTING_SECONDS);
    let mut section = Section::new("The window's answers");
    for (name, load) in [("agent", &ours), ("FastAPI baseline", &theirs)] {
        section.add(Figure::new(
            format!("{what}: {name}"),
            format!(
                "{:.1} requests/s, p50 {:.3} ms, p99 {:.3} ms, {} errors",
                load.requests_per_s, load.p50_ms, load.p99_ms, load.errors
            ),
        ));
    }
    let faster = ours.requests_per_s / theirs.requests_per_s;
    let sooner = theirs.p99_ms / ours.p99_ms;
    section.extend([
        Figure::new("requests/s, to the baseline's", format!("{faster:.0} x"))
            .against("at least 50 x", faster >= 50.0),
        Figure::new("p99, to the baseline's", format!("1/{sooner:.0}"))
            .against("at most 1/100", sooner >= 100.0),
        Figure::new("reader errors", ours.errors.to_string()).against("0", ours.errors == 0),
        Figure::new(
            "samples late by more than a slot, of 1000: while resting",
            format!("{:.2}", per_thousand(resting, RESTING_SECONDS)),
        ),
        // A virtual machine is not always there: what it loses at rest no sampler can have.
        Figure::new(
            "samples late by more than a slot, of 1000: while asked",
            format!("{:.2}", per_thousand(loaded, seconds)),
        )
        .against("0, or at most 1.5 x rest", loaded == 0 || is_as_at_rest),
    ]);
    Ok(section.finish()?)
}
