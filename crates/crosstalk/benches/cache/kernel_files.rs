//! Groups whose values are answered by the kernel in about a microsecond, on machines without the hardware.

use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl::pool::{MeasuredGroup, Roster, Scope, SubjectKey};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// resctrl is a kernfs, as sysfs is: a counter of the loopback interface is read through the same layers.
pub(crate) const COUNTER: &str = "/sys/class/net/lo/statistics/rx_bytes";

/// So many groups of one process each, laid out below `folder`. Every value is opened by itself, and leads to `value`.
pub(crate) fn roster(folder: &Path, value: &Path, subjects: usize) -> io::Result<Roster> {
    fs::create_dir_all(folder.join("info/L3_MON"))?;
    fs::write(folder.join("info/L3_MON/num_rmids"), format!("{}\n", subjects + 1))?;
    fs::write(
        folder.join("info/L3_MON/mon_features"),
        "llc_occupancy\nmbm_total_bytes\nmbm_local_bytes\n",
    )?;
    fs::write(folder.join("tasks"), "")?;
    lay_values(folder, value)?;
    for number in 0..subjects {
        lay_values(&folder.join(format!("mon_groups/{number:03}")), value)?;
    }
    let resctrl = Resctrl::open(folder).map_err(io::Error::other)?;
    let monitoring = resctrl.info().map_err(io::Error::other)?.monitoring;
    let monitoring = monitoring.ok_or_else(|| io::Error::other("nothing to monitor"))?;
    let groups = resctrl.root_group().monitor_groups().map_err(io::Error::other)?;
    let groups = (1..).zip(groups).map(|(id, group)| {
        let key = SubjectKey { pid: id, process_start_ns: 1 };
        MeasuredGroup::open(id, group, Scope::Process, vec![(key, "web".into())], &monitoring)
    });
    let groups = groups.collect();
    Ok(Roster::of(monitoring, groups))
}

fn lay_values(group: &Path, value: &Path) -> io::Result<()> {
    let domain = group.join("mon_data/mon_L3_00");
    fs::create_dir_all(&domain)?;
    for event in ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"] {
        symlink(value, domain.join(event))?;
    }
    Ok(())
}
