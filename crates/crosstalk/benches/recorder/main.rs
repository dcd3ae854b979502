//! What recording costs, beside what others cost, in one run on one machine.
//!
//! `make bench` prints the table and keeps it in docs/benchmarks.md. Times are ratios to the same
//! work alone, interleaved round by round, because machines are noisy. Needs root, and perf,
//! stress-ng and bpftrace.

#[path = "../figure/mod.rs"]
mod figure;
mod observer;
mod size;
mod steady;
mod storm;

pub(crate) use figure::{Figure, median};
use figure::{page, table};
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    // `cargo test --benches` must not start a benchmark.
    if !args.iter().any(|arg| arg == "--bench") {
        return;
    }
    let quick = args.iter().any(|arg| arg == "--quick");
    let rounds = if quick { 3 } else { 9 };
    let given = |name: &str| args.iter().skip_while(|arg| *arg != name).nth(1);
    let seconds = given("--idle").and_then(|text| text.parse().ok());
    let idle = Duration::from_secs(seconds.unwrap_or(if quick { 10 } else { 600 }));
    let mut figures = Vec::new();
    figures.extend(storm::pipe(rounds));
    figures.extend(storm::stress_switch(if quick { 2 } else { 5 }));
    figures.extend(storm::cpu_bound(rounds * 3));
    figures.extend(size::parquet());
    figures.extend(steady::idle(idle));
    let table = table(&figures);
    println!("{table}");
    if let Some(path) = given("--write") {
        std::fs::write(path, page("the recorder", &table))
            .unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}

/// A ratio as a slow-down in percent.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}
