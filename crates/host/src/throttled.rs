use crate::control_group::value_of;
use std::fs;
use std::path::Path;

/// How often and how long a cgroup stood still because it was over its own quota, as `cpu.stat` adds it up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Periods in which it wanted to run.
    pub periods: u64,
    /// Of these, those in which it was stopped.
    pub throttled_periods: u64,
    /// Time it was stopped, summed over cores.
    pub throttled_ns: u64,
}

impl Throttled {
    /// What the quota of the cgroup in this folder, of [`crate::CgroupTree::quotas`], did.
    pub fn of_cgroup(folder: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(folder.join("cpu.stat")).ok()?)
    }

    /// Reads a `cpu.stat` of either hierarchy: `throttled_usec` in v2, `throttled_time` in ns in v1. `None` for a cgroup
    /// that never had a quota, or whose kernel has none to give.
    ///
    /// ```
    /// use crosstalk_host::Throttled;
    ///
    /// let v2 = Throttled::parse("usage_usec 9\nnr_periods 4\nnr_throttled 3\nthrottled_usec 250\n").unwrap();
    /// assert_eq!((v2.periods, v2.throttled_periods, v2.throttled_ns), (4, 3, 250_000));
    /// assert_eq!(Throttled::parse("nr_periods 4\nnr_throttled 3\nthrottled_time 250000\n"), Some(v2));
    /// assert_eq!(Throttled::parse("nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| value_of(text, key);
        let periods = value("nr_periods").filter(|&periods| periods > 0)?;
        let in_us = || value("throttled_usec")?.checked_mul(1_000);
        let throttled_ns = in_us().or_else(|| value("throttled_time"))?;
        Some(Self { periods, throttled_periods: value("nr_throttled")?, throttled_ns })
    }

    /// What was added since `before`; `None` if a sum went back, as it does in a cgroup made anew.
    pub fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            periods: self.periods.checked_sub(before.periods)?,
            throttled_periods: self.throttled_periods.checked_sub(before.throttled_periods)?,
            throttled_ns: self.throttled_ns.checked_sub(before.throttled_ns)?,
        })
    }
}
