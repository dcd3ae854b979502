//! What recording costs, beside what others cost, in one run on one machine.
//!
//! `make bench` prints the table and keeps it in docs/benchmarks.md. Times are ratios to the same
//! work alone, interleaved round by round, because machines are noisy. Needs root, and perf,
//! stress-ng and bpftrace.

mod observer;
mod size;
mod steady;
mod storm;

use std::fmt::Write as _;
use std::time::Duration;

/// One line of the table.
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: String,
    pub(crate) target: &'static str,
    pub(crate) met: Option<bool>,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    // `cargo test --benches` must not start a benchmark.
    if !args.iter().any(|arg| arg == "--bench") {
        return;
    }
    let quick = args.iter().any(|arg| arg == "--quick");
    let rounds = if quick { 3 } else { 9 };
    let idle = Duration::from_secs(if quick { 10 } else { 600 });
    let mut figures = Vec::new();
    figures.extend(storm::pipe(rounds));
    figures.extend(storm::stress_switch(if quick { 2 } else { 5 }));
    figures.extend(storm::cpu_bound(rounds * 3));
    figures.extend(size::parquet());
    figures.extend(steady::idle(idle));
    let table = table(&figures);
    println!("{table}");
    if let Some(at) = args.iter().position(|arg| arg == "--write") {
        let path = &args[at + 1];
        std::fs::write(path, page(&table)).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}

fn table(figures: &[Figure]) -> String {
    let mut text = String::from("| what | measured | target | |\n|---|---|---|---|\n");
    for f in figures {
        let met = match f.met {
            Some(true) => "met",
            Some(false) => "missed",
            None => "",
        };
        let _ = writeln!(text, "| {} | {} | {} | {met} |", f.what, f.value, f.target);
    }
    text
}

fn page(table: &str) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo");
    let model = model.lines().find_map(|l| l.strip_prefix("model name\t: ")).unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "# Benchmarks of the recorder\n\n\
         Written by `make bench` on {model}, {cores} cores, Linux {}. Slow-downs are medians of\n\
         ratios to the same work alone in the same round. A machine shared with others is noisy:\n\
         compare lines, not days.\n\n{table}",
        kernel.trim()
    )
}

/// The middle value.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A ratio as a slow-down in percent.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}
