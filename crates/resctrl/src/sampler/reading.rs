//! One row of the `cache` data set.

use std::fmt;
use std::sync::Arc;

use crate::MonValue;
use crate::pool::Scope;

/// What a row's values are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReadingState {
    /// Every value is this scope's own.
    Ok,
    /// The RMID may still hold lines of its former owner, or of a child that has left.
    Stale,
    /// No hardware counter is assigned to a value, which is absent.
    Unassigned,
    /// The hardware had no value at the time; what was not measured is absent.
    Unavailable,
    /// The kernel reported an error, or the file could not be read.
    Error,
}

impl ReadingState {
    /// The state of a row with this value in it: the worst of all decides.
    pub(super) fn with(self, value: MonValue) -> Self {
        self.max(match value {
            MonValue::Count(_) => Self::Ok,
            MonValue::Unassigned => Self::Unassigned,
            MonValue::Unavailable => Self::Unavailable,
            MonValue::Error => Self::Error,
        })
    }
}

impl fmt::Display for ReadingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Stale => "stale",
            Self::Unassigned => "unassigned",
            Self::Unavailable => "unavailable",
            Self::Error => "error",
        })
    }
}

/// Cache occupancy and memory traffic of a process in one L3 domain, read in one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheReading {
    /// The slot the reading belongs to.
    pub slot_start_ns: u64,
    /// When it was really read, in Unix nanoseconds.
    pub read_at_ns: u64,
    /// The process.
    pub pid: u32,
    /// When it started, in Unix nanoseconds.
    pub process_start_ns: u64,
    /// Its name.
    pub comm: Arc<str>,
    /// The L3 cache.
    pub l3_domain: u32,
    /// Bytes of that cache held.
    pub llc_occupancy_bytes: Option<u64>,
    /// Bytes from and to memory since the last reading of the same group that has them; absent at the first, and where
    /// time was short.
    pub mbm_total_bytes: Option<u64>,
    /// The part of it on the own socket.
    pub mbm_local_bytes: Option<u64>,
    /// What the values cover.
    pub scope: Scope,
    /// What they are worth.
    pub state: ReadingState,
    /// The group that was read. Rows of one group, domain and `read_at_ns` are one value told for several processes:
    /// sums over processes must count it once.
    pub group: u32,
}
