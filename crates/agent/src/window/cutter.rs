//! Slots into periods: pure, so it is tested without a kernel.

use super::sums::Sums;
use crosstalk_model::{Comm, ProcessId, SlotCoverage, TaskRow};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// One period of the node.
#[derive(Debug, PartialEq)]
pub(super) struct Cut {
    /// Its end, Unix time as the kernel programs count it.
    pub(super) end_ns: u64,
    /// Of its length, the share that was measured: what was lost, and cores that said nothing, are not.
    pub(super) measured_ns: u64,
    /// Core time of it that was measured.
    pub(super) core_ns: u64,
    /// Whether every core was measured throughout and every row says whose it is: only then did somebody who is not
    /// among the processes rest.
    pub(super) whole: bool,
    /// Share of that core time in use.
    pub(super) cpu_util: Option<f64>,
    /// Everything else.
    pub(super) sums: Sums,
    /// Who did what.
    pub(super) processes: HashMap<ProcessId, Member>,
}

/// One process in one period.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member {
    pub(super) sums: Sums,
    /// The latest name and place: exec and containers change them.
    pub(super) comm: Comm,
    pub(super) place: Arc<crosstalk_model::Placement>,
}

#[derive(Debug, Default)]
struct Slot {
    known_ns: u64,
    idle_ns: u64,
    /// Rows of it were lost, or stand for more than one process.
    holey: bool,
    sums: Sums,
}

/// Gathers slots until every core has delivered them, then cuts them into periods.
#[derive(Debug)]
pub(super) struct Cutter {
    slot_ns: u64,
    /// Whether waits for a core are measured: then nobody waiting is a wait of 0.
    waits: bool,
    /// Whether it is told who did what; summing that up for nobody costs as much as all the rest.
    by_process: bool,
    /// Where the next period begins; nothing is known before the first slot.
    from_ns: Option<u64>,
    slots: BTreeMap<u64, Slot>,
    processes: BTreeMap<u64, HashMap<ProcessId, Member>>,
    /// Up to where each core has delivered.
    delivered: BTreeMap<u32, u64>,
    late_rows: u64,
}

/// A core that has delivered nothing for so long is not waited for.
const PATIENCE_NS: u64 = 500_000_000;

impl Cutter {
    pub(super) fn new(slot_ns: u64, waits: bool, by_process: bool) -> Self {
        Self {
            slot_ns,
            waits,
            by_process,
            from_ns: None,
            slots: BTreeMap::new(),
            processes: BTreeMap::new(),
            delivered: BTreeMap::new(),
            late_rows: 0,
        }
    }

    pub(super) fn task(&mut self, row: &TaskRow) {
        if self.from_ns.is_some_and(|from_ns| row.slot_start_ns < from_ns) {
            self.late_rows += 1;
            return;
        }
        let all = self.slots.entry(row.slot_start_ns).or_default();
        all.sums.add(&row.task);
        // The row that stands for processes beyond the kernel's table is nobody's.
        let merged = row.task.comm == Comm::OTHER;
        all.holey |= merged;
        if !self.by_process || merged {
            return;
        }
        let slot = self.processes.entry(row.slot_start_ns).or_default();
        let member = slot.entry(row.task.process).or_insert_with(|| Member {
            sums: Sums::default(),
            comm: row.task.comm,
            place: Arc::clone(&row.place),
        });
        member.sums.add(&row.task);
    }

    pub(super) fn slot(&mut self, slot: &SlotCoverage, period_ns: u64) {
        let from_ns = *self.from_ns.get_or_insert(slot.slot_start_ns.next_multiple_of(period_ns));
        let delivered = self.delivered.entry(slot.core).or_default();
        *delivered = (*delivered).max(slot.slot_start_ns + self.slot_ns);
        if slot.slot_start_ns < from_ns {
            return;
        }
        let all = self.slots.entry(slot.slot_start_ns).or_default();
        match slot.idle_ns {
            Some(idle_ns) if slot.lost == 0 => {
                all.known_ns += self.slot_ns;
                all.idle_ns += idle_ns;
            }
            // Where rows were lost the rest says too little: that time of that core is not known.
            _ => all.holey = true,
        }
    }

    /// Rows that came after their period was cut, since the last call.
    pub(super) fn take_late_rows(&mut self) -> u64 {
        std::mem::take(&mut self.late_rows)
    }

    /// Up to where periods may be cut: all cores have delivered, or patience has ended.
    fn settled_ns(&self, now_ns: u64) -> u64 {
        let patience_ended = now_ns.saturating_sub(PATIENCE_NS);
        let delivered = self.delivered.values().min().copied().unwrap_or(0);
        delivered.max(patience_ended).min(now_ns)
    }

    /// The next period of about `period_ns`, if that much is settled, on a machine with these cores online.
    pub(super) fn cut(&mut self, period_ns: u64, online: &[u32], now_ns: u64) -> Option<Cut> {
        // A core that was taken offline delivers no more, and is not missed.
        self.delivered.retain(|core, _| online.contains(core));
        let period_ns = period_ns.div_ceil(self.slot_ns) * self.slot_ns;
        let end_ns = self.from_ns? + period_ns;
        if end_ns > self.settled_ns(now_ns) {
            return None;
        }
        self.from_ns = Some(end_ns);
        let mut all = Slot::default();
        for slot in take_before(&mut self.slots, end_ns).values() {
            all.known_ns += slot.known_ns;
            all.idle_ns += slot.idle_ns;
            all.holey |= slot.holey;
            all.sums.merge(&slot.sums);
        }
        let mut processes: HashMap<ProcessId, Member> = HashMap::new();
        for (process, member) in take_before(&mut self.processes, end_ns).into_values().flatten() {
            match processes.get_mut(&process) {
                None => drop(processes.insert(process, member)),
                Some(known) => {
                    known.sums.merge(&member.sums);
                    (known.comm, known.place) = (member.comm, member.place);
                }
            }
        }
        let cores = (online.len() as u64).max(1);
        let measured_ns = (all.known_ns / cores).min(period_ns);
        let idle = all.idle_ns as f64 / all.known_ns as f64;
        let cpu_util = (all.known_ns > 0).then(|| (1.0 - idle).clamp(0.0, 1.0));
        // An idle slot has no rows, and that is known: nobody waited in it.
        if all.known_ns > 0 && self.waits {
            all.sums.runq_wait_ns.get_or_insert(0);
        }
        Some(Cut {
            end_ns,
            measured_ns,
            core_ns: all.known_ns,
            whole: !all.holey && all.known_ns >= cores * period_ns,
            cpu_util,
            sums: all.sums,
            processes,
        })
    }
}

/// What lies before `end_ns`.
fn take_before<T>(slots: &mut BTreeMap<u64, T>, end_ns: u64) -> BTreeMap<u64, T> {
    let later = slots.split_off(&end_ns);
    std::mem::replace(slots, later)
}

#[cfg(test)]
mod tests {
    use super::super::sums::tests::task;
    use super::*;

    const LATER: u64 = 10_000 + PATIENCE_NS;

    fn slot(slot_start_ns: u64, core: u32, idle_ns: Option<u64>) -> SlotCoverage {
        SlotCoverage { idle_ns, ..SlotCoverage::lost(slot_start_ns, core, 0) }
    }

    fn row(slot_start_ns: u64, core: u32, on_cpu_ns: u64) -> TaskRow {
        TaskRow::new(task(slot_start_ns, core, on_cpu_ns), Arc::default())
    }

    #[test]
    fn a_period_waits_for_the_slowest_core_and_holds_exactly_its_slots() {
        let mut cutter = Cutter::new(10, true, true);
        for at in [100, 110, 120] {
            cutter.task(&row(at, 0, 10));
            cutter.slot(&slot(at, 0, Some(0)), 20);
        }
        cutter.slot(&slot(100, 1, Some(10)), 20);
        assert_eq!(cutter.cut(20, &[0, 1], 130), None);
        cutter.slot(&slot(110, 1, Some(10)), 20);
        let cut = cutter.cut(20, &[0, 1], 130).unwrap();
        assert_eq!((cut.end_ns, cut.measured_ns, cut.cpu_util), (120, 20, Some(0.5)));
        assert_eq!((cut.sums.on_cpu_ns, cut.processes.len()), (20, 1));
        cutter.task(&row(110, 1, 10));
        assert_eq!(cutter.take_late_rows(), 1);
    }

    #[test]
    fn what_was_lost_and_a_core_that_went_silent_are_not_measured() {
        let mut cutter = Cutter::new(10, true, true);
        cutter.slot(&slot(100, 0, Some(5)), 20);
        cutter.slot(&slot(110, 0, Some(5)), 20);
        cutter.slot(&slot(100, 1, None), 20);
        assert_eq!(cutter.cut(20, &[0, 1], 200), None);
        let cut = cutter.cut(20, &[0, 1], LATER).unwrap();
        assert_eq!((cut.cpu_util, cut.measured_ns), (Some(0.5), 10), "one core of two");

        // Rows lost in a slot leave its sums too small: that core's time is unknown.
        let lossy = SlotCoverage { lost: 3, ..slot(120, 0, Some(1)) };
        cutter.slot(&lossy, 20);
        cutter.slot(&slot(120, 1, Some(10)), 20);
        let cut = cutter.cut(20, &[0, 1], LATER).unwrap();
        assert_eq!((cut.cpu_util, cut.measured_ns), (Some(0.0), 5), "a slot of one core, of two");
    }

    #[test]
    fn a_period_of_which_nothing_came_is_no_period_of_rest() {
        let mut cutter = Cutter::new(10, true, true);
        cutter.slot(&slot(80, 0, Some(0)), 20);
        let _ = cutter.cut(20, &[0], LATER);
        let cut = cutter.cut(20, &[0], LATER).unwrap();
        assert_eq!((cut.cpu_util, cut.measured_ns), (None, 0));
        assert_eq!(cut.sums.runq_wait_ns, None);
    }

    #[test]
    fn nobody_waiting_in_an_idle_slot_is_a_wait_of_zero_where_waits_are_measured() {
        for (waits, wait) in [(true, Some(0)), (false, None)] {
            let mut cutter = Cutter::new(10, waits, true);
            cutter.slot(&slot(100, 0, Some(10)), 10);
            let cut = cutter.cut(10, &[0], 110).unwrap();
            assert_eq!((cut.cpu_util, cut.sums.runq_wait_ns), (Some(0.0), wait));
        }
    }

    #[test]
    fn a_core_that_was_taken_offline_is_neither_waited_for_nor_missed() {
        let mut cutter = Cutter::new(10, true, true);
        cutter.slot(&slot(100, 1, Some(0)), 20);
        for at in [100, 110] {
            cutter.slot(&slot(at, 0, Some(0)), 20);
        }
        let cut = cutter.cut(20, &[0], 120).unwrap();
        assert_eq!(cut.measured_ns, 20);
    }
}
