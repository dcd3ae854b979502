use crosstalk_host::Stalled;
use crosstalk_model::Placement;
use std::sync::Arc;

/// What tasks stood still for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// Memory that had to be reclaimed or read back.
    Memory,
    /// A core.
    Cpu,
    /// A disk.
    Io,
}

impl Resource {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Cpu, Self::Io];

    /// The kernel's word, and the column's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Io => "io",
        }
    }
}

/// How long a cgroup's tasks stood still for a resource: a row of the `pressure` data set.
#[derive(Clone, Debug, PartialEq)]
pub struct PressureRow {
    /// Start of the slot in which it was read, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// The time before it that the row tells of.
    pub covers_ns: u64,
    /// The cgroup's inode number; 0 for the node.
    pub cgroup_id: u64,
    /// The cgroup's path; `/` for the node.
    pub cgroup: Arc<str>,
    /// The container and pod it is.
    pub place: Arc<Placement>,
    /// What was wanted.
    pub resource: Resource,
    /// How long it was.
    pub stalled: Stalled,
}

crosstalk_model::dataset! {
    PressureRow: "pressure",
    "one row per cgroup and resource, once a second: how long its tasks stood still for want of it",
    placed |row| row.place,
    by |row| (row.cgroup_id, row.resource, row.slot_start_ns),
    covers_ns [int] "ns" "the time the row tells of, up to its reading" = |row| row.covers_ns;
    cgroup_id [int] "" "inode number of the cgroup; 0 for the node" = |row| row.cgroup_id;
    cgroup [text] "" "path of the cgroup in the v2 hierarchy; / for the node" = |row| &row.cgroup;
    resource [text] "" "memory, cpu or io" = |row| row.resource.name();
    some_ns [int?] "ns" "time in which at least one task stood still" = |row| row.stalled.some_ns;
    full_ns [int?] "ns" "time in which all tasks that were not idle did" = |row| row.stalled.full_ns;
}
