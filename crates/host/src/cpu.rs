use crate::topology::{LastLevel, last_level};
use crate::{CpuSet, HostRoot};
use serde::Serialize;

/// Who designed the processor; decides which event is a last-level-cache miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Vendor {
    /// Intel.
    Intel,
    /// AMD, and Hygon which shares its events.
    Amd,
    /// Arm PMUv3.
    Arm,
    /// Any other.
    Other,
}

/// One logical CPU and what it shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Core {
    /// Its number.
    pub id: u32,
    /// The physical core it is a thread of.
    pub core_id: Option<u32>,
    /// The socket.
    pub package: Option<u32>,
    /// The NUMA node.
    pub numa_node: Option<u32>,
    /// The L3 cache it fills, by the kernel's id.
    pub l3_id: Option<u32>,
}

/// The processor of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// The model's name.
    pub model: Option<String>,
    /// Its vendor.
    pub vendor: Vendor,
    /// Whether a hypervisor is below us.
    pub virtualized: bool,
    /// The size of one L3 cache.
    pub l3_bytes: Option<u64>,
    /// The online logical CPUs.
    pub cores: Vec<Core>,
    /// One more than the highest CPU number there can ever be.
    pub possible: u32,
}

impl Cpu {
    /// Reads `/proc/cpuinfo` and `/sys/devices/system/cpu`.
    pub fn read(host: &HostRoot) -> Self {
        let info = host.line("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            info.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim().to_owned())
            })
        };
        let online = Self::online(host);
        let possible = cpu_list(host, "/sys/devices/system/cpu/possible");
        let last = possible.iter().chain(&online).max().copied();
        Self {
            model: field("model name").or_else(|| field("Model")),
            vendor: vendor(field("vendor_id").as_deref(), field("CPU implementer").is_some()),
            virtualized: field("flags").is_some_and(|f| f.split(' ').any(|w| w == "hypervisor")),
            l3_bytes: online.first().and_then(|&id| l3(host, id)?.size).and_then(|s| size(&s)),
            cores: online.iter().map(|&id| core(host, id)).collect(),
            possible: last.map_or(1, |last| last + 1),
        }
    }

    /// The frequency a core runs at as its driver says; `None` where there is no such driver.
    #[must_use]
    pub fn current_mhz(host: &HostRoot, core: u32) -> Option<u32> {
        let file = format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
        let khz: u32 = host.line(file)?.parse().ok()?;
        Some(khz / 1000)
    }

    /// The CPUs that are online now.
    pub fn online(host: &HostRoot) -> Vec<u32> {
        cpu_list(host, "/sys/devices/system/cpu/online")
    }
}

fn cpu_list(host: &HostRoot, path: &str) -> Vec<u32> {
    let set = host.line(path).and_then(|text| CpuSet::parse_list(&text));
    set.unwrap_or_default().iter().collect()
}

fn vendor(vendor_id: Option<&str>, has_implementer: bool) -> Vendor {
    match vendor_id {
        Some("GenuineIntel") => Vendor::Intel,
        Some("AuthenticAMD" | "HygonGenuine") => Vendor::Amd,
        _ if has_implementer => Vendor::Arm,
        _ => Vendor::Other,
    }
}

fn core(host: &HostRoot, id: u32) -> Core {
    let number = |file: &str| {
        host.line(format!("/sys/devices/system/cpu/cpu{id}/{file}")).and_then(|t| t.parse().ok())
    };
    Core {
        id,
        core_id: number("topology/core_id"),
        package: number("topology/physical_package_id"),
        numa_node: numa_node(host, id),
        l3_id: l3(host, id).and_then(|cache| cache.id),
    }
}

fn l3(host: &HostRoot, id: u32) -> Option<LastLevel> {
    last_level(host, id).filter(|cache| cache.level == 3)
}

fn numa_node(host: &HostRoot, id: u32) -> Option<u32> {
    let folder = host.path(format!("/sys/devices/system/cpu/cpu{id}"));
    std::fs::read_dir(folder)
        .ok()?
        .find_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("node")?.parse().ok())
}

fn size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
    match &text[digits..] {
        "" => Some(number),
        "K" => number.checked_mul(1 << 10),
        "M" => number.checked_mul(1 << 20),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_core_that_is_offline_is_possible_but_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        let cpu = dir.path().join("sys/devices/system/cpu");
        fs::create_dir_all(cpu.join("cpu0/cache/index3")).unwrap();
        fs::create_dir_all(cpu.join("cpu0/node1")).unwrap();
        fs::create_dir_all(dir.path().join("proc")).unwrap();
        fs::write(cpu.join("online"), "0\n").unwrap();
        fs::write(cpu.join("possible"), "0-3\n").unwrap();
        fs::write(cpu.join("cpu0/cache/index3/level"), "3\n").unwrap();
        fs::write(cpu.join("cpu0/cache/index3/id"), "5\n").unwrap();
        fs::write(cpu.join("cpu0/cache/index3/shared_cpu_list"), "0\n").unwrap();
        fs::write(cpu.join("cpu0/cache/index3/size"), "32768K\n").unwrap();
        fs::write(dir.path().join("proc/cpuinfo"), "vendor_id\t: GenuineIntel\nmodel name\t: X\n")
            .unwrap();

        let cpu = Cpu::read(&HostRoot::new(dir.path()));
        assert_eq!((cpu.cores.len(), cpu.possible), (1, 4));
        assert_eq!((cpu.cores[0].l3_id, cpu.cores[0].numa_node), (Some(5), Some(1)));
        assert_eq!((cpu.l3_bytes, cpu.vendor), (Some(32 << 20), Vendor::Intel));
    }
}
