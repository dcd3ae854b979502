//! What every benchmark prints: a table of figures, and a page around it.

use std::fmt::Write as _;

/// One line of the table.
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) value: String,
    pub(crate) target: &'static str,
    pub(crate) met: Option<bool>,
}

pub(crate) fn table(figures: &[Figure]) -> String {
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

pub(crate) fn page(of: &str, table: &str) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo");
    let model = model.lines().find_map(|l| l.strip_prefix("model name\t: ")).unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "# Benchmarks of {of}\n\n\
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
