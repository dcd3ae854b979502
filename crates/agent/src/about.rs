use crosstalk_counters::Collector;
use crosstalk_host::{CgroupHierarchy, Cpu, HostRoot, Kernel};
use crosstalk_model::SlotLength;
use crosstalk_recording::Metadata;

/// What every recording of the counters says about itself, whoever makes it: the machine, its clocks, and what
/// became of each counter.
///
/// ```no_run
/// use crosstalk_agent::recording_metadata;
/// use crosstalk_counters::{Collector, Options};
/// use crosstalk_host::HostRoot;
///
/// let options = Options::default();
/// let collector = Collector::open(&options)?;
/// let about = recording_metadata(&HostRoot::default(), &collector, options.slot);
/// assert!(about.get("clock").is_some());
/// # Ok::<(), crosstalk_counters::Error>(())
/// ```
#[must_use]
pub fn recording_metadata(host: &HostRoot, collector: &Collector, slot: SlotLength) -> Metadata {
    let kernel = Kernel::read(host);
    let cpu = Cpu::read(host);
    Metadata::default()
        .with("crosstalk_version", env!("CARGO_PKG_VERSION"))
        .with("host", kernel.hostname.clone())
        .with("kernel", &kernel)
        .with("cpu_model", cpu.model.clone())
        .with("topology", &cpu)
        .with("slot_ns", slot.nanos())
        .with("clock", collector.clocks())
        .with("counters", collector.counters())
        .with("tick", collector.tick())
        .with("freq_source", collector.frequency_source())
        .with("cgroup_hierarchy", CgroupHierarchy::find(host))
}
