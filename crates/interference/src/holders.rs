use crate::{Held, Slot, Subject};
use std::collections::VecDeque;

/// Slots that are remembered: what was waited longer is divided as the last of it is.
pub(crate) const MOST_SLOTS: usize = 64;

/// Who held which core in the last slots, to say for whom a wait that ends now was.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    slots: VecDeque<Tenancies>,
    /// Others on the core, within a wait and within a slot of it: the same memory for every wait.
    ran: Vec<(Subject, f64, f64)>,
    here: Vec<(Subject, f64)>,
}

#[derive(Debug)]
struct Tenancies {
    start_ns: u64,
    length_ns: u64,
    on_cpu: Vec<(u32, Subject, u64)>,
}

impl Holders {
    /// Remembers who ran in the slot.
    pub(crate) fn note(&mut self, slot: &Slot<'_>) {
        // The oldest one's memory is used again: no allocation while running.
        let mut on_cpu = match self.slots.len() {
            MOST_SLOTS => self.slots.pop_front().map(|oldest| oldest.on_cpu).unwrap_or_default(),
            _ => Vec::new(),
        };
        on_cpu.clear();
        let ran = slot.entries.iter().filter(|entry| entry.on_cpu_ns > 0);
        on_cpu.extend(ran.map(|entry| (entry.core, entry.subject, entry.on_cpu_ns)));
        let (start_ns, length_ns) = (slot.start_ns, slot.length_ns);
        self.slots.push_back(Tenancies { start_ns, length_ns, on_cpu });
    }

    /// Splits a wait that ended on `core` in the slot that begins at `slot_ns` among those who held the core.
    ///
    /// A core for which somebody waits is not idle, and the victim does not run while it waits: the wait of length `w`
    /// lies within the time `b` that others ran, latest first. Of it, whoever ran for `n` of `b` held the core for at
    /// least `w - (b - n)` and at most `min(w, n)`. What others did not run is nobody's doing: threads of one subject
    /// wait for each other, too. Only the length of a wait decides whether it began before what is remembered.
    pub(crate) fn split(
        &mut self,
        victim: Subject,
        core: u32,
        slot_ns: u64,
        wait_ns: u64,
        mut take: impl FnMut(Held),
    ) {
        let length_ns = self.slots.back().map_or(0, |slot| slot.length_ns);
        let looked_back_ns = (MOST_SLOTS as u64 - 1).saturating_mul(length_ns);
        let begin_ns = slot_ns.saturating_sub(wait_ns.min(looked_back_ns));
        let overlaps = |t: &&Tenancies| t.start_ns.saturating_add(t.length_ns) > begin_ns;
        let wait = wait_ns as f64;
        let mut left = wait;
        let Self { slots, ran, here } = self;
        ran.clear();
        for slot in slots.iter().rev().take_while(overlaps) {
            let others = slot.on_cpu.iter().filter(|(at, who, _)| *at == core && *who != victim);
            here.clear();
            here.extend(others.map(|&(_, who, ns)| (who, ns as f64)));
            let busy: f64 = here.iter().map(|(_, ns)| ns).sum();
            let covered = left.min(busy);
            left -= covered;
            for &(who, ns) in &*here {
                let known = ran.iter().position(|one| one.0 == who);
                let at = known.unwrap_or_else(|| {
                    ran.push((who, 0.0, 0.0));
                    ran.len() - 1
                });
                ran[at].1 += ns;
                ran[at].2 += covered * ns / busy;
            }
        }
        let busy: f64 = ran.iter().map(|one| one.1).sum();
        // Many threads may have waited longer together than is remembered.
        let most = looked_back_ns.saturating_add(length_ns) as f64;
        let beyond = if wait > most { wait / most.max(1.0) } else { 1.0 };
        for &(subject, ns, best) in &*ran {
            let low = (wait.min(busy) - (busy - ns)).clamp(0.0, best);
            let high = wait.min(ns).max(best);
            let [ns, low_ns, high_ns] = [best, low, high].map(|ns| (ns * beyond) as f32);
            take(Held { subject, ns, low_ns, high_ns });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Activity;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_wait_is_charged_to_whoever_ran_on_that_core_meanwhile() {
        let mut holders = Holders::default();
        for slot in 0..20 {
            let who = if slot < 10 { Subject(1) } else { Subject(2) };
            let entries = [Activity::new(who, 0, MS), Activity::new(Subject(3), 1, MS)];
            let slot =
                Slot { start_ns: slot * MS, length_ns: MS, entries: &entries, ..Slot::default() };
            holders.note(&slot);
        }
        let mut charged = [0.0; 4];
        holders.split(Subject(0), 0, 19 * MS, 5 * MS, |held| {
            assert!(held.low_ns <= held.ns && held.ns <= held.high_ns, "{held:?}");
            charged[held.subject.0 as usize] += f64::from(held.ns);
        });
        assert_eq!(charged[1], 0.0, "it had left before the wait began");
        assert_eq!(charged[3], 0.0, "it ran on another core");
        assert!((charged[2] - 5e6).abs() < 1e3, "{charged:?}");
    }

    /// What subject 1 is charged with of a wait that ended on core 0 after so many slots, in each of which it ran so long
    /// beside subject 0.
    fn charged(slots: u64, holds_ns: impl Fn(u64) -> u64, wait_ns: u64) -> f64 {
        let mut holders = Holders::default();
        for number in 0..slots {
            let held_ns = holds_ns(number);
            let entries =
                [Activity::new(Subject(0), 0, MS - held_ns), Activity::new(Subject(1), 0, held_ns)];
            holders.note(&Slot {
                start_ns: number * MS,
                length_ns: MS,
                entries: &entries,
                ..Slot::default()
            });
        }
        let mut sum = 0.0;
        holders.split(Subject(0), 0, (slots - 1) * MS, wait_ns, |held| {
            assert_eq!(held.subject, Subject(1));
            assert!(held.low_ns <= held.ns && held.ns <= held.high_ns, "{held:?}");
            sum += f64::from(held.ns);
        });
        sum
    }

    #[test]
    fn a_speck_beside_threads_that_wait_for_each_other_is_charged_with_no_more_than_it_ran() {
        let speck = |number: u64| if number == 98 { 20_000 } else { 0 };
        let charged = charged(100, speck, 3 * MS);
        assert!((charged - 20e3).abs() < 1.0, "{charged}");
    }

    #[test]
    fn a_wait_longer_than_is_remembered_is_divided_as_the_last_of_it_is() {
        let all = charged(100, |_| MS, 128 * MS);
        assert!((all - 128e6).abs() < 1e3, "{all}");
        let half = charged(100, |_| MS / 2, 128 * MS);
        assert!((half - 64e6).abs() < 1e3, "{half}");
        let within = charged(100, |_| MS, 64 * MS);
        assert!((within - 64e6).abs() < 1e3, "{within}");
    }

    #[test]
    fn a_wait_on_an_idle_core_is_nobodys_fault() {
        let mut holders = Holders::default();
        holders.split(Subject(0), 3, 100 * MS, 5 * MS, |held| panic!("{held:?}"));
    }
}
