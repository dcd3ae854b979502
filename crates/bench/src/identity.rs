//! Names by which what a driver made is found again, also by another driver after a kill -9.

use crosstalk_host::{HostRoot, Kernel, ProcStat};
use std::fmt;
use std::str::FromStr;

/// Everything made on the host begins so.
pub const PREFIX: &str = "crosstalk-bench-";

/// A driver: its process, which no later one is mistaken for, nor one of another machine that asks the same engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    pid: u32,
    /// When it started, in ticks of 10 ms since boot.
    started: u64,
    /// Absent where the machine does not say, and in names that earlier versions gave.
    home: Option<Home>,
}

/// Where a pid and a start time say which process is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Home {
    /// The beginning of the boot's id.
    boot: u32,
    /// The PID namespace.
    pids: u32,
}

/// What is known of a driver here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is there.
    Lives,
    /// It is not.
    Gone,
    /// It is of another machine, boot or PID namespace: it cannot be seen from here.
    Elsewhere,
}

/// Whose leavings are taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whose {
    /// Those of drivers that are known to be gone.
    #[default]
    Gone,
    /// Those of drivers that cannot be seen from here, too.
    GoneAndElsewhere,
}

impl Driver {
    /// This process.
    pub fn own(host: &HostRoot) -> Self {
        let pid = std::process::id();
        Self { pid, started: started(host, pid).unwrap_or(0), home: Home::own(host) }
    }

    /// Whether it is still there.
    pub fn standing(self, host: &HostRoot) -> Standing {
        if self.home.is_none() || self.home != Home::own(host) {
            return Standing::Elsewhere;
        }
        match started(host, self.pid) == Some(self.started) {
            true => Standing::Lives,
            false => Standing::Gone,
        }
    }

    /// Whether it ran before this machine was started, if it was one of this machine.
    pub(crate) fn is_of_another_boot(self, host: &HostRoot) -> bool {
        let boot = |home: Option<Home>| home.map(|home| home.boot);
        boot(self.home).is_some() && boot(self.home) != boot(Home::own(host))
    }

    /// What a cgroup, resctrl group or container of it is called.
    pub fn name(self, round: u32, container: &str) -> String {
        format!("{PREFIX}{self}-{round}-{container}")
    }

    /// The driver that made what has this name; `None` when none did.
    pub fn of(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(4, '-');
        let (pid, started) = (parts.next()?, parts.next()?);
        let driver: Self = format!("{pid}-{started}").parse().ok()?;
        let home = parts.next().and_then(|part| part.parse().ok());
        Some(Self { home, ..driver })
    }
}

impl Home {
    fn own(host: &HostRoot) -> Option<Self> {
        let boot = Kernel::read(host).boot_id?;
        let boot = u32::from_str_radix(boot.get(..8)?, 16).ok()?;
        Some(Self { boot, pids: u32::try_from(Kernel::pid_namespace(host)?).ok()? })
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.started)?;
        self.home.map_or(Ok(()), |home| write!(f, "-{:08x}{:08x}", home.boot, home.pids))
    }
}

impl FromStr for Driver {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, '-');
        let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok()).ok_or(());
        let (pid, started) = (u32::try_from(number()?).map_err(drop)?, number()?);
        let home = parts.next().map(str::parse).transpose()?;
        Ok(Self { pid, started, home })
    }
}

impl FromStr for Home {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        // A round has fewer digits, by which names of earlier versions are told from these.
        if text.len() != 16 || !text.is_ascii() {
            return Err(());
        }
        let (boot, pids) = text.split_at(8);
        let number = |text: &str| u32::from_str_radix(text, 16).map_err(drop);
        Ok(Self { boot: number(boot)?, pids: number(pids)? })
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
        assert!(own.home.is_some(), "Linux says which boot and namespace this is");
        assert_eq!(Driver::of(&own.name(3, "my-victim")), Some(own));
        assert_eq!(own.to_string().parse(), Ok(own));
        assert_eq!(own.standing(&host), Standing::Lives);
        let later = Driver { started: own.started + 1, ..own };
        assert_eq!(later.standing(&host), Standing::Gone, "the pid was used again");
        assert_eq!(Driver::of("docker"), None);
        assert_eq!(Driver::of("crosstalk-bench-x-1"), None);
    }

    #[test]
    fn who_is_of_another_machine_boot_or_namespace_is_not_taken_for_gone() {
        let host = HostRoot::default();
        let own = Driver::own(&host);
        let home = own.home.unwrap();
        let of = |home: Option<Home>| Driver { pid: u32::MAX, home, ..own };
        assert_eq!(of(Some(home)).standing(&host), Standing::Gone);
        let (boot, pids) = (home.boot ^ 1, home.pids ^ 1);
        for (elsewhere, rebooted) in [
            (Some(Home { boot, ..home }), true),
            (Some(Home { pids, ..home }), false),
            (None, false),
        ] {
            let driver = of(elsewhere);
            assert_eq!(driver.standing(&host), Standing::Elsewhere, "{driver}");
            assert_eq!(driver.is_of_another_boot(&host), rebooted, "{driver}");
            assert_eq!(Driver::of(&driver.name(7, "1-2")), Some(driver), "{driver}");
        }
        // As an earlier version named them.
        let earlier = Driver::of("crosstalk-bench-12-34-0-12").unwrap();
        assert_eq!((earlier.to_string(), earlier.home), ("12-34".to_owned(), None));
        for wrong in ["1", "1-x", "1-2-3", "1-2-0123456789abcdeg", "1-2-é23456789abcdef"] {
            assert_eq!(wrong.parse::<Driver>(), Err(()), "{wrong}");
        }
        let nobody = Driver { home: None, ..own };
        assert_eq!(nobody.standing(&HostRoot::new("/nowhere")), Standing::Elsewhere);
    }
}
