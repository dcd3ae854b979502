use crate::{Comm, ProcessId};

/// What the values of a [`CacheReading`] cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheScope {
    /// The process alone.
    Process,
    /// The processes of its container that have no hardware identifier of their own.
    Container,
    /// The process and others that have none.
    Shared,
}

impl CacheScope {
    /// As it stands in the column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Container => "container",
            Self::Shared => "shared",
        }
    }
}

/// What the values of a [`CacheReading`] are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheState {
    /// Every value is that of the row's scope.
    Ok,
    /// The hardware identifier may still hold lines of its former owner.
    Stale,
    /// No hardware counter is assigned to a value, which is absent.
    Unassigned,
    /// The hardware had no value; what was not measured is absent.
    Unavailable,
    /// The kernel reported an error, or the file could not be read.
    Error,
}

impl CacheState {
    /// As it stands in the column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Stale => "stale",
            Self::Unassigned => "unassigned",
            Self::Unavailable => "unavailable",
            Self::Error => "error",
        }
    }
}

/// What a process holds of one L3 cache and moves through it: a row of the `cache` data set.
///
/// ```
/// use crosstalk_model::{CacheScope, CacheState};
///
/// assert_eq!(CacheScope::Container.name(), "container");
/// assert_eq!(CacheState::Unavailable.name(), "unavailable");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheReading {
    /// Start of the slot at whose end the values were read, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// When they were really read, Unix nanoseconds.
    pub read_at_ns: u64,
    /// The process.
    pub process: ProcessId,
    /// The name of its leading thread.
    pub comm: Comm,
    /// The id of the cache.
    pub l3_domain: u32,
    /// Bytes of the cache held.
    pub llc_occupancy_bytes: Option<u64>,
    /// Bytes to and from memory since the last row of the same group and cache that has them.
    pub mbm_total_bytes: Option<u64>,
    /// Of these, to and from the memory of the same socket.
    pub mbm_local_bytes: Option<u64>,
    /// What the values cover.
    pub scope: CacheScope,
    /// What they are worth.
    pub state: CacheState,
    /// The group that was read. Rows of one group, cache and `read_at_ns` tell one value for several
    /// processes: a sum over processes must count it once.
    pub group_id: u32,
}
