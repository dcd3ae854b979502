//! What a process cost, from the kernel's own books.
//!
//! A benchmark has nothing to say about a process that is not there: these panic.

use crosstalk_host::{HostRoot, ProcStat};
use std::fs;

/// Processor time so far, in steps of 10 ms.
///
/// # Panics
/// If there is no such process.
#[must_use]
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = ProcStat::of_process(&HostRoot::default(), pid).expect("the process runs");
    stat.cpu_ns().expect("its time is told") as f64 / 1e9
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
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
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
