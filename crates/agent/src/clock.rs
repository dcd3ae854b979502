//! The two clocks: one to cut windows by, one to date answers with.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// `CLOCK_MONOTONIC`, which the kernel programs use too.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The monotonic time of an instant of this process.
pub(crate) fn monotonic_ns_of(at: Instant) -> u64 {
    monotonic_ns().saturating_sub(at.elapsed().as_nanos() as u64)
}

/// Processor time of this thread: what work costs, however long others make it wait.
pub(crate) fn thread_cpu() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

pub(crate) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}
