//! What this process itself costs.
#![allow(unsafe_code)] // one system call that neither rustix nor the standard library offers

use crate::HostRoot;
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
            // What getrusage tells outlives an exec: it may be of whoever started this program.
            max_rss_bytes: own_peak().unwrap_or(usage.ru_maxrss as u64 * 1024),
        }
    }
}

fn own_peak() -> Option<u64> {
    let status = HostRoot::default().line("/proc/self/status")?;
    peak_bytes(&status)
}

fn peak_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_memory_is_this_programs_own() {
        assert_eq!(peak_bytes("Name:\tx\nVmHWM:\t    9180 kB\nVmRSS:\t 1 kB\n"), Some(9_400_320));
        assert_eq!(peak_bytes("Name:\tx\n"), None);
        // It only grows, also by what other tests do meanwhile.
        assert!(Some(OwnUsage::now().max_rss_bytes) <= own_peak());
    }
}
