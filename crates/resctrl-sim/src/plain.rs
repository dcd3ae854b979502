//! A tree of plain files in the shape of resctrl: what a reader costs, and does when time is short, without a mount.

use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl::pool::{MeasuredGroup, Roster, Scope, SubjectKey};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

const EVENTS: [&str; 3] = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];

/// Lays out so many monitor groups of one process each below `folder`, which is made where it is missing.
///
/// Every value of every group leads to the file `value`: whatever that says they all say, and take as long to.
///
/// ```
/// use crosstalk_resctrl::sampler::{Sampler, SamplerConfig, unix_now_ns};
///
/// let folder = tempfile::tempdir()?;
/// let value = folder.path().join("value");
/// std::fs::write(&value, "4096\n")?;
/// let roster = crosstalk_resctrl_sim::plain_roster(&folder.path().join("tree"), &value, 2)?;
/// let mut rows = Vec::new();
/// Sampler::new(SamplerConfig::default()).sample(&roster, 0, &[], &unix_now_ns, &mut rows);
/// assert_eq!(rows.len(), 2);
/// assert_eq!(rows[0].llc_occupancy_bytes, Some(4096));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The tree cannot be made, or is there already.
pub fn plain_roster(folder: &Path, value: &Path, groups: usize) -> io::Result<Roster> {
    let info = folder.join("info/L3_MON");
    fs::create_dir_all(&info)?;
    fs::write(info.join("num_rmids"), format!("{}\n", groups + 1))?;
    fs::write(info.join("mon_features"), EVENTS.join("\n"))?;
    fs::write(folder.join("tasks"), "")?;
    lay_values(folder, value)?;
    for number in 0..groups {
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
    for event in EVENTS {
        symlink(value, domain.join(event))?;
    }
    Ok(())
}
