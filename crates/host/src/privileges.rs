use crate::HostRoot;

/// What this process may do: its effective capabilities, one bit each (capabilities(7)). `None` where `/proc` does not
/// say, so that only the kernel can tell.
#[must_use]
pub fn own_privileges(host: &HostRoot) -> Option<u64> {
    const FILE: &str = "/proc/self/status";
    // A host mounted elsewhere may show no process of ours.
    effective(&host.line(FILE).or_else(|| HostRoot::default().line(FILE))?)
}

fn effective(status: &str) -> Option<u64> {
    let hex = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(hex.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_capabilities_are_bits() {
        let status = "Name:\tx\nCapPrm:\t0000000000000001\nCapEff:\t00000000a80425fb\n";
        assert_eq!(effective(status), Some(0xa804_25fb));
        assert_eq!(effective("CapEff:\tmany\n"), None);
        assert!(own_privileges(&HostRoot::default()).is_some());
    }
}
