//! What resctrl offers here, found with the calls the recorder makes.

use crosstalk_host::{Capability, HostRoot, Verdict};
use crosstalk_resctrl::{
    BandwidthInfo, BandwidthUnit, CacheInfo, Error, Info, MonitoringInfo, Resctrl,
};
use std::path::Path;

const MONITORING: &str = "cache monitoring";
const ALLOCATION: &str = "cache allocation";

/// Monitoring (the `cache` data set) and allocation (control groups), one row each.
pub(super) fn probe(host: &HostRoot, resctrl_root: Option<&Path>) -> [Capability; 2] {
    let opened = resctrl_root.map_or_else(|| Resctrl::locate(host), Resctrl::open);
    match opened.and_then(|resctrl| Ok((resctrl.info()?, resctrl))) {
        Ok((info, resctrl)) => [monitoring(&info, &resctrl), allocation(&info)],
        Err(error) => [absent(MONITORING, &error), absent(ALLOCATION, &error)],
    }
}

fn absent(name: &'static str, error: &Error) -> Capability {
    let found = Capability::of_error(name, Verdict::Absent, error);
    if found.fix.is_some() { found } else { found.fix("run as root, and look at the file named") }
}

fn monitoring(info: &Info, resctrl: &Resctrl) -> Capability {
    let root = resctrl.root();
    let Some(MonitoringInfo { num_rmids, occupancy, total_bytes, local_bytes, domains, .. }) =
        &info.monitoring
    else {
        let found = format!("resctrl at {}, but no info/L3_MON", root.display());
        return Capability::new(MONITORING, Verdict::Absent, found)
            .fix("a processor with Intel CMT and MBM, or AMD QoS monitoring");
    };
    let events =
        [("occupancy", occupancy), ("total bytes", total_bytes), ("local bytes", local_bytes)];
    let of = |there: bool| -> Vec<&str> {
        events.iter().filter(|(_, has)| **has == there).map(|(name, _)| *name).collect()
    };
    let caches = domains.len();
    let found = format!(
        "{} at {}: {num_rmids} RMIDs, {caches} L3 cache{}{}",
        of(true).join(", "),
        root.display(),
        if caches == 1 { "" } else { "s" },
        if resctrl.is_kernel() { "" } else { ", simulated" },
    );
    let missing = of(false);
    if missing.is_empty() {
        return Capability::new(MONITORING, Verdict::Ok, found);
    }
    Capability::new(MONITORING, Verdict::Limited, found)
        .fix(format!("the processor does not count {}", missing.join(" and ")))
}

fn allocation(info: &Info) -> Capability {
    let caches = info.caches.iter().map(|CacheInfo { resource, num_closids, cbm_mask, .. }| {
        format!("{resource} mask {cbm_mask} in {num_closids} groups")
    });
    let limits =
        info.bandwidth.iter().map(|BandwidthInfo { resource, min_bandwidth, unit, .. }| {
            let unit = match unit {
                BandwidthUnit::Percent => "%",
                BandwidthUnit::EighthGigabyte => "x 1/8 GB/s",
                BandwidthUnit::Megabytes => "MB/s",
            };
            format!("{resource} from {min_bandwidth} {unit}")
        });
    let all: Vec<String> = caches.chain(limits).collect();
    if all.is_empty() {
        let found = "resctrl divides neither cache nor bandwidth here";
        return Capability::new(ALLOCATION, Verdict::Absent, found)
            .fix("a processor with Intel CAT and MBA, or AMD QoS allocation");
    }
    Capability::new(ALLOCATION, Verdict::Ok, all.join(", "))
}
