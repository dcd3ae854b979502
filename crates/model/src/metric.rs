//! The names every source shares, and what Prometheus calls them.

/// The statistics of a metric in an answer, in the order of [`Metric::keys`].
pub const STATISTICS: [&str; 8] = ["mean", "std", "min", "max", "p50", "p95", "p99", "last"];

/// One metric: its name in JSON, and its name, unit and meaning for Prometheus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// The name in JSON and in `metrics=`.
    pub name: &'static str,
    /// The name with each of [`STATISTICS`] before it, such as `mean_cpu_util`.
    pub keys: [&'static str; STATISTICS.len()],
    /// What follows `crosstalk_node_` and the like, ending in a base unit.
    pub family: &'static str,
    /// What a value is multiplied with to be in the base unit.
    pub scale: f64,
    /// What it means.
    pub help: &'static str,
}

macro_rules! metric {
    ($name:literal, $family:literal, $scale:literal, $help:literal $(,)?) => {
        Metric {
            name: $name,
            keys: [
                concat!("mean_", $name),
                concat!("std_", $name),
                concat!("min_", $name),
                concat!("max_", $name),
                concat!("p50_", $name),
                concat!("p95_", $name),
                concat!("p99_", $name),
                concat!("last_", $name),
            ],
            family: $family,
            scale: $scale,
            help: $help,
        }
    };
}

/// Share of processor time in use, 0 to 1; of the whole node for every kind of subject.
pub const CPU_UTIL: Metric = metric!(
    "cpu_util",
    "cpu_utilization_ratio",
    1.0,
    "Share of the node's processor time in use, 0 to 1.",
);
/// Instructions per cycle.
pub const IPC: Metric =
    metric!("ipc", "instructions_per_cycle", 1.0, "Instructions retired per cycle.");
/// Frequency of busy cores.
pub const FREQ_MHZ: Metric =
    metric!("freq_mhz", "frequency_hertz", 1e6, "Average frequency of cores while they were busy.");
/// Bytes per second read from memory.
pub const MEM_BW_READ: Metric = metric!(
    "mem_bw_read",
    "memory_read_bytes_per_second",
    1.0,
    "Bytes per second read from memory.",
);
/// Bytes per second written to memory.
pub const MEM_BW_WRITE: Metric = metric!(
    "mem_bw_write",
    "memory_written_bytes_per_second",
    1.0,
    "Bytes per second written to memory.",
);
/// Bytes per second read and written.
pub const MEM_BW_TOTAL: Metric = metric!(
    "mem_bw_total",
    "memory_bandwidth_bytes_per_second",
    1.0,
    "Bytes per second read from and written to memory.",
);
/// Bytes per second to and from the memory of the same socket.
pub const MEM_BW_LOCAL: Metric = metric!(
    "mem_bw_local",
    "memory_local_bandwidth_bytes_per_second",
    1.0,
    "Bytes per second between the last-level caches and the memory of their own socket.",
);
/// Share of last-level cache look-ups that missed.
pub const CACHE_MISS: Metric = metric!(
    "cache_miss",
    "llc_miss_ratio",
    1.0,
    "Share of last-level cache look-ups that missed, 0 to 1.",
);
/// Last-level cache misses per thousand instructions.
pub const LLC_MPKI: Metric = metric!(
    "llc_mpki",
    "llc_misses_per_instruction",
    1e-3,
    "Last-level cache misses per instruction.",
);
/// Bytes of last-level cache in use.
pub const LLC_OCCUPANCY: Metric =
    metric!("llc_occupancy", "llc_occupancy_bytes", 1.0, "Bytes of last-level cache in use.",);
/// Seconds tasks waited for a core, per second: the mean length of the run queue.
pub const RUNQ_WAIT: Metric = metric!(
    "runq_wait",
    "runqueue_wait_ratio",
    1.0,
    "Seconds that tasks waited for a core, per second.",
);
/// Context switches per second.
pub const SWITCHES: Metric =
    metric!("switches", "context_switches_per_second", 1.0, "Context switches per second.",);
/// Page faults per second.
pub const PAGE_FAULTS: Metric =
    metric!("page_faults", "page_faults_per_second", 1.0, "Page faults per second.");
/// Bytes of memory in use: what could not be given to a newcomer without taking it from somebody.
pub const MEM_USED: Metric = metric!(
    "mem_used",
    "memory_used_bytes",
    1.0,
    "Bytes of the node's memory in use: MemTotal less MemAvailable.",
);
/// Resident bytes of a process, shared pages counted in each that maps them.
pub const MEM_RSS: Metric = metric!(
    "mem_rss",
    "memory_rss_bytes",
    1.0,
    "Resident bytes of the process; pages it shares count in each process that maps them.",
);
/// Bytes charged to a container or pod, its page cache included.
pub const MEM_CHARGED: Metric = metric!(
    "mem_charged",
    "memory_charged_bytes",
    1.0,
    "Bytes charged to the cgroup, its page cache included (memory.current).",
);
/// Share of memory in use.
pub const MEM_UTIL: Metric =
    metric!("mem_util", "memory_utilization_ratio", 1.0, "Share of memory in use, 0 to 1.");
/// Share of time in which some task waited for memory to be reclaimed or read back.
pub const MEM_PRESSURE: Metric = metric!(
    "mem_pressure",
    "memory_pressure_ratio",
    1.0,
    "Share of time in which a task was stalled for want of memory, 0 to 1.",
);
/// Time of one step of the probe through memory.
pub const PROBE_LATENCY: Metric = metric!(
    "probe_latency_ns",
    "probe_latency_seconds",
    1e-9,
    "Time the probe's eight pointer chains took per step through memory.",
);
/// Bytes per second of the probe's sequential read.
pub const PROBE_BANDWIDTH: Metric = metric!(
    "probe_bandwidth",
    "probe_bandwidth_bytes_per_second",
    1.0,
    "Bytes per second the probe read from memory in sequence.",
);
/// Time of one changed line's way back to memory.
pub const PROBE_WRITE_BACK: Metric = metric!(
    "probe_write_back_ns",
    "probe_write_back_seconds",
    1e-9,
    "Time the probe took per changed cache line to write it back to memory.",
);
/// Slowness of memory against the node's own quiet baseline.
pub const PROBE_INFLATION: Metric = metric!(
    "probe_inflation",
    "probe_inflation_ratio",
    1.0,
    "Slowness of memory as the probe feels it, against memory at rest; 1 is quiet.",
);
/// 1 while memory is contended, 0 while it is quiet.
pub const PROBE_CONTENDED: Metric = metric!(
    "probe_contended",
    "probe_contended_ratio",
    1.0,
    "1 while the probe finds memory contended, 0 while quiet; absent while it cannot tell.",
);
/// How sure the probe is of contended or quiet.
pub const PROBE_CONFIDENCE: Metric = metric!(
    "probe_confidence",
    "probe_confidence_ratio",
    1.0,
    "Probability that the probe is right about contended or quiet, 0.7 to 0.99.",
);

/// Every metric a node can have, in the order answers list them.
pub const NODE: &[Metric] = &[
    CPU_UTIL,
    IPC,
    FREQ_MHZ,
    MEM_BW_READ,
    MEM_BW_WRITE,
    MEM_BW_TOTAL,
    MEM_BW_LOCAL,
    CACHE_MISS,
    LLC_MPKI,
    LLC_OCCUPANCY,
    RUNQ_WAIT,
    SWITCHES,
    PAGE_FAULTS,
    MEM_USED,
    MEM_UTIL,
    MEM_PRESSURE,
    PROBE_LATENCY,
    PROBE_BANDWIDTH,
    PROBE_WRITE_BACK,
    PROBE_INFLATION,
    PROBE_CONTENDED,
    PROBE_CONFIDENCE,
];

/// A sum that only grows, for Prometheus alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Total {
    /// The whole name but `_total`.
    pub family: &'static str,
    /// What it means.
    pub help: &'static str,
}
