use crate::{Activity, Burst, Observer, Slot, Subject};
use std::collections::BTreeMap;

/// Slots that may wait. Beyond, the oldest are handed over as they are.
const MOST_SLOTS: usize = 16_384;

/// Puts rows of several data sets, each of which comes in its own time, together into whole slots.
///
/// A slot is whole once something `horizon_ns` younger has come: by then every source has delivered what it had of it.
/// Rows of a slot that was handed over already are late, and counted.
///
/// ```
/// use crosstalk_interference::{Activity, Assembly, Observer, Settings, Subject, Topology};
///
/// let mut observer = Observer::new(Topology::one_cache(2), Settings::live(30));
/// let mut assembly = Assembly::new(1_000_000, 2_000_000_000);
/// assembly.activity(7_000_000, Activity::new(Subject(0), 0, 400_000));
/// assert_eq!(assembly.hand_over(&mut observer), 0, "more of this slot may come");
/// assembly.activity(3_000_000_000, Activity::new(Subject(0), 0, 400_000));
/// assert_eq!(assembly.hand_over(&mut observer), 1);
/// ```
#[derive(Debug)]
pub struct Assembly {
    length_ns: u64,
    horizon_ns: u64,
    waiting: BTreeMap<u64, Parts>,
    newest_ns: u64,
    passed_ns: u64,
    late: u64,
}

/// All that has come of one slot.
#[derive(Debug, Default)]
struct Parts {
    lost: bool,
    entries: Vec<Activity>,
    stolen: Option<Vec<(u32, u64)>>,
    progress: Vec<(Subject, f64)>,
    throttled: Vec<(Subject, u64)>,
    bursts: Vec<Burst>,
}

impl Assembly {
    /// For slots of `length_ns`.
    pub fn new(length_ns: u64, horizon_ns: u64) -> Self {
        let length_ns = length_ns.max(1);
        Self {
            length_ns,
            horizon_ns,
            waiting: BTreeMap::new(),
            newest_ns: 0,
            passed_ns: 0,
            late: 0,
        }
    }

    /// Somebody ran.
    pub fn activity(&mut self, slot_ns: u64, activity: Activity) {
        self.newest_ns = self.newest_ns.max(slot_ns);
        if let Some(parts) = self.parts(slot_ns) {
            parts.entries.push(activity);
        }
    }

    /// Rows of the slot were lost.
    pub fn lost(&mut self, slot_ns: u64) {
        if let Some(parts) = self.parts(slot_ns) {
            parts.lost = true;
        }
    }

    /// The probe measured memory.
    pub fn burst(&mut self, slot_ns: u64, burst: Burst) {
        if let Some(parts) = self.parts(slot_ns) {
            parts.bursts.push(burst);
        }
    }

    /// The hypervisor took time from a core.
    pub fn stolen(&mut self, slot_ns: u64, core: u32, ns: u64) {
        if let Some(parts) = self.parts(slot_ns) {
            parts.stolen.get_or_insert_default().push((core, ns));
        }
    }

    /// A subject was stopped for its own quota.
    pub fn throttled(&mut self, slot_ns: u64, subject: Subject, ns: u64) {
        if let Some(parts) = self.parts(slot_ns) {
            parts.throttled.push((subject, ns));
        }
    }

    /// A subject says that it finished so many units of work.
    pub fn progress(&mut self, slot_ns: u64, subject: Subject, units: f64) {
        if let Some(parts) = self.parts(slot_ns) {
            parts.progress.push((subject, units));
        }
    }

    /// Gives every slot that is whole to the observer, in order; how many these were.
    pub fn hand_over(&mut self, observer: &mut Observer) -> usize {
        let mut handed = 0;
        while let Some(first) = self.waiting.first_entry() {
            let start_ns = *first.key();
            let is_whole = start_ns.saturating_add(self.horizon_ns) <= self.newest_ns;
            if !is_whole && self.waiting.len() <= MOST_SLOTS {
                break;
            }
            let Some((_, parts)) = self.waiting.pop_first() else { break };
            self.passed_ns = start_ns;
            observer.push(&Slot {
                start_ns,
                length_ns: self.length_ns,
                lost: parts.lost,
                entries: &parts.entries,
                stolen: parts.stolen.as_deref(),
                progress: &parts.progress,
                throttled: &parts.throttled,
                bursts: &parts.bursts,
            });
            handed += 1;
        }
        handed
    }

    /// Rows that came after their slot had been handed over.
    pub const fn late(&self) -> u64 {
        self.late
    }

    fn parts(&mut self, slot_ns: u64) -> Option<&mut Parts> {
        // A clock that was set back by more than the horizon starts anew.
        if self.passed_ns > slot_ns.saturating_add(self.horizon_ns.saturating_mul(2)) {
            (self.passed_ns, self.newest_ns) = (0, slot_ns);
            self.waiting.clear();
        }
        if slot_ns <= self.passed_ns && self.passed_ns > 0 {
            self.late += 1;
            return None;
        }
        Some(self.waiting.entry(slot_ns).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, Topology};

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    fn observer() -> Observer {
        Observer::new(Topology::one_cache(2), Settings::live(30))
    }

    #[test]
    fn what_comes_out_of_order_within_the_horizon_is_put_in_order_and_what_is_later_is_counted() {
        let (mut observer, mut assembly) = (observer(), Assembly::new(MS, 2 * SECOND));
        let ran = Activity::new(Subject(0), 0, MS);
        for slot in [3, 1, 2] {
            assembly.activity(slot * MS, ran);
        }
        assembly.stolen(2 * MS, 0, 5);
        assembly.activity(2 * SECOND + 2 * MS, ran);
        assert_eq!(assembly.hand_over(&mut observer), 2, "slots 1 and 2 are whole, 3 is not");
        assembly.activity(2 * MS, ran);
        assert_eq!((assembly.late(), observer.late()), (1, 0));
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_make_all_that_follows_late() {
        let (mut observer, mut assembly) = (observer(), Assembly::new(MS, 2 * SECOND));
        let ran = Activity::new(Subject(0), 0, MS);
        for slot in [100, 103, 106] {
            assembly.activity(slot * SECOND, ran);
        }
        assert_eq!(assembly.hand_over(&mut observer), 2);
        assembly.activity(50 * SECOND, ran);
        assembly.activity(53 * SECOND, ran);
        assert_eq!((assembly.hand_over(&mut observer), assembly.late()), (1, 0));
    }

    #[test]
    fn what_waits_is_bounded_whatever_the_slots_say() {
        let (mut observer, mut assembly) = (observer(), Assembly::new(MS, u64::MAX));
        for slot in 1..3 * MOST_SLOTS as u64 {
            assembly.activity(slot * MS, Activity::new(Subject(0), 0, MS));
            assembly.hand_over(&mut observer);
        }
        assert!(assembly.waiting.len() <= MOST_SLOTS);
    }
}
