/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An unsigned 64-bit number.
    U64,
    /// An unsigned 32-bit number.
    U32,
    /// A 64-bit floating-point number.
    F64,
    /// True or false.
    Bool,
    /// Text.
    Text,
}

/// One column of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, the same in CSV, Parquet and SQL.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a value may be absent.
    pub nullable: bool,
    /// What it means, with its unit.
    pub doc: &'static str,
}

/// A data set of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dataset {
    /// One row per process, core and slot.
    Tasks,
    /// One row per core and slot: the coverage.
    Slots,
    /// One row per process, L3 cache and slot, on machines that monitor their cache.
    Cache,
    /// One row per burst of the memory probe.
    Probe,
}

const fn must(name: &'static str, kind: Kind, doc: &'static str) -> Column {
    Column { name, kind, nullable: false, doc }
}

const fn may(name: &'static str, kind: Kind, doc: &'static str) -> Column {
    Column { name, kind, nullable: true, doc }
}

const TASKS: &[Column] = &[
    must("slot_start_ns", Kind::U64, "start of the slot, Unix ns, a multiple of the slot length"),
    must("pid", Kind::U32, "process id (thread group); 0 only in the [other] row"),
    must("process_start_ns", Kind::U64, "start of the process, Unix ns in steps of 10 ms"),
    must("comm", Kind::Text, "name of the process's leading thread"),
    must("core", Kind::U32, "logical CPU"),
    may("freq_mhz", Kind::U32, "core frequency while the process ran, MHz"),
    may("cycles", Kind::U64, "CPU cycles"),
    may("instructions", Kind::U64, "retired instructions"),
    may("llc_misses", Kind::U64, "last-level-cache misses"),
    must("on_cpu_ns", Kind::U64, "time on the core, ns"),
    may("runq_wait_ns", Kind::U64, "time waited for a core, ns, for waits that ended in this slot"),
    must("switches", Kind::U32, "context switches away from the process's threads"),
    must("voluntary_switches", Kind::U32, "of these, because the thread blocked"),
    must("page_faults", Kind::U32, "minor and major page faults"),
    must("cgroup_id", Kind::U64, "inode number of the cgroup"),
    may("container_id", Kind::Text, "id of the container"),
    may("pod_uid", Kind::Text, "UID of the Kubernetes pod"),
    may("pod_namespace", Kind::Text, "namespace of the pod"),
    may("pod_name", Kind::Text, "name of the pod"),
    may("migrations", Kind::U32, "arrivals of a thread from another core"),
    may("multiplexed", Kind::Bool, "a counter was scaled because it shared its register"),
];

const SLOTS: &[Column] = &[
    must("slot_start_ns", Kind::U64, "start of the slot, Unix ns, a multiple of the slot length"),
    must("core", Kind::U32, "logical CPU"),
    may("idle_ns", Kind::U64, "idle time, ns; absent when the slot was lost"),
    must("events", Kind::U32, "scheduler events and ticks summed into the slot"),
    must("lost", Kind::U32, "rows of tasks measured and then lost"),
    may("tick_late_ns", Kind::U64, "lateness of the tick that closed the slot, ns"),
];

const CACHE: &[Column] = &[
    must("slot_start_ns", Kind::U64, "start of the slot, Unix ns, a multiple of the slot length"),
    must("read_at_ns", Kind::U64, "when the values were really read, Unix ns"),
    must("pid", Kind::U32, "process id (thread group)"),
    must("process_start_ns", Kind::U64, "start of the process, Unix ns in steps of 10 ms"),
    must("comm", Kind::Text, "name of the process's leading thread"),
    must("l3_domain", Kind::U32, "id of the L3 cache"),
    may("llc_occupancy_bytes", Kind::U64, "bytes of that cache held when read"),
    may(
        "mbm_total_bytes",
        Kind::U64,
        "bytes to and from memory since the group's last row that has it",
    ),
    may("mbm_local_bytes", Kind::U64, "of these, to and from the memory of the same socket"),
    must("scope", Kind::Text, "what the values cover: process, container or shared"),
    must("state", Kind::Text, "what they are worth: ok, stale, unassigned, unavailable or error"),
    must("group_id", Kind::U32, "rows of one group, cache and read_at_ns tell one value"),
];

const PROBE: &[Column] = &[
    must("slot_start_ns", Kind::U64, "start of the slot in which the burst ended, Unix ns"),
    may("core", Kind::U32, "logical CPU the burst ran on; absent if it was moved meanwhile"),
    must("l3_domain", Kind::U32, "id of the last-level cache"),
    may("latency_ns", Kind::F64, "ns per step of eight pointer chains followed at once"),
    may("bandwidth_bytes_per_s", Kind::F64, "bytes per second of a sequential read"),
    may("write_back_ns", Kind::F64, "ns per changed cache line written back to memory"),
    may(
        "inflation",
        Kind::F64,
        "slowness over the last second against the quiet level; 1 is quiet",
    ),
    must("state", Kind::Text, "memory over the last second: quiet, contended or unknown"),
    may("confidence", Kind::F64, "probability that the state is right, 0.5 to 1"),
    may("blind", Kind::Text, "why the state is unknown: learning, starved or noisy"),
];

impl Dataset {
    /// Every data set there is. A recording holds those its machine can measure.
    pub const ALL: [Self; 4] = [Self::Tasks, Self::Slots, Self::Cache, Self::Probe];

    /// Its name: the folder and the start of its file names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Slots => "slots",
            Self::Cache => "cache",
            Self::Probe => "probe",
        }
    }

    /// Its columns in file order.
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Self::Tasks => TASKS,
            Self::Slots => SLOTS,
            Self::Cache => CACHE,
            Self::Probe => PROBE,
        }
    }
}
