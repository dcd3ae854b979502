//! What a recording says about itself.

use super::Args;
use super::cache::Cache;
use super::probe::Probe;
use crosstalk_counters::Collector;
use crosstalk_host::{CgroupHierarchy, Cpu, HostRoot, Kernel};
use crosstalk_model::Dataset;
use crosstalk_recording::Metadata;
use serde_json::{Map, Value, json};

pub(super) fn metadata(
    args: &Args,
    host: &HostRoot,
    collector: &Collector,
    (cache, probe): (&Cache, &Probe),
    datasets: &[Dataset],
) -> Metadata {
    let kernel = Kernel::read(host);
    let cpu = Cpu::read(host);
    Metadata::default()
        .with("crosstalk_version", env!("CARGO_PKG_VERSION"))
        .with("schema_version", 1)
        .with("host", kernel.hostname.clone())
        .with("kernel", &kernel)
        .with("cpu_model", cpu.model.clone())
        .with("topology", &cpu)
        .with("slot_ns", args.slot.nanos())
        .with("clock", collector.clocks())
        .with("counters", collector.counters())
        .with("tick", collector.tick())
        .with("freq_source", collector.frequency_source())
        .with("cgroup_hierarchy", CgroupHierarchy::find(host))
        .with("filter", json!({ "pid": args.pid, "cgroup": args.cgroup }))
        .with("columns", columns(datasets))
        .with("cache", cache.about())
        .with("cache_absent_because", cache.absent_because())
        .with("probe", probe.about())
        .with("probe_absent_because", probe.absent_because())
}

fn columns(datasets: &[Dataset]) -> Value {
    let of = |dataset: Dataset| -> Map<String, Value> {
        dataset.columns().iter().map(|c| (c.name.to_owned(), Value::from(c.doc))).collect()
    };
    let sets = datasets.iter().map(|d| (d.name().to_owned(), Value::Object(of(*d))));
    Value::Object(sets.collect())
}
