//! A sampler with too little time, on plain files: what it leaves out now it tells later.
#![allow(clippy::unwrap_used)]

use crosstalk_resctrl::pool::SubjectKey;
use crosstalk_resctrl::sampler::{CacheReading, Sampler, SamplerConfig};
use crosstalk_resctrl_sim::plain_roster;
use std::collections::BTreeMap;
use std::fs;

const SLOT: u64 = 1_000_000;
const SLOTS: u64 = 600;
/// What every counter moves on by in a slot.
const BYTES: u64 = 4_096;

/// Slot by slot, with the counters moving on in each; the first `running` groups run in all of them.
fn run(groups: usize, running: usize, cpu_share: f64) -> BTreeMap<u32, Vec<CacheReading>> {
    let root = tempfile::tempdir().unwrap();
    let value = root.path().join("value");
    fs::write(&value, "1\n").unwrap();
    let roster = plain_roster(&root.path().join("tree"), &value, groups).unwrap();
    let ran: Vec<SubjectKey> =
        roster.groups().flat_map(|group| &group.members).map(|(key, _)| *key).collect();
    assert_eq!(ran.len(), groups);
    let ran = &ran[..running];
    let mut sampler = Sampler::new(SamplerConfig { slot_ns: SLOT, cpu_share });
    let mut by_pid: BTreeMap<u32, Vec<CacheReading>> = BTreeMap::new();
    for slot in 1..=SLOTS {
        fs::write(&value, format!("{}\n", slot * BYTES)).unwrap();
        let mut rows = Vec::new();
        let just_after = || (slot + 1) * SLOT;
        sampler.sample(&roster, slot * SLOT, ran, &just_after, &mut rows);
        for row in rows {
            assert_eq!(row.slot_start_ns, slot * SLOT);
            by_pid.entry(row.pid).or_default().push(row);
        }
    }
    by_pid
}

#[test]
fn traffic_that_a_brief_look_leaves_out_is_told_by_the_next_full_one() {
    let by_pid = run(64, 64, 0.02);
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
    for rows in run(4, 4, 1.0).values() {
        assert_eq!(rows.len() as u64, SLOTS);
        assert!(rows[1..].iter().all(|row| row.mbm_total_bytes == Some(BYTES)));
    }
}

#[test]
fn those_at_rest_have_their_turns_however_little_time_those_that_run_leave() {
    // So little that a slot has room for a look or two, and so much that it has room for a dozen.
    for cpu_share in [0.005, 0.05] {
        let by_pid = run(48, 40, cpu_share);
        let rows = |pid: u32| by_pid.get(&pid).map_or(0, Vec::len);
        let (ran, rested): (Vec<usize>, Vec<usize>) =
            ((1..=40).map(rows).collect(), (41..=48).map(rows).collect());
        let (least_ran, most_ran) = (ran.iter().min().unwrap(), ran.iter().max().unwrap());
        let (least_rested, most_rested) =
            (rested.iter().min().unwrap(), rested.iter().max().unwrap());
        assert!(*least_rested > 0 && most_rested - least_rested <= 2, "{cpu_share}: {rested:?}");
        assert!(*least_ran > 0 && most_ran - least_ran <= 2, "{cpu_share}: {ran:?}");
    }
}
