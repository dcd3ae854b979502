//! What this process itself costs.
#![allow(unsafe_code)] // one system call that neither rustix nor the standard library offers

use std::time::Duration;

/// CPU time and memory of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnUsage {
    /// User and system time.
    pub cpu: Duration,
    /// The largest resident set so far, bytes.
    pub max_rss_bytes: u64,
}

impl OwnUsage {
    /// What was used since `before`; the largest resident set has no since.
    pub fn since(self, before: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(before.cpu), ..self }
    }

    /// Asks the kernel.
    pub fn now() -> Self {
        // SAFETY: an all-zero rusage is valid, and the kernel fills it.
        let usage = unsafe {
            let mut usage = std::mem::zeroed::<libc::rusage>();
            libc::getrusage(libc::RUSAGE_SELF, &mut usage);
            usage
        };
        let time = |t: libc::timeval| {
            Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
        };
        Self {
            cpu: time(usage.ru_utime) + time(usage.ru_stime),
            max_rss_bytes: usage.ru_maxrss as u64 * 1024,
        }
    }
}
