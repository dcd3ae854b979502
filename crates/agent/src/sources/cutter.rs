//! Slots into samples: pure, so it is tested without a kernel.

use super::aggregate::Sums;
use crosstalk_model::{SlotCoverage, TaskReading};
use std::collections::BTreeMap;

/// One sample of the node.
#[derive(Debug, PartialEq)]
pub(super) struct Cut {
    /// Its end, Unix time as the kernel programs count it.
    pub(super) end_ns: u64,
    /// What it covers.
    pub(super) covers_ns: u64,
    /// Share of core time in use, of what is known.
    pub(super) cpu_util: Option<f64>,
    /// Whether anything at all is known of it; if not, its sums are no zeros.
    pub(super) is_known: bool,
    /// Everything else.
    pub(super) sums: Sums,
}

#[derive(Debug, Default)]
struct Slot {
    known_ns: u64,
    idle_ns: u64,
    sums: Sums,
}

/// Gathers slots until every core has delivered them, then cuts them into samples.
#[derive(Debug)]
pub(super) struct Cutter {
    slot_ns: u64,
    /// Whether waits for a core are measured: then nobody waiting is a wait of 0.
    waits: bool,
    /// Where the next sample begins.
    from_ns: u64,
    slots: BTreeMap<u64, Slot>,
    /// Up to where each core has delivered.
    delivered: BTreeMap<u32, u64>,
    late_rows: u64,
}

/// A core that has delivered nothing for so long is not waited for.
const PATIENCE_NS: u64 = 500_000_000;

impl Cutter {
    pub(super) fn new(slot_ns: u64, from_ns: u64, waits: bool) -> Self {
        let (slots, delivered) = (BTreeMap::new(), BTreeMap::new());
        Self { slot_ns, waits, from_ns, slots, delivered, late_rows: 0 }
    }

    pub(super) fn task(&mut self, task: &TaskReading) {
        if task.slot_start_ns < self.from_ns {
            self.late_rows += 1;
            return;
        }
        self.slots.entry(task.slot_start_ns).or_default().sums.add(task);
    }

    pub(super) fn slot(&mut self, slot: &SlotCoverage) {
        let delivered = self.delivered.entry(slot.core).or_default();
        *delivered = (*delivered).max(slot.slot_start_ns + self.slot_ns);
        if slot.slot_start_ns < self.from_ns {
            return;
        }
        if let Some(idle_ns) = slot.idle_ns {
            let known = self.slots.entry(slot.slot_start_ns).or_default();
            known.known_ns += self.slot_ns;
            known.idle_ns += idle_ns;
        }
    }

    /// Rows that came after their sample was cut.
    pub(super) fn late_rows(&self) -> u64 {
        self.late_rows
    }

    /// Up to where samples may be cut: all cores have delivered, or patience has ended.
    pub(super) fn settled_ns(&self, now_ns: u64) -> u64 {
        let patience_ended = now_ns.saturating_sub(PATIENCE_NS);
        let delivered = self.delivered.values().min().copied().unwrap_or(0);
        delivered.max(patience_ended).min(now_ns)
    }

    /// The next sample of about `period_ns`, if that much is settled.
    pub(super) fn cut(&mut self, period_ns: u64, now_ns: u64) -> Option<Cut> {
        let period_ns = period_ns.div_ceil(self.slot_ns) * self.slot_ns;
        let end_ns = self.from_ns + period_ns;
        if end_ns > self.settled_ns(now_ns) {
            return None;
        }
        let later = self.slots.split_off(&end_ns);
        let taken = std::mem::replace(&mut self.slots, later);
        self.from_ns = end_ns;
        let mut all = Slot::default();
        for slot in taken.values() {
            all.known_ns += slot.known_ns;
            all.idle_ns += slot.idle_ns;
            all.sums.merge(&slot.sums);
        }
        let idle = all.idle_ns as f64 / all.known_ns as f64;
        let cpu_util = (all.known_ns > 0).then(|| (1.0 - idle).clamp(0.0, 1.0));
        // An idle slot has no rows, and that is known: nobody waited in it.
        if all.known_ns > 0 && self.waits {
            all.sums.runq_wait_ns.get_or_insert(0);
        }
        let is_known = !taken.is_empty();
        Some(Cut { end_ns, covers_ns: period_ns, cpu_util, is_known, sums: all.sums })
    }
}

#[cfg(test)]
mod tests {
    use super::super::aggregate::tests::task;
    use super::*;

    fn slot(slot_start_ns: u64, core: u32, idle_ns: Option<u64>) -> SlotCoverage {
        SlotCoverage { slot_start_ns, core, idle_ns, events: 0, lost: 0, tick_late_ns: None }
    }

    #[test]
    fn a_sample_waits_for_the_slowest_core_and_holds_exactly_its_slots() {
        let mut cutter = Cutter::new(10, 100, true);
        for at in [100, 110, 120] {
            cutter.slot(&slot(at, 0, Some(0)));
            cutter.task(&task(at, 0, 10));
        }
        cutter.slot(&slot(100, 1, Some(10)));
        assert_eq!(cutter.cut(20, 130), None);
        cutter.slot(&slot(110, 1, Some(10)));
        let cut = cutter.cut(20, 130).unwrap();
        assert_eq!((cut.end_ns, cut.covers_ns, cut.cpu_util), (120, 20, Some(0.5)));
        assert_eq!(cut.sums.on_cpu_ns, 20);
        cutter.task(&task(110, 1, 10));
        assert_eq!(cutter.late_rows(), 1);
    }

    #[test]
    fn a_core_that_went_silent_holds_nobody_up_for_ever() {
        let mut cutter = Cutter::new(10, 100, true);
        cutter.slot(&slot(100, 0, Some(5)));
        cutter.slot(&slot(100, 1, None));
        cutter.slot(&slot(110, 0, Some(5)));
        assert_eq!(cutter.cut(20, 200), None);
        let cut = cutter.cut(20, 200 + PATIENCE_NS).unwrap();
        assert_eq!(cut.cpu_util, Some(0.5), "a lost slot is not known, neither busy nor idle");
    }

    #[test]
    fn nothing_known_is_absent() {
        let mut cutter = Cutter::new(10, 100, true);
        let cut = cutter.cut(20, 200 + PATIENCE_NS).unwrap();
        assert_eq!((cut.cpu_util, cut.is_known), (None, false));
        assert_eq!(cut.sums.runq_wait_ns, None);
    }

    #[test]
    fn nobody_waiting_in_an_idle_slot_is_a_wait_of_zero_where_waits_are_measured() {
        for (waits, wait) in [(true, Some(0)), (false, None)] {
            let mut cutter = Cutter::new(10, 100, waits);
            cutter.slot(&slot(100, 0, Some(10)));
            let cut = cutter.cut(10, 110).unwrap();
            assert_eq!((cut.cpu_util, cut.sums.runq_wait_ns), (Some(0.0), wait));
        }
    }
}
