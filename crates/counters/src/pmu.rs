//! Machines with several kinds of core have a PMU for each kind.

use crate::event::Event;
use crosstalk_host::{CpuSet, HostRoot};
use perf_event_open_sys::bindings as perf;
use std::fs;

/// The core PMUs of a machine whose cores differ; empty where one PMU serves all.
#[derive(Debug, Default)]
pub(crate) struct Pmus(Vec<Pmu>);

#[derive(Debug)]
struct Pmu {
    kind: u32,
    cores: CpuSet,
}

impl Pmus {
    /// Finds PMUs that say which cores they serve (`cpu_core` and `cpu_atom`, `armv8_*`).
    pub(crate) fn read(host: &HostRoot) -> Self {
        const DEVICES: &str = "/sys/bus/event_source/devices";
        let Ok(folder) = fs::read_dir(host.path(DEVICES)) else { return Self::default() };
        let pmus = folder.filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let is_core = ["cpu_core", "cpu_atom", "armv8_", "armv9_"];
            if !is_core.iter().any(|start| name.starts_with(start)) {
                return None;
            }
            let cores = CpuSet::parse_list(&host.line(format!("{DEVICES}/{name}/cpus"))?)?;
            let kind = host.line(format!("{DEVICES}/{name}/type"))?.parse().ok()?;
            Some(Pmu { kind, cores })
        });
        Self(pmus.collect())
    }

    /// The type and configuration that mean `event` on `core`.
    pub(crate) fn on_core(&self, event: &Event, core: u32) -> (u32, u64) {
        let pmu = self.0.iter().find(|pmu| pmu.cores.contains(core));
        match (pmu, event.kind) {
            (Some(pmu), perf::PERF_TYPE_RAW) => (pmu.kind, event.config),
            // Since 5.13 the upper half of a generic event's configuration names the PMU.
            (Some(pmu), perf::PERF_TYPE_HARDWARE) => {
                (event.kind, event.config | u64::from(pmu.kind) << 32)
            }
            _ => (event.kind, event.config),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Counter;
    use crosstalk_host::Vendor;

    #[test]
    fn a_hybrid_core_gets_the_event_of_its_own_pmu() {
        let dir = tempfile::tempdir().unwrap();
        for (name, kind, cores) in [("cpu_core", 4, "0-1"), ("cpu_atom", 10, "2-3")] {
            let folder = dir.path().join("sys/bus/event_source/devices").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("type"), format!("{kind}\n")).unwrap();
            fs::write(folder.join("cpus"), format!("{cores}\n")).unwrap();
        }
        let pmus = Pmus::read(&HostRoot::new(dir.path()));
        let misses = Event::for_vendor(Counter::LlcMisses, Vendor::Intel);
        assert_eq!(pmus.on_core(&misses, 3), (10, 0x412e));
        let cycles = Event::for_vendor(Counter::Cycles, Vendor::Intel);
        assert_eq!(pmus.on_core(&cycles, 0), (perf::PERF_TYPE_HARDWARE, 4 << 32));
        assert_eq!(Pmus::default().on_core(&misses, 3), (perf::PERF_TYPE_RAW, 0x412e));
    }
}
