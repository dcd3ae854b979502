use crate::{Comm, Placement, ProcessId};
use std::sync::Arc;

/// What the values of a [`CacheReading`] cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheScope {
    /// The process alone.
    Process,
    /// The process and children of it that ran before they had a group, and so an RMID, of their own.
    WithChildren,
    /// The processes of its container that have no RMID of their own.
    Container,
    /// The process and others that have none.
    Shared,
}

impl CacheScope {
    /// As it stands in the column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::WithChildren => "with_children",
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
    /// The RMID may still hold lines of its former owner, or of a child that has left.
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The container and pod the process is in.
    pub place: Arc<Placement>,
}

crate::dataset! {
    CacheReading: "cache", "one row per process, L3 cache and slot: occupancy and memory traffic",
    placed |row| row.place,
    by |row| (row.process, row.l3_domain, row.slot_start_ns),
    read_at_ns [int] "ns" "when the values were really read, Unix time" = |row| row.read_at_ns;
    pid [int] "" "process id (thread group)" = |row| row.process.pid;
    process_start_ns [int] "ns" "start of the process, Unix time in steps of 10 ms"
        = |row| row.process.start_ns;
    comm [text] "" "name of the process's leading thread" = |row| row.comm.to_str();
    l3_domain [int] "" "id of the L3 cache" = |row| row.l3_domain;
    llc_occupancy_bytes [int?] "bytes" "bytes of that cache held when read"
        = |row| row.llc_occupancy_bytes;
    mbm_total_bytes [int?] "bytes" "to and from memory since the group's last row that has it"
        = |row| row.mbm_total_bytes;
    mbm_local_bytes [int?] "bytes" "of these, to and from the memory of the same socket"
        = |row| row.mbm_local_bytes;
    scope [text] "" "what the values cover: process, container or shared" = |row| row.scope.name();
    state [text] "" "what they are worth: ok, stale, unassigned, unavailable or error"
        = |row| row.state.name();
    group_id [int] "" "rows of one group, cache and read_at_ns tell one value" = |row| row.group_id;
}
