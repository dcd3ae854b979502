/// Whether memory is contended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbeState {
    /// As fast as when nobody else wanted it.
    Quiet,
    /// Slower than that by a tenth or more.
    Contended,
    /// Not seen at rest, not enough bursts, or too noisy to tell.
    Unknown,
}

impl ProbeState {
    /// As it stands in the column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Contended => "contended",
            Self::Unknown => "unknown",
        }
    }
}

/// Why a [`ProbeState`] is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbeBlindness {
    /// The quiet level is being learnt: nobody else runs.
    Learning,
    /// Memory was not seen at rest, or not lately: somebody else ran all the time, so that what quiet is like is not
    /// known.
    Unseen,
    /// Too few bursts in the last second: the probe got no processor time, or was interrupted each time.
    Starved,
    /// The quiet level itself moves so much that contention would not stand out: a noisy host.
    Noisy,
}

impl ProbeBlindness {
    /// As it stands in the column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Learning => "learning",
            Self::Unseen => "unseen",
            Self::Starved => "starved",
            Self::Noisy => "noisy",
        }
    }
}

/// One burst of the probe on one last-level cache domain, and the weather as of the last second there: a row
/// of the `probe` data set. What was not measured is `None`.
///
/// ```
/// use crosstalk_model::{ProbeBlindness, ProbeState};
///
/// assert_eq!(ProbeState::Contended.name(), "contended");
/// assert_eq!(ProbeBlindness::Starved.name(), "starved");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbeReading {
    /// Start of the slot in which the burst ended, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// When the burst ended, Unix nanoseconds.
    pub read_at_ns: u64,
    /// The core the burst ran on; absent if it was moved meanwhile.
    pub core: Option<u32>,
    /// The domain: the kernel's id of the cache where there is one.
    pub l3_domain: u32,
    /// Nanoseconds per step of eight pointer chains followed at once through memory.
    pub latency_ns: Option<f64>,
    /// Bytes per second of a sequential read from memory.
    pub bandwidth_bytes_per_s: Option<f64>,
    /// Nanoseconds per changed line that is written back to memory; absent where lines cannot be flushed.
    pub write_back_ns: Option<f64>,
    /// Slowness relative to the domain at rest, 1 being as then.
    pub inflation: Option<f64>,
    /// Quiet, contended or unknown.
    pub state: ProbeState,
    /// Probability that the state is right, 0.7 to 0.99.
    pub confidence: Option<f64>,
    /// Why the state is unknown, if it is.
    pub blind: Option<ProbeBlindness>,
    /// Whether nobody else ran on the machine just before and just after the burst: only such bursts tell what quiet is
    /// like. Absent where the kernel does not say who runs.
    pub alone: Option<bool>,
}

crate::dataset! {
    ProbeReading: "probe", "10 to 20 rows a second: how fast memory answers, and whether it is contended",
    by |row| (row.l3_domain, row.slot_start_ns),
    read_at_ns [int] "ns" "when the burst ended, Unix time" = |row| row.read_at_ns;
    core [int?] "" "logical CPU the burst ran on; absent if it was moved meanwhile" = |row| row.core;
    l3_domain [int] "" "id of the last-level cache" = |row| row.l3_domain;
    latency_ns [float?] "ns" "per step of eight pointer chains followed at once" = |row| row.latency_ns;
    bandwidth_bytes_per_s [float?] "bytes/s" "of a sequential read" = |row| row.bandwidth_bytes_per_s;
    write_back_ns [float?] "ns" "per changed cache line written back to memory"
        = |row| row.write_back_ns;
    inflation [float?] "" "slowness over the last second against memory at rest; 1 is quiet"
        = |row| row.inflation;
    state [text] "" "memory over the last second: quiet, contended or unknown" = |row| row.state.name();
    confidence [float?] "" "probability that the state is right, 0.7 to 0.99" = |row| row.confidence;
    blind [text?] "" "why the state is unknown: learning, unseen, starved or noisy"
        = |row| row.blind.map(ProbeBlindness::name);
    alone [flag?] "" "nobody else ran on the machine just before and after: a reference for quiet"
        = |row| row.alone;
}
