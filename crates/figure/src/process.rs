//! What a process cost, from the kernel's own books.
//!
//! A benchmark has nothing to say about a process that is not there: these panic.

use std::fs;

/// Processor time so far, in steps of 10 ms.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = read(pid, "stat");
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    // utime and stime are fields 14 and 15 of proc(5); the state, field 3, is the first after the name.
    let ticks = |field: usize| fields[field - 3].parse::<f64>().expect("a number");
    (ticks(14) + ticks(15)) / 100.0
}

/// Resident memory now.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn resident_bytes(pid: u32) -> u64 {
    memory(pid, "VmRSS:")
}

/// The most memory that was ever resident.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn peak_bytes(pid: u32) -> u64 {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, name: &str) -> u64 {
    let status = read(pid, "status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
}

fn read(pid: u32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{file}")).expect("the process runs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_time() {
        let me = std::process::id();
        assert!(resident_bytes(me) > 0 && peak_bytes(me) >= resident_bytes(me) / 2);
        assert!(cpu_seconds(me) >= 0.0);
    }
}
