//! What this process itself costs.

use super::text::{Kind, Page};

/// Kernel clock ticks per second, fixed at 100 for user space on every Linux architecture.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn write(page: &mut Page) {
    if let Some(seconds) = cpu_seconds() {
        page.family("process_cpu_seconds_total", "CPU time of this process", Kind::Counter);
        page.sample("process_cpu_seconds_total", &[], seconds);
    }
    if let Some(bytes) = resident_bytes() {
        page.gauge("process_resident_memory_bytes", "Resident memory of this process", bytes);
    }
}

fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command may hold spaces; fields are counted after its closing bracket. 14 and 15 are user and system time.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    Some((ticks(14)? + ticks(15)?) / TICKS_PER_SECOND)
}

fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}
