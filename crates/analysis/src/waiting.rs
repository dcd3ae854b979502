//! Rows that wait for the rest of their slot.

use std::collections::VecDeque;

/// Rows by slot, the earliest first. Slots are mostly equally far apart, so a row's place is guessed from its time and
/// only looked for where that is wrong: a tree would take as long for each row as reading it.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    slots: VecDeque<(u64, Vec<T>)>,
    /// The least distance of two slots so far.
    step_ns: u64,
    /// Rows of the slot handed out last: the next one will have about as many.
    usual: usize,
}

impl<T> Waiting<T> {
    pub(crate) fn new() -> Self {
        Self { slots: VecDeque::new(), step_ns: u64::MAX, usual: 0 }
    }

    /// The earliest slot.
    pub(crate) fn first(&self) -> Option<u64> {
        self.slots.front().map(|(slot_ns, _)| *slot_ns)
    }

    /// Takes the earliest slot out.
    pub(crate) fn pop_first(&mut self) -> Option<(u64, Vec<T>)> {
        let first = self.slots.pop_front()?;
        self.usual = first.1.len();
        Some(first)
    }

    /// Adds a row to its slot.
    #[inline]
    pub(crate) fn push(&mut self, slot_ns: u64, row: T) {
        let first_ns = self.first().unwrap_or(slot_ns);
        let guess = (slot_ns.saturating_sub(first_ns) / self.step_ns) as usize;
        match self.slots.get_mut(guess) {
            Some((at_ns, rows)) if *at_ns == slot_ns => rows.push(row),
            _ => self.search(slot_ns, row),
        }
    }

    fn search(&mut self, slot_ns: u64, row: T) {
        match self.slots.binary_search_by_key(&slot_ns, |(at_ns, _)| *at_ns) {
            Ok(at) => self.slots[at].1.push(row),
            Err(at) => {
                let mut rows = Vec::with_capacity(self.usual);
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
                    assert_eq!(waiting.pop_first(), tree.pop_first());
                }
            }
            while let Some(first) = tree.pop_first() {
                assert_eq!(waiting.pop_first(), Some(first));
            }
            assert_eq!(waiting.pop_first(), None);
        }
    }
}
