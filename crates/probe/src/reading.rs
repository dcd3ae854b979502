use crate::weather::{Blind, State};

/// One burst on one last-level cache domain, and the weather as of the last second there. What was not
/// measured is `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeReading {
    /// Unix time of the slot in which the burst ended, a multiple of its length.
    pub slot_start_ns: u64,
    /// The core the burst ran on; absent if it was moved meanwhile.
    pub core: Option<u32>,
    /// The domain.
    pub l3_domain: u32,
    /// Nanoseconds per step of eight pointer chains followed at once through memory.
    pub latency_ns: Option<f64>,
    /// Bytes per second of a sequential read from memory.
    pub bandwidth_bytes_per_s: Option<f64>,
    /// Nanoseconds per changed line that is written back to memory.
    pub write_back_ns: Option<f64>,
    /// Slowness relative to the domain's quiet baseline, 1 being as ever.
    pub inflation: Option<f64>,
    /// Quiet, contended or unknown.
    pub state: State,
    /// Probability that the state is right, 0.5 to 1.
    pub confidence: Option<f64>,
    /// Why the state is unknown, if it is.
    pub blind: Option<Blind>,
}
