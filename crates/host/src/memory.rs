use crate::HostRoot;
use serde::Serialize;

/// The node's memory in bytes; what is not there is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeMemory {
    /// MemTotal.
    pub total: Option<u64>,
    /// MemFree.
    pub free: Option<u64>,
    /// MemAvailable.
    pub available: Option<u64>,
    /// SwapFree; what nobody but `coldmem advise` asks for is not told.
    #[serde(skip)]
    pub swap_free: Option<u64>,
}

impl NodeMemory {
    /// What the kernel says now.
    #[must_use]
    pub fn read(host: &HostRoot) -> Self {
        host.line("/proc/meminfo").map(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// Reads `/proc/meminfo`.
    ///
    /// ```
    /// use crosstalk_host::NodeMemory;
    ///
    /// let node = NodeMemory::parse("MemTotal:  100 kB\nMemFree: 20 kB\nMemAvailable: many kB\n");
    /// let known = NodeMemory { total: Some(102_400), free: Some(20_480), ..NodeMemory::default() };
    /// assert_eq!(node, known);
    /// ```
    pub fn parse(meminfo: &str) -> Self {
        let bytes = |key: &str| {
            let value = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
            value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
        };
        Self {
            total: bytes("MemTotal:"),
            free: bytes("MemFree:"),
            available: bytes("MemAvailable:"),
            swap_free: bytes("SwapFree:"),
        }
    }
}
