//! A sampler with too little time, on plain files: what it leaves out now it tells later.
#![allow(clippy::unwrap_used)]

use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl::pool::{MeasuredGroup, Roster, Scope, SubjectKey};
use crosstalk_resctrl::sampler::{CacheReading, Sampler, SamplerConfig};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const SLOT: u64 = 1_000_000;
const SLOTS: u64 = 600;
/// What every counter moves on by in a slot.
const BYTES: u64 = 4_096;

/// A tree like resctrl's, in which all values of all groups are the text of one file.
fn lay(root: &Path, groups: usize) -> Roster {
    let value = root.join("value");
    fs::write(&value, "1\n").unwrap();
    fs::create_dir_all(root.join("info/L3_MON")).unwrap();
    fs::write(root.join("info/L3_MON/num_rmids"), "100\n").unwrap();
    let events = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];
    fs::write(root.join("info/L3_MON/mon_features"), events.join("\n")).unwrap();
    fs::write(root.join("tasks"), "").unwrap();
    let groups = (0..groups).map(|number| root.join(format!("mon_groups/{number:02}")));
    for group in groups.chain([root.to_owned()]) {
        let domain = group.join("mon_data/mon_L3_00");
        fs::create_dir_all(&domain).unwrap();
        for event in events {
            symlink(&value, domain.join(event)).unwrap();
        }
    }
    let resctrl = Resctrl::open(root).unwrap();
    let monitoring = resctrl.info().unwrap().monitoring.unwrap();
    let groups = (1..).zip(resctrl.root_group().monitor_groups().unwrap());
    let groups = groups.map(|(id, group)| {
        let members = vec![(SubjectKey { pid: id, process_start_ns: 1 }, "web".into())];
        MeasuredGroup::open(id, group, Scope::Process, members, &monitoring)
    });
    let groups = groups.collect();
    Roster::of(monitoring, groups)
}

/// Slot by slot, with the counters moving on in each.
fn run(groups: usize, cpu_share: f64) -> BTreeMap<u32, Vec<CacheReading>> {
    let root = tempfile::tempdir().unwrap();
    let roster = lay(root.path(), groups);
    let ran: Vec<SubjectKey> =
        roster.groups().flat_map(|group| &group.members).map(|(key, _)| *key).collect();
    assert_eq!(ran.len(), groups);
    let mut sampler = Sampler::new(SamplerConfig { slot_ns: SLOT, cpu_share });
    let mut by_pid: BTreeMap<u32, Vec<CacheReading>> = BTreeMap::new();
    for slot in 1..=SLOTS {
        fs::write(root.path().join("value"), format!("{}\n", slot * BYTES)).unwrap();
        let mut rows = Vec::new();
        let just_after = || (slot + 1) * SLOT;
        sampler.sample(&roster, slot * SLOT, &ran, &just_after, &mut rows);
        for row in rows {
            assert_eq!(row.slot_start_ns, slot * SLOT);
            by_pid.entry(row.pid).or_default().push(row);
        }
    }
    by_pid
}

#[test]
fn traffic_that_a_brief_look_leaves_out_is_told_by_the_next_full_one() {
    let by_pid = run(64, 0.05);
    assert_eq!(by_pid.len(), 64, "nobody is left out");
    for rows in by_pid.values() {
        assert!(rows.iter().all(|row| row.llc_occupancy_bytes.is_some()));
        assert!(
            rows.iter().all(|row| row.mbm_total_bytes.is_some() == row.mbm_local_bytes.is_some())
        );
        let full: Vec<&CacheReading> =
            rows.iter().filter(|row| row.mbm_total_bytes.is_some()).collect();
        assert!(full.len() < rows.len() / 2, "time was not short: {} {}", full.len(), rows.len());
        let told: u64 = full.iter().filter_map(|row| row.mbm_total_bytes).sum();
        let slots = (full.last().unwrap().slot_start_ns - rows[0].slot_start_ns) / SLOT;
        assert_eq!(told, slots * BYTES, "every byte once");
        let most_without =
            rows[1..].split(|row| row.mbm_total_bytes.is_some()).map(<[_]>::len).max();
        assert!(most_without <= Some(3), "{most_without:?}");
    }
}

#[test]
fn with_time_enough_every_look_is_a_full_one_in_every_slot() {
    for rows in run(4, 1.0).values() {
        assert_eq!(rows.len() as u64, SLOTS);
        assert!(rows[1..].iter().all(|row| row.mbm_total_bytes == Some(BYTES)));
    }
}
