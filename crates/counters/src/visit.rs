//! Runs this thread once on every core, so that each has a context switch.
//!
//! Done at the start (every core's state begins) and at the end (every core's last slot is handed
//! over); never in between, because it wakes idle cores.

use std::io;

/// Visits the cores and returns the ones that could not be (a cpuset forbids them).
pub(crate) fn every_core(cores: &[u32]) -> io::Result<Vec<u32>> {
    let before = affinity()?;
    let mut missed = Vec::new();
    for &core in cores {
        let mut only = empty_set();
        // SAFETY: CPU_SET ignores a number beyond the set's size.
        unsafe { libc::CPU_SET(core as usize, &mut only) };
        // Setting the affinity moves a running thread before the call returns.
        if set_affinity(&only).is_err() {
            missed.push(core);
        }
    }
    set_affinity(&before)?;
    Ok(missed)
}

fn empty_set() -> libc::cpu_set_t {
    // SAFETY: a CPU set of all zeros is the empty set.
    unsafe { std::mem::zeroed() }
}

fn affinity() -> io::Result<libc::cpu_set_t> {
    let mut set = empty_set();
    // SAFETY: the kernel fills at most the given size of `set`; 0 is this thread.
    match unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } {
        0 => Ok(set),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_affinity(set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: the set is valid for the given size; 0 is this thread.
    match unsafe { libc::sched_setaffinity(0, size_of_val(set), set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
