//! How many values may be read in a slot. Pure.

/// The budget can be saved up for so many slots, so that one late slot can be made good but no burst follows a pause.
const MOST_SLOTS_SAVED: f64 = 4.0;
/// Weight of the last slot in the running costs.
const SMOOTHING: f64 = 0.1;
/// Occupancy and two counters.
const READS_OF_A_LOOK: usize = 3;
/// Before anything was measured: about what the kernel needs.
const FIRST_GUESS_NS: f64 = 1_000.0;

/// A share of a processor, spent on finding out who is due, which costs the more the more groups there are, and on
/// reading them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Budget {
    per_slot_ns: f64,
    slot_ns: u64,
    saved_ns: f64,
    planning_ns: f64,
    read_ns: f64,
    last_slot: Option<u64>,
}

impl Budget {
    pub(super) fn new(slot_ns: u64, cpu_share: f64) -> Self {
        Self {
            per_slot_ns: slot_ns as f64 * cpu_share.clamp(0.0, 1.0),
            slot_ns: slot_ns.max(1),
            saved_ns: 0.0,
            planning_ns: 0.0,
            read_ns: FIRST_GUESS_NS,
            last_slot: None,
        }
    }

    /// Whether there is enough for this slot. Planning is not worth its cost where less than that and less than one look
    /// is left for reading: the budget is then saved for the next.
    pub(super) fn begin(&mut self, slot_start_ns: u64) -> bool {
        let passed =
            self.last_slot.map_or(1, |last| slot_start_ns.saturating_sub(last) / self.slot_ns);
        // A slot from before the last one brings nothing, and is not paid for again afterwards.
        self.last_slot = self.last_slot.max(Some(slot_start_ns));
        self.saved_ns = (self.saved_ns + passed as f64 * self.per_slot_ns).min(self.most_ns());
        let reading_ns = self.planning_ns.max(READS_OF_A_LOOK as f64 * self.read_ns);
        self.saved_ns >= self.planning_ns + reading_ns || self.is_full()
    }

    /// How many reads fit into this slot, now that it is planned.
    pub(super) fn reads(&self, planning_ns: u64) -> usize {
        let planning_ns = planning_ns as f64;
        // Where more cannot be saved up, reading is on credit and paid back over later slots: as much as planning took,
        // and one look at least.
        let left_ns = (self.saved_ns - planning_ns).max(planning_ns);
        let least = if self.is_full() { READS_OF_A_LOOK } else { 0 };
        ((left_ns / self.read_ns) as usize).max(least)
    }

    pub(super) fn spent(&mut self, planning_ns: u64, reads: usize, reading_ns: u64) {
        self.saved_ns -= (planning_ns + reading_ns) as f64;
        self.planning_ns += (planning_ns as f64 - self.planning_ns) * SMOOTHING;
        if reads > 0 {
            let read_ns = (reading_ns as f64 / reads as f64).max(1.0);
            self.read_ns += (read_ns - self.read_ns) * SMOOTHING;
        }
    }

    fn most_ns(&self) -> f64 {
        self.per_slot_ns * MOST_SLOTS_SAVED
    }

    fn is_full(&self) -> bool {
        self.saved_ns >= self.most_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_share_is_kept_over_time_and_used_whatever_planning_and_a_read_cost(
            planning in 0u64..400_000, read in 100u64..400_000, wanted in 1usize..500
        ) {
            let mut budget = Budget::new(1_000_000, 0.05);
            let (mut cpu, mut made, slots) = (0, 0, 40_000u64);
            for slot in 0..slots {
                if !budget.begin(slot * 1_000_000) {
                    continue;
                }
                let reads = budget.reads(planning).min(wanted);
                budget.spent(planning, reads, reads as u64 * read);
                cpu += planning + reads as u64 * read;
                made += reads;
            }
            let share = cpu as f64 / (slots * 1_000_000) as f64;
            prop_assert!(share <= 0.052, "{share}");
            // It is used where there is use for it, and a good part of it for reading.
            let possible = ((wanted as u64 * read + planning) as f64 / 1e6).min(0.05);
            prop_assert!(share >= 0.8 * possible, "{share} of {possible}");
            let reading = made as f64 * read as f64 / cpu as f64;
            let of_a_slot = (wanted as u64 * read) as f64 / (wanted as u64 * read + planning) as f64;
            // The last slot may have been cut short.
            prop_assert!(reading >= 0.999 * of_a_slot.min(0.3), "{reading} {of_a_slot}");
        }
    }

    #[test]
    fn sixty_four_values_of_a_microsecond_do_not_fit_but_fifty_do() {
        let mut budget = Budget::new(1_000_000, 0.05);
        assert!(budget.begin(0));
        assert_eq!(budget.reads(0), 50);
    }

    #[test]
    fn a_pause_is_not_followed_by_a_burst() {
        let mut budget = Budget::new(1_000_000, 0.05);
        budget.begin(0);
        budget.begin(3_600_000_000_000);
        assert!(budget.reads(0) <= 4 * 50);
    }
}
