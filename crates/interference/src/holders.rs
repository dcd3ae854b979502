use crate::{Held, Slot, Subject};
use std::collections::VecDeque;

/// Slots that are remembered: longer waits are judged by their end.
const MOST_SLOTS: usize = 64;

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
    /// least `w - (b - n)` and at most `min(w, n)`. What others did not run is nobody's doing.
    pub(crate) fn split(
        &mut self,
        victim: Subject,
        core: u32,
        slot_ns: u64,
        wait_ns: u64,
        mut take: impl FnMut(Held),
    ) {
        let begin_ns = slot_ns.saturating_sub(wait_ns);
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
        let beyond =
            if slots.len() == MOST_SLOTS && left > 0.0 { wait / busy.max(1.0) } else { 1.0 };
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

    #[test]
    fn a_wait_on_an_idle_core_is_nobodys_fault() {
        let mut holders = Holders::default();
        holders.split(Subject(0), 3, 100 * MS, 5 * MS, |held| panic!("{held:?}"));
    }
}
