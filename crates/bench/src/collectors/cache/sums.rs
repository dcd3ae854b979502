//! Readings of processes into periods of containers. Pure.

use super::ContainerCacheRow;
use crate::roster::Member;
use crosstalk_model::{CacheReading, CacheScope, CacheState, ProcessId, SlotLength, TaskRow};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// A period is told when no more readings will come to it: the source keeps them back this long at most.
const LAG_NS: u64 = 1_000_000_000;
/// What was read of a cache counts this long: processes at rest are read less often than once a period.
const HOLD_NS: u64 = 1_000_000_000;
/// Processes whose container is remembered; beyond that, those that have not run for a while are forgotten.
const MOST_PROCESSES: usize = 20_000;
const FORGET_NS: u64 = 10_000_000_000;

/// Round and index.
type Key = (u32, u32);
/// A group of resctrl and one of its caches.
type Place = (u32, u32);

#[derive(Clone, Copy, Debug)]
struct Held {
    by: Key,
    process: ProcessId,
    bytes: Option<u64>,
    stale: bool,
    at_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Moved {
    total: Option<u64>,
    local: Option<u64>,
    by_domain: BTreeMap<u32, u64>,
}

/// What came to one period.
#[derive(Debug, Default)]
struct Period {
    held: HashMap<Place, Held>,
    moved: BTreeMap<Key, Moved>,
    measured: BTreeMap<Key, BTreeSet<ProcessId>>,
    left_out: BTreeMap<Key, BTreeSet<ProcessId>>,
}

#[derive(Debug)]
pub(super) struct Sums {
    period_ns: u64,
    /// Containers by the number of their cgroup; those that have just ended too, since readings come late.
    groups: HashMap<u64, Key>,
    names: BTreeMap<Key, Arc<str>>,
    processes: HashMap<ProcessId, (Key, u64)>,
    periods: BTreeMap<u64, Period>,
    /// The newest occupancy of every group and cache.
    held: HashMap<Place, Held>,
    /// When traffic of a group and cache was last counted: rows of several processes tell one value.
    counted: HashMap<Place, u64>,
    newest_ns: u64,
    /// The first period that was not told yet.
    open: u64,
}

impl Sums {
    pub(super) fn new(period: Duration) -> Self {
        Self {
            period_ns: (period.as_nanos() as u64).max(1),
            groups: HashMap::new(),
            names: BTreeMap::new(),
            processes: HashMap::new(),
            periods: BTreeMap::new(),
            held: HashMap::new(),
            counted: HashMap::new(),
            newest_ns: 0,
            open: 0,
        }
    }

    /// Who is there now.
    pub(super) fn know(&mut self, members: Vec<Member>) {
        let Some(round) = members.iter().map(|member| member.round).max() else { return };
        // Nothing comes of a round before the last.
        self.names.retain(|key, _| key.0 + 1 >= round);
        self.groups.retain(|_, key| key.0 + 1 >= round);
        for member in members.into_iter().filter(|member| member.data.rdt) {
            let key = (member.round, member.index);
            self.groups.extend(member.group_id.map(|id| (id, key)));
            self.names.insert(key, member.name);
        }
    }

    /// Somebody ran.
    pub(super) fn ran(&mut self, row: &TaskRow) {
        let (now_ns, process) = (row.slot_start_ns, row.task.process);
        self.newest_ns = self.newest_ns.max(now_ns);
        let Some(key) = self.groups.get(&row.task.cgroup_id) else { return };
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&process) {
            self.processes.retain(|_, (_, ran)| now_ns.saturating_sub(*ran) < FORGET_NS);
            if self.processes.len() >= MOST_PROCESSES {
                return;
            }
        }
        self.processes.insert(process, (*key, now_ns));
    }

    /// Somebody's cache was read.
    pub(super) fn read(&mut self, row: &CacheReading) {
        self.newest_ns = self.newest_ns.max(row.slot_start_ns);
        let Some((key, _)) = self.processes.get(&row.process).copied() else { return };
        // What comes after its period was told is told with the next, so that sums stay whole.
        let number = (row.slot_start_ns / self.period_ns).max(self.open);
        let period = self.periods.entry(number).or_default();
        if row.scope == CacheScope::Shared {
            period.left_out.entry(key).or_default().insert(row.process);
            return;
        }
        let has_any = row.llc_occupancy_bytes.is_some()
            || row.mbm_total_bytes.is_some()
            || row.mbm_local_bytes.is_some();
        if has_any {
            period.measured.entry(key).or_default().insert(row.process);
        }
        let place = (row.group_id, row.l3_domain);
        let held = Held {
            by: key,
            process: row.process,
            bytes: row.llc_occupancy_bytes,
            stale: row.state == CacheState::Stale,
            at_ns: row.slot_start_ns,
        };
        if row.llc_occupancy_bytes.is_some() {
            period.held.insert(place, held);
        }
        if self.counted.insert(place, row.read_at_ns) == Some(row.read_at_ns) {
            return;
        }
        let moved = period.moved.entry(key).or_default();
        add(&mut moved.total, row.mbm_total_bytes);
        add(&mut moved.local, row.mbm_local_bytes);
        if let Some(bytes) = row.mbm_total_bytes {
            *moved.by_domain.entry(row.l3_domain).or_default() += bytes;
        }
    }

    /// Rows of periods that will not change any more.
    pub(super) fn ready(&mut self) -> Vec<ContainerCacheRow> {
        self.tell(self.newest_ns.saturating_sub(LAG_NS) / self.period_ns)
    }

    /// All there are.
    pub(super) fn rest(&mut self) -> Vec<ContainerCacheRow> {
        self.tell(u64::MAX)
    }

    fn tell(&mut self, before: u64) -> Vec<ContainerCacheRow> {
        let mut rows = Vec::new();
        while let Some(entry) = self.periods.first_entry()
            && *entry.key() < before
        {
            let (number, period) = entry.remove_entry();
            self.held.extend(period.held.iter().map(|(place, held)| (*place, *held)));
            let end_ns = (number + 1) * self.period_ns;
            let is_fresh = |at_ns: u64| end_ns.saturating_sub(at_ns) <= HOLD_NS;
            self.held.retain(|_, held| is_fresh(held.at_ns));
            for (key, name) in &self.names {
                rows.extend(row(*key, name, end_ns, self.period_ns, &period, &self.held));
            }
            self.open = number + 1;
        }
        let newest_ns = self.newest_ns;
        self.counted.retain(|_, at_ns| newest_ns.saturating_sub(*at_ns) < FORGET_NS);
        rows
    }
}

/// What is known of a container in a period; nothing where nothing was read of it.
fn row(
    key: Key,
    name: &Arc<str>,
    end_ns: u64,
    period_ns: u64,
    period: &Period,
    held: &HashMap<Place, Held>,
) -> Option<ContainerCacheRow> {
    let mut processes = period.measured.get(&key).cloned().unwrap_or_default();
    let left_out = period.left_out.get(&key).map_or(0, BTreeSet::len);
    let (mut occupancy, mut stale) = (None, false);
    for held in held.values().filter(|held| held.by == key) {
        add(&mut occupancy, held.bytes);
        stale |= held.stale;
        processes.insert(held.process);
    }
    if processes.is_empty() && left_out == 0 {
        return None;
    }
    let moved = period.moved.get(&key).cloned().unwrap_or_default();
    Some(ContainerCacheRow {
        slot_start_ns: SlotLength::MILLISECOND.floor(end_ns - 1),
        covers_ns: period_ns,
        round: key.0,
        index: key.1,
        container: Arc::clone(name),
        processes: processes.len() as u32,
        left_out: left_out as u32,
        stale,
        llc_occupancy_bytes: occupancy,
        mbm_total_bytes: moved.total,
        mbm_local_bytes: moved.local,
        moved_by_domain: moved.by_domain,
    })
}

fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0).saturating_add(more));
    }
}

#[cfg(test)]
mod tests;
