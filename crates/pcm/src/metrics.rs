/// What PCM says about the node, under the names and units every source shares. What it did not
/// measure is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NodeMetrics {
    /// Share of time cores were not idle, 0 to 1.
    pub cpu_util: Option<f64>,
    /// Instructions per cycle, over all cores.
    pub ipc: Option<f64>,
    /// Average frequency of active cores in MHz.
    pub freq_mhz: Option<f64>,
    /// Bytes per second read from memory.
    pub mem_bw_read: Option<f64>,
    /// Bytes per second written to memory.
    pub mem_bw_write: Option<f64>,
    /// Bytes per second read and written.
    pub mem_bw_total: Option<f64>,
    /// Share of last-level cache look-ups that missed, 0 to 1.
    pub cache_miss: Option<f64>,
    /// Last-level cache misses per thousand instructions.
    pub llc_mpki: Option<f64>,
    /// Bytes of last-level cache in use.
    pub llc_occupancy: Option<f64>,
}

impl NodeMetrics {
    /// Whether nothing at all was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the total where both halves are known.
    pub(crate) fn with_total(mut self) -> Self {
        let sum = self.mem_bw_read.zip(self.mem_bw_write).map(|(read, write)| read + write);
        self.mem_bw_total = self.mem_bw_total.or(sum);
        self
    }
}

/// A ratio as printed, forced into 0..=1 if it is only rounded out of it, else absent.
pub(crate) fn share(value: f64) -> Option<f64> {
    (-0.01..=1.01).contains(&value).then(|| value.clamp(0.0, 1.0))
}
