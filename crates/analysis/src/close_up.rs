//! Half a second of a run, slot by slot and core by core: who really ran when the aggressor came.

use crosstalk_interference::{Activity, Subject};
use serde::Serialize;
use std::collections::BTreeMap;

/// Before and after the aggressor came.
const BEFORE_NS: u64 = 200_000_000;
const AFTER_NS: u64 = 300_000_000;
const MOST_CORES: usize = 8;
const MOST_SLOTS: usize = 2_000;

/// Who ran on some cores, slot by slot.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CloseUp {
    /// Start of the first slot, Unix nanoseconds.
    pub from_ns: u64,
    /// Length of a slot.
    pub slot_ns: u64,
    /// The cores on which the two ran most.
    pub cores: Vec<CoreLane>,
}

/// One core, slot by slot, in per cent of the slot.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CoreLane {
    /// The core.
    pub core: u32,
    /// The victim's time.
    pub victim: Vec<u8>,
    /// The aggressor's.
    pub aggressor: Vec<u8>,
    /// Everybody else's.
    pub other: Vec<u8>,
}

/// The time that a close-up of this onset shows.
pub(crate) fn around(onset_ns: u64) -> std::ops::Range<u64> {
    onset_ns.saturating_sub(BEFORE_NS)..onset_ns.saturating_add(AFTER_NS)
}

/// Sums of a close-up while its rows are read, in whatever order.
pub(crate) struct Lens<'a> {
    time: std::ops::Range<u64>,
    slot_ns: u64,
    victim: Subject,
    aggressors: &'a [Subject],
    /// By core, and by slot: time of victim, aggressor and others.
    cores: BTreeMap<u32, Vec<[u64; 3]>>,
}

impl<'a> Lens<'a> {
    pub(crate) fn new(
        onset_ns: u64,
        slot_ns: u64,
        victim: Subject,
        aggressors: &'a [Subject],
    ) -> Self {
        Self { time: around(onset_ns), slot_ns, victim, aggressors, cores: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, start_ns: u64, activity: &Activity) {
        if !self.time.contains(&start_ns) {
            return;
        }
        let at = ((start_ns - self.time.start) / self.slot_ns) as usize;
        let slots =
            ((self.time.end - self.time.start).div_ceil(self.slot_ns) as usize).min(MOST_SLOTS);
        let who = match activity.subject {
            subject if subject == self.victim => 0,
            subject if self.aggressors.contains(&subject) => 1,
            _ => 2,
        };
        let lane = self.cores.entry(activity.core).or_insert_with(|| vec![[0; 3]; slots]);
        if let Some(slot) = lane.get_mut(at) {
            slot[who] += activity.on_cpu_ns;
        }
    }

    pub(crate) fn finish(self) -> Option<CloseUp> {
        let ours = |lane: &[[u64; 3]]| lane.iter().map(|slot| slot[0] + slot[1]).sum::<u64>();
        let mut cores: Vec<(u32, Vec<[u64; 3]>)> = self.cores.into_iter().collect();
        cores.sort_by_key(|(core, lane)| (std::cmp::Reverse(ours(lane)), *core));
        cores.retain(|(_, lane)| ours(lane) > 0);
        cores.truncate(MOST_CORES);
        cores.sort_by_key(|(core, _)| *core);
        let percent = |ns: u64| (ns.saturating_mul(100) / self.slot_ns).min(100) as u8;
        let lane = |(core, lane): (u32, Vec<[u64; 3]>)| {
            let of = |who: usize| lane.iter().map(|slot| percent(slot[who])).collect();
            CoreLane { core, victim: of(0), aggressor: of(1), other: of(2) }
        };
        let from_ns = self.time.start;
        (!cores.is_empty()).then(|| CloseUp {
            from_ns,
            slot_ns: self.slot_ns,
            cores: cores.into_iter().map(lane).collect(),
        })
    }
}
