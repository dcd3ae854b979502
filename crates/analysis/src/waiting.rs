//! Rows that wait for the rest of their slot.

use std::collections::VecDeque;

/// Rows by slot, the earliest first. Rows of a process come one slot after the other, and slots are mostly equally far
/// apart: a row's place is the one before's or the next, else guessed from its time, and only looked for where that
/// is wrong. A tree would take as long for each row as reading it.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    slots: VecDeque<(u64, Vec<T>)>,
    /// Where the last row went.
    last: usize,
    /// The least distance of two slots so far.
    step_ns: u64,
    /// The slot handed out last.
    handed: Vec<T>,
    /// Memory of slots that were handed out, for those to come.
    spare: Vec<Vec<T>>,
}

impl<T> Waiting<T> {
    pub(crate) fn new() -> Self {
        let (slots, handed, spare) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { slots, last: 0, step_ns: u64::MAX, handed, spare }
    }

    /// The earliest slot.
    pub(crate) fn first(&self) -> Option<u64> {
        self.slots.front().map(|(slot_ns, _)| *slot_ns)
    }

    /// Takes the earliest slot out.
    pub(crate) fn pop_first(&mut self) -> Option<(u64, &[T])> {
        let (slot_ns, rows) = self.slots.pop_front()?;
        self.last = self.last.saturating_sub(1);
        let mut empty = std::mem::replace(&mut self.handed, rows);
        empty.clear();
        self.spare.push(empty);
        Some((slot_ns, &self.handed))
    }

    /// Adds a row to its slot.
    #[inline]
    pub(crate) fn push(&mut self, slot_ns: u64, row: T) {
        for at in [self.last, self.last + 1] {
            if let Some((at_ns, rows)) = self.slots.get_mut(at)
                && *at_ns == slot_ns
            {
                self.last = at;
                rows.push(row);
                return;
            }
        }
        let first_ns = self.first().unwrap_or(slot_ns);
        let guess = (slot_ns.saturating_sub(first_ns) / self.step_ns) as usize;
        match self.slots.get_mut(guess) {
            Some((at_ns, rows)) if *at_ns == slot_ns => {
                self.last = guess;
                rows.push(row);
            }
            _ => self.search(slot_ns, row),
        }
    }

    fn search(&mut self, slot_ns: u64, row: T) {
        match self.slots.binary_search_by_key(&slot_ns, |(at_ns, _)| *at_ns) {
            Ok(at) => {
                self.last = at;
                self.slots[at].1.push(row);
            }
            Err(at) => {
                self.last = at;
                let mut rows = self.spare.pop().unwrap_or_default();
                rows.push(row);
                self.slots.insert(at, (slot_ns, rows));
                let before = at.checked_sub(1).and_then(|at| self.slots.get(at));
                for other in before.into_iter().chain(self.slots.get(at + 1)) {
                    self.step_ns = self.step_ns.min(other.0.abs_diff(slot_ns)).max(1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn owned((slot_ns, rows): (u64, &[u64])) -> (u64, Vec<u64>) {
        (slot_ns, rows.to_vec())
    }

    #[test]
    fn rows_come_out_as_a_tree_would_have_them_however_they_go_in() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut draw = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        for round in 1..50 {
            let (mut waiting, mut tree) = (Waiting::new(), BTreeMap::<u64, Vec<u64>>::new());
            for row in 0..400 {
                // Some in steps, some in between, some far away.
                let slot_ns = match draw(10) {
                    0 => draw(1_000_000),
                    1 => 1 << 40,
                    _ => draw(round * 3) * 1_000,
                };
                waiting.push(slot_ns, row);
                tree.entry(slot_ns).or_default().push(row);
                if draw(5) == 0 {
                    assert_eq!(waiting.first(), tree.keys().next().copied());
                    let first = tree.pop_first();
                    assert_eq!(waiting.pop_first().map(owned), first);
                }
            }
            while let Some(first) = tree.pop_first() {
                assert_eq!(waiting.pop_first().map(owned), Some(first));
            }
            assert_eq!(waiting.pop_first(), None);
        }
    }
}
