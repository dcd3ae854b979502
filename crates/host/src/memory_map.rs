use crate::HostRoot;

/// The ranges of physical memory in `/proc/iomem`, start and end; empty for those who may not see addresses.
#[must_use]
pub fn system_ram(host: &HostRoot) -> Vec<(u64, u64)> {
    parse(&host.line("/proc/iomem").unwrap_or_default())
}

fn parse(iomem: &str) -> Vec<(u64, u64)> {
    let range = |line: &str| {
        // What is indented lies within the line above it.
        let (range, name) = line.split_once(" : ")?;
        let (start, end) = range.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hex(start)?, hex(end)?.checked_add(1)?);
        (name == "System RAM" && start < end && end > 1).then_some((start, end))
    };
    iomem.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_kernel_calls_system_ram() {
        let iomem = "00001000-0009fbff : System RAM\n00100000-001fffff : System RAM\n\
                     \x20 00100000-0013ffff : Kernel code\nfee00000-fee00fff : Local APIC\n";
        assert_eq!(parse(iomem), [(0x1000, 0x9fc00), (0x10_0000, 0x20_0000)]);
        assert_eq!(parse("00000000-00000000 : System RAM\n"), []);
    }
}
