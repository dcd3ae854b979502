use crate::{Comm, ProcessId};

/// What one process did on one core in one slot: a row of the `tasks` data set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskReading {
    /// Start of the slot, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// The process.
    pub process: ProcessId,
    /// The name of its leading thread.
    pub comm: Comm,
    /// The core it ran on.
    pub core: u32,
    /// The core's frequency while it ran.
    pub freq_mhz: Option<u32>,
    /// CPU cycles.
    pub cycles: Option<u64>,
    /// Retired instructions.
    pub instructions: Option<u64>,
    /// Last-level-cache misses.
    pub llc_misses: Option<u64>,
    /// Time on the core.
    pub on_cpu_ns: u64,
    /// Time its threads had waited for a core, for waits that ended in this slot.
    pub runq_wait_ns: Option<u64>,
    /// Times one of its threads left the core.
    pub switches: u32,
    /// Of these, the ones where the thread blocked by itself.
    pub voluntary_switches: u32,
    /// Minor and major page faults.
    pub page_faults: u32,
    /// Times a thread arrived from another core.
    pub migrations: Option<u32>,
    /// Whether a counter shared its hardware register with others, so its value is scaled up.
    pub multiplexed: Option<bool>,
    /// The cgroup's id: its inode number in the hierarchy named in the file's metadata.
    pub cgroup_id: u64,
}
