//! What resctrl offers here, found with the calls the recorder makes.

use crosstalk_counters::{Capability, Verdict};
use crosstalk_resctrl::{
    BandwidthInfo, BandwidthUnit, CacheInfo, Error, Info, MonitoringInfo, Resctrl,
};
use std::path::Path;

const MONITORING: &str = "cache monitoring";
const ALLOCATION: &str = "cache allocation";

/// Monitoring (the `cache` data set) and allocation (control groups), one row each.
pub(super) fn probe(host_root: &Path, resctrl_root: Option<&Path>) -> [Capability; 2] {
    let opened = resctrl_root.map_or_else(|| Resctrl::locate(host_root), Resctrl::open);
    match opened.and_then(|resctrl| Ok((resctrl.info()?, resctrl))) {
        Ok((info, resctrl)) => [monitoring(&info, &resctrl), allocation(&info)],
        Err(error) => [absent(MONITORING, &error), absent(ALLOCATION, &error)],
    }
}

fn absent(name: &'static str, error: &Error) -> Capability {
    // The hint of this error is the way out; the others name a file.
    let (found, fix) = match error {
        Error::NotResctrl { path, hint } if hint.starts_with("mount it") => {
            (format!("resctrl is not mounted at {}", path.display()), (*hint).to_owned())
        }
        Error::NotResctrl { hint, .. } => ((*hint).to_owned(), no_hardware()),
        other => (other.to_string(), "run as root, and look at the file named".to_owned()),
    };
    Capability { name, verdict: Verdict::Absent, found, fix: Some(fix) }
}

fn no_hardware() -> String {
    "a processor with Intel RDT or AMD QoS and CONFIG_X86_CPU_RESCTRL; to try it out: \
     crosstalk resctrl-sim DIR, and record --resctrl-root DIR"
        .to_owned()
}

fn monitoring(info: &Info, resctrl: &Resctrl) -> Capability {
    let root = resctrl.root();
    let Some(MonitoringInfo { num_rmids, occupancy, total_bytes, local_bytes, domains, .. }) =
        &info.monitoring
    else {
        let found = format!("resctrl at {}, but no info/L3_MON", root.display());
        let fix = Some("a processor with Intel CMT and MBM, or AMD QoS monitoring".to_owned());
        return Capability { name: MONITORING, verdict: Verdict::Absent, found, fix };
    };
    let events =
        [("occupancy", occupancy), ("total bytes", total_bytes), ("local bytes", local_bytes)];
    let of = |there: bool| -> Vec<&str> {
        events.iter().filter(|(_, has)| **has == there).map(|(name, _)| *name).collect()
    };
    let caches = domains.len();
    let found = format!(
        "{} at {}: {num_rmids} identifiers, {caches} L3 cache{}{}",
        of(true).join(", "),
        root.display(),
        if caches == 1 { "" } else { "s" },
        if resctrl.is_kernel() { "" } else { ", simulated" },
    );
    let missing = of(false);
    if missing.is_empty() {
        return Capability { name: MONITORING, verdict: Verdict::Ok, found, fix: None };
    }
    let fix = Some(format!("the processor does not count {}", missing.join(" and ")));
    Capability { name: MONITORING, verdict: Verdict::Limited, found, fix }
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
    let (name, found) = (ALLOCATION, all.join(", "));
    if all.is_empty() {
        let found = "resctrl divides neither cache nor bandwidth here".to_owned();
        let fix = Some("a processor with Intel CAT and MBA, or AMD QoS allocation".to_owned());
        return Capability { name, verdict: Verdict::Absent, found, fix };
    }
    Capability { name, verdict: Verdict::Ok, found, fix: None }
}
