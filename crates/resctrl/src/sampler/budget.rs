//! How many values may be read in a slot. Pure.

/// The budget can be saved up for so many slots, so that one late slot can be made good but no burst follows a pause.
const MOST_SLOTS_SAVED: f64 = 4.0;
/// Weight of the last slot in the running cost of a read.
const SMOOTHING: f64 = 0.1;
/// Occupancy and two counters.
const READS_OF_A_LOOK: usize = 3;
/// Before anything was measured: about what the kernel needs.
const FIRST_GUESS_NS: f64 = 1_000.0;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Budget {
    per_slot_ns: f64,
    slot_ns: u64,
    saved_ns: f64,
    cost_ns: f64,
    last_slot: Option<u64>,
}

impl Budget {
    pub(super) fn new(slot_ns: u64, cpu_share: f64) -> Self {
        let per_slot_ns = slot_ns as f64 * cpu_share.clamp(0.0, 1.0);
        let (saved_ns, last_slot) = (0.0, None);
        Self { per_slot_ns, slot_ns: slot_ns.max(1), saved_ns, cost_ns: FIRST_GUESS_NS, last_slot }
    }

    /// How many reads fit into this slot.
    pub(super) fn allowance(&mut self, slot_start_ns: u64) -> usize {
        let passed =
            self.last_slot.map_or(1, |last| slot_start_ns.saturating_sub(last) / self.slot_ns);
        self.last_slot = Some(slot_start_ns);
        let most = self.per_slot_ns * MOST_SLOTS_SAVED;
        self.saved_ns = (self.saved_ns + passed as f64 * self.per_slot_ns).min(most);
        // Where even one look costs more than can be saved up, it is made on credit and paid back over later slots.
        let least = if self.saved_ns >= most { READS_OF_A_LOOK } else { 0 };
        if self.saved_ns <= 0.0 { 0 } else { ((self.saved_ns / self.cost_ns) as usize).max(least) }
    }

    pub(super) fn spent(&mut self, reads: usize, cpu_ns: u64) {
        self.saved_ns -= cpu_ns as f64;
        if reads > 0 {
            let cost = (cpu_ns as f64 / reads as f64).max(1.0);
            self.cost_ns += (cost - self.cost_ns) * SMOOTHING;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_share_is_kept_over_time_whatever_a_read_costs(cost in 100u64..400_000, wanted in 1usize..500) {
            let mut budget = Budget::new(1_000_000, 0.05);
            let (mut cpu, slots) = (0, 40_000u64);
            for slot in 0..slots {
                let reads = budget.allowance(slot * 1_000_000).min(wanted);
                budget.spent(reads, reads as u64 * cost);
                cpu += reads as u64 * cost;
            }
            let share = cpu as f64 / (slots * 1_000_000) as f64;
            prop_assert!(share <= 0.052, "{share}");
            // And it is used where there is use for it.
            let possible = (wanted as f64 * cost as f64 / 1e6).min(0.05);
            prop_assert!(share >= 0.8 * possible, "{share} of {possible}");
        }
    }

    #[test]
    fn sixty_four_values_of_a_microsecond_do_not_fit_but_fifty_do() {
        let mut budget = Budget::new(1_000_000, 0.05);
        assert_eq!(budget.allowance(0), 50);
    }

    #[test]
    fn a_pause_is_not_followed_by_a_burst() {
        let mut budget = Budget::new(1_000_000, 0.05);
        budget.allowance(0);
        assert!(budget.allowance(3_600_000_000_000) <= 4 * 50);
    }
}
