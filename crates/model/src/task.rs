use crate::{Comm, Placement, ProcessId};
use std::sync::Arc;

/// What one process did on one core in one slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskReading {
    /// Start of the slot, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// The process.
    pub process: ProcessId,
    /// The number of its parent, in the first second of its life: what it inherited matters until whoever
    /// places it has heard of it.
    pub parent: Option<u32>,
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

/// A reading and where its process runs: a row of the `tasks` data set.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRow {
    /// Start of the slot, Unix nanoseconds: that of the reading.
    pub slot_start_ns: u64,
    /// What was measured.
    pub task: TaskReading,
    /// Where the process runs.
    pub place: Arc<Placement>,
}

impl TaskRow {
    /// A reading of a process that runs there.
    pub fn new(task: TaskReading, place: Arc<Placement>) -> Self {
        Self { slot_start_ns: task.slot_start_ns, task, place }
    }
}

crate::dataset! {
    TaskRow: "tasks",
    "one row per process, core and slot: time, waits, switches, faults, counters",
    placed |row| row.place,
    by |row| (row.task.process, row.slot_start_ns, row.task.core),
    pid [int] "" "process id (thread group); 0 only in the [other] row" = |row| row.task.process.pid;
    process_start_ns [int] "ns" "start of the process, Unix time in steps of 10 ms"
        = |row| row.task.process.start_ns;
    comm [text] "" "name of the process's leading thread" = |row| row.task.comm.to_str();
    core [int] "" "logical CPU" = |row| row.task.core;
    freq_mhz [int?] "MHz" "core frequency while the process ran" = |row| row.task.freq_mhz;
    cycles [int?] "" "CPU cycles" = |row| row.task.cycles;
    instructions [int?] "" "retired instructions" = |row| row.task.instructions;
    llc_misses [int?] "" "last-level-cache misses" = |row| row.task.llc_misses;
    multiplexed [flag?] "" "a counter was scaled because it shared its register"
        = |row| row.task.multiplexed;
    on_cpu_ns [int] "ns" "time on the core" = |row| row.task.on_cpu_ns;
    runq_wait_ns [int?] "ns" "time waited for a core, for waits that ended in this slot"
        = |row| row.task.runq_wait_ns;
    switches [int] "" "context switches away from the process's threads" = |row| row.task.switches;
    voluntary_switches [int] "" "of these, because the thread blocked"
        = |row| row.task.voluntary_switches;
    migrations [int?] "" "arrivals of a thread from another core" = |row| row.task.migrations;
    page_faults [int] "" "minor and major page faults" = |row| row.task.page_faults;
    cgroup_id [int] "" "inode number of the cgroup" = |row| row.task.cgroup_id;
}
