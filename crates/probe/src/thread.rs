//! The calling thread: where it runs, how politely, and what it has cost.

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::time::Duration;

/// Runs only when no one else wants the core. Falls back to the highest niceness where the
/// scheduling class is not allowed.
pub(crate) fn be_idle() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: pid 0 is the calling thread and the parameter outlives the call.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) };
    if set == 0 {
        return Ok(());
    }
    // SAFETY: plain numbers; 0 is the calling thread on Linux.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Keeps to these cores.
pub(crate) fn stay_on(cores: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &core in cores.iter().filter(|core| (**core as usize) < CpuSet::MAX_CPU) {
        set.set(core as usize);
    }
    sched_setaffinity(None, &set).map_err(Into::into)
}

/// The core this thread is on right now.
pub(crate) fn core() -> u32 {
    sched_getcpu() as u32
}

/// Processor time this thread has used.
pub(crate) fn cost() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
