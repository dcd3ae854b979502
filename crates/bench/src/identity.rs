//! Names by which what a driver made is found again, also by another driver after a kill -9.

use crosstalk_host::{HostRoot, ProcStat};
use std::fmt;
use std::str::FromStr;

/// Everything made on the host begins so.
pub const PREFIX: &str = "crosstalk-bench-";

/// A driver: its process, which no later one is mistaken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    pid: u32,
    /// When it started, in ticks of 10 ms since boot.
    started: u64,
}

impl Driver {
    /// This process.
    pub fn own(host: &HostRoot) -> Self {
        let pid = std::process::id();
        Self { pid, started: started(host, pid).unwrap_or(0) }
    }

    /// Whether it is still there.
    pub fn lives(self, host: &HostRoot) -> bool {
        started(host, self.pid) == Some(self.started)
    }

    /// What a cgroup, resctrl group or container of it is called.
    pub fn name(self, round: u32, container: &str) -> String {
        format!("{PREFIX}{self}-{round}-{container}")
    }

    /// The driver that made what has this name; `None` when none did.
    pub fn of(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
        format!("{}-{}", parts.next()?, parts.next()?).parse().ok()
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.started)
    }
}

impl FromStr for Driver {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (pid, started) = text.split_once('-').ok_or(())?;
        Ok(Self { pid: pid.parse().map_err(drop)?, started: started.parse().map_err(drop)? })
    }
}

fn started(host: &HostRoot, pid: u32) -> Option<u64> {
    Some(ProcStat::of_process(host, pid)?.start_boottime_ns()? / 10_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_driver_and_one_that_is_gone_is_known_to_be() {
        let host = HostRoot::default();
        let own = Driver::own(&host);
        assert_eq!(Driver::of(&own.name(3, "my-victim")), Some(own));
        assert!(own.lives(&host));
        assert!(!Driver { started: own.started + 1, ..own }.lives(&host), "the pid was used again");
        assert_eq!(Driver::of("docker"), None);
        assert_eq!(Driver::of("crosstalk-bench-x-1"), None);
    }
}
