//! What a recording says about itself.

use super::Args;
use super::cache::Cache;
use super::probe::Probe;
use crosstalk_agent::recording_metadata;
use crosstalk_counters::Collector;
use crosstalk_host::HostRoot;
use crosstalk_recording::Metadata;
use serde_json::json;

pub(super) fn metadata(
    args: &Args,
    host: &HostRoot,
    collector: &Collector,
    cache: &Cache,
    probe: &Probe,
) -> Metadata {
    recording_metadata(host, collector, args.slot)
        .with("filter", json!({ "pid": args.pid, "cgroup": args.cgroup }))
        .with("cache", cache.about())
        .with("cache_absent_because", cache.absent_because())
        .with("probe", probe.about())
        .with("probe_absent_because", probe.absent_because())
}
