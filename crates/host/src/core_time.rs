use crate::process::TICK_NS;
use crate::{HostError, HostRoot};

/// What `/proc/stat` says of one core since the machine started, in ticks of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTime {
    /// The core.
    pub core: u32,
    /// Time something ran on it, stolen time included.
    pub busy_ns: u64,
    /// Time nothing did.
    pub idle_ns: u64,
    /// Time it wanted to run and the hypervisor ran somebody else; absent on kernels that do not count it.
    pub stolen_ns: Option<u64>,
}

impl CoreTime {
    /// Where the kernel says it.
    pub const FILE: &str = "/proc/stat";

    /// Every core now; none where the kernel does not say.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn read(host: &HostRoot) -> Result<Vec<Self>, HostError> {
        Ok(host.read(Self::FILE)?.map(|text| Self::parse(&text)).unwrap_or_default())
    }

    /// Every core of a `/proc/stat`; lines that are none of a core are passed over.
    ///
    /// ```
    /// use crosstalk_host::CoreTime;
    ///
    /// let cores = CoreTime::parse("cpu  9 0 9 9 9 0 0 9\ncpu3 1 0 2 7 1 0 0 4 0 0\nintr 5\n");
    /// assert_eq!(cores.len(), 1);
    /// assert_eq!((cores[0].core, cores[0].stolen_ns), (3, Some(40_000_000)));
    /// assert_eq!((cores[0].busy_ns, cores[0].idle_ns), (70_000_000, 80_000_000));
    /// ```
    pub fn parse(stat: &str) -> Vec<Self> {
        let cores = stat.lines().take_while(|line| line.starts_with("cpu"));
        cores.filter_map(Self::of_line).collect()
    }

    /// All cores together, as a core 0.
    pub fn of_machine(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        Self::of_times(0, line)
    }

    fn of_line(line: &str) -> Option<Self> {
        // The line of all cores together has a space where theirs have a number.
        let (core, times) = line.strip_prefix("cpu")?.split_once(' ')?;
        Self::of_times(core.parse().ok()?, times)
    }

    /// `user nice system idle iowait irq softirq steal ...`; guest time is part of user.
    fn of_times(core: u32, times: &str) -> Option<Self> {
        let ns = |word: &str| word.parse::<u64>().ok()?.checked_mul(TICK_NS);
        let times: Vec<u64> = times.split_ascii_whitespace().take(8).map_while(ns).collect();
        let [user, nice, system, idle, iowait, rest @ ..] = times.as_slice() else { return None };
        Some(Self {
            core,
            busy_ns: user + nice + system + rest.iter().sum::<u64>(),
            idle_ns: idle + iowait,
            stolen_ns: rest.get(2).copied(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_kernel_says_nothing_of_stolen_time_and_a_torn_line_nothing_at_all() {
        let cores =
            CoreTime::parse("cpu0 1 2 3 4 5\ncpu1 1 2\ncpuX 1 2 3 4 5\nctxt 7\ncpu9 1 1 1 1 1");
        assert_eq!(cores.len(), 1);
        assert_eq!((cores[0].core, cores[0].stolen_ns), (0, None));
    }
}
