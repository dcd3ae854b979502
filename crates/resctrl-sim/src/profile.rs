//! The machines that can be simulated.

use std::str::FromStr;
use std::time::Duration;

use crate::Error;

/// How the memory bandwidth limit is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bandwidth {
    /// Intel: percent, in steps.
    Percent {
        /// The lowest limit.
        min: u64,
        /// Limits are rounded up to multiples of this.
        granularity: u64,
    },
    /// AMD: steps of 1/8 GB/s up to 2048, and `SMBA` beside `MB`.
    EighthGigabyte,
}

/// A machine. The three presets are close to real ones; every field may be changed before mounting.
///
/// ```
/// use crosstalk_resctrl_sim::Profile;
/// let mut profile: Profile = "small".parse()?;
/// profile.num_rmids = 8;
/// assert_eq!(profile.l3_domains.len(), 1);
/// # Ok::<(), crosstalk_resctrl_sim::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// What the command line calls it.
    pub name: &'static str,
    /// The ids of the L3 caches; they need not be contiguous.
    pub l3_domains: Vec<u32>,
    /// Bytes of each L3 cache.
    pub l3_bytes: u64,
    /// Ways of each L3 cache.
    pub ways: u32,
    /// The fewest ways of a mask.
    pub min_cbm_bits: u32,
    /// Ways devices use too.
    pub shareable_bits: u64,
    /// Whether masks may have gaps.
    pub sparse_masks: bool,
    /// Control groups, the root included.
    pub num_closids: usize,
    /// RMIDs, that of the root included.
    pub num_rmids: usize,
    /// The bandwidth limit.
    pub bandwidth: Bandwidth,
    /// Code and data have masks of their own; halves the control groups.
    pub cdp: bool,
    /// Sub-NUMA nodes in each L3 cache; 1 is off.
    pub sub_numa: u32,
    /// Assignable bandwidth counters in each domain (ABMC), where there are any.
    pub counters: Option<u64>,
    /// Whether a bandwidth counter says `Unavailable` on the first read of a new group, as AMD's do.
    pub first_read_unavailable: bool,
    /// How often freed RMIDs are looked at; the kernel's pace is one second.
    pub limbo_interval: Duration,
    /// Half the lines of a group that does not run are gone after this, as kernel and devices use the cache too.
    pub drain_half_life: Duration,
    /// Bytes a running thread that misses all the time takes from memory in a nanosecond.
    pub bytes_per_ns: f64,
}

impl Profile {
    /// The names `--profile` takes.
    pub const NAMES: [&str; 3] = ["intel-spr", "amd-genoa", "small"];

    /// Two sockets of an Intel Sapphire Rapids.
    #[must_use]
    pub fn intel_spr() -> Self {
        Self {
            name: "intel-spr",
            l3_domains: vec![0, 1],
            l3_bytes: 105 << 20,
            ways: 15,
            min_cbm_bits: 1,
            shareable_bits: 0x6000,
            sparse_masks: false,
            num_closids: 15,
            num_rmids: 448,
            bandwidth: Bandwidth::Percent { min: 10, granularity: 10 },
            cdp: false,
            sub_numa: 1,
            counters: None,
            first_read_unavailable: false,
            limbo_interval: Duration::from_secs(1),
            drain_half_life: Duration::from_secs(2),
            bytes_per_ns: 10.0,
        }
    }

    /// One socket of an AMD Genoa: twelve caches of 32 MiB.
    #[must_use]
    pub fn amd_genoa() -> Self {
        Self {
            name: "amd-genoa",
            l3_domains: (0..12).collect(),
            l3_bytes: 32 << 20,
            ways: 16,
            shareable_bits: 0,
            sparse_masks: true,
            num_closids: 16,
            num_rmids: 256,
            bandwidth: Bandwidth::EighthGigabyte,
            first_read_unavailable: true,
            ..Self::intel_spr()
        }
    }

    /// One cache of 16 MiB and few RMIDs, for tests and demonstrations.
    #[must_use]
    pub fn small() -> Self {
        Self {
            name: "small",
            l3_domains: vec![0],
            l3_bytes: 16 << 20,
            ways: 8,
            shareable_bits: 0,
            num_closids: 4,
            num_rmids: 32,
            ..Self::intel_spr()
        }
    }

    pub(crate) fn full_mask(&self) -> u64 {
        (1u64 << self.ways) - 1
    }

    pub(crate) fn closids(&self) -> usize {
        if self.cdp { self.num_closids / 2 } else { self.num_closids }
    }

    /// The kernel's default for `max_threshold_occupancy`.
    pub(crate) fn threshold(&self) -> u64 {
        self.l3_bytes / self.num_rmids.max(1) as u64
    }
}

impl FromStr for Profile {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "intel-spr" => Ok(Self::intel_spr()),
            "amd-genoa" => Ok(Self::amd_genoa()),
            "small" => Ok(Self::small()),
            other => Err(Error::UnknownProfile(other.to_owned())),
        }
    }
}
