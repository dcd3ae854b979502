//! What recording costs, beside what others cost, in one run on one machine.
//!
//! `make bench` prints the table and keeps it in docs/benchmarks.md. Times are ratios to the same
//! work alone, interleaved round by round, because machines are noisy. Needs root, and perf,
//! stress-ng and bpftrace.

mod observer;
mod size;
mod steady;
mod storm;

use crosstalk_figure::{Section, has, is_asked_for};
use std::time::Duration;

fn main() -> std::io::Result<()> {
    if !is_asked_for() {
        return Ok(());
    }
    let quick = has("--quick");
    let rounds = if quick { 5 } else { 9 };
    let seconds = std::env::args().skip_while(|arg| arg != "--idle").nth(1);
    let seconds = seconds.and_then(|text| text.parse().ok());
    let idle = Duration::from_secs(seconds.unwrap_or(if quick { 10 } else { 600 }));
    let mut section = Section::new("The recorder");
    section.extend(storm::pipe(rounds));
    section.extend(storm::stress_switch(rounds));
    section.extend(storm::cpu_bound(rounds * 3));
    section.extend(size::parquet());
    section.extend(steady::idle(idle));
    section.finish()
}

/// A ratio as a slow-down in percent.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}
