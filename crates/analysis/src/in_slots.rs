//! A short span of time, brought into the order of its slots.

/// A span is this long, as a power of two: 67 ms.
const SPAN_BITS: u32 = 26;
/// Half a millisecond, as a power of two: slots of the usual length, or longer, differ in this.
const SLOT_BITS: u32 = 19;
const MOST_SLOTS: usize = 1 << (SPAN_BITS - SLOT_BITS);
/// Fewer rows than this are sorted sooner than counted.
const FEW: usize = 256;

/// Rows of a span, as they came.
#[derive(Debug)]
pub(crate) struct Span<T> {
    pub(crate) number: u64,
    /// Each with where in the span its slot begins.
    rows: Vec<(u32, T)>,
}

impl<T> Default for Span<T> {
    fn default() -> Self {
        Self { number: 0, rows: Vec::new() }
    }
}

impl<T> Span<T> {
    pub(crate) const fn number_of(slot_ns: u64) -> u64 {
        slot_ns >> SPAN_BITS
    }

    #[inline]
    pub(crate) const fn holds(&self, slot_ns: u64) -> bool {
        self.number == Self::number_of(slot_ns)
    }

    #[inline]
    pub(crate) fn push(&mut self, slot_ns: u64, row: T) {
        self.rows.push(((slot_ns & ((1 << SPAN_BITS) - 1)) as u32, row));
    }

    pub(crate) fn clear(&mut self) {
        self.rows.clear();
    }

    const fn start_ns(&self) -> u64 {
        self.number << SPAN_BITS
    }

    /// Where the next span begins.
    pub(crate) const fn end_ns(&self) -> u64 {
        self.start_ns().saturating_add(1 << SPAN_BITS)
    }

    /// Where the span after that of a slot begins.
    pub(crate) const fn end_of(slot_ns: u64) -> u64 {
        (slot_ns | ((1 << SPAN_BITS) - 1)).saturating_add(1)
    }
}

/// Rows by slot, the earliest first; those of a slot in the order in which they came.
#[derive(Debug)]
pub(crate) struct InSlots<T> {
    rows: Vec<T>,
    /// Where each slot begins in time, and where its rows end.
    slots: Vec<(u64, usize)>,
    /// The next to be handed out.
    next: usize,
    /// Places in the span, in the order of slots.
    order: Vec<u32>,
}

impl<T: Copy> InSlots<T> {
    pub(crate) const fn new() -> Self {
        Self { rows: Vec::new(), slots: Vec::new(), next: 0, order: Vec::new() }
    }

    /// Where the next slot begins.
    pub(crate) fn first(&self) -> Option<u64> {
        self.slots.get(self.next).map(|slot| slot.0)
    }

    /// Takes the next slot out.
    pub(crate) fn pop_first(&mut self) -> Option<(u64, &[T])> {
        let &(start_ns, end) = self.slots.get(self.next)?;
        let before = self.next.checked_sub(1).map_or(0, |before| self.slots[before].1);
        self.next += 1;
        Some((start_ns, &self.rows[before..end]))
    }

    /// Takes the rows of a span in place of those it had.
    pub(crate) fn fill(&mut self, span: &Span<T>) {
        self.order.clear();
        if span.rows.len() < FEW || !self.count(&span.rows) {
            let rows = span.rows.iter().zip(0_u32..);
            let mut places: Vec<(u32, u32)> = rows.map(|(row, place)| (row.0, place)).collect();
            places.sort_unstable();
            self.order.clear();
            self.order.extend(places.iter().map(|(_, place)| *place));
        }
        self.rows.clear();
        self.slots.clear();
        self.next = 0;
        let start_ns = span.start_ns();
        for &place in &self.order {
            let (offset, row) = span.rows[place as usize];
            let slot_ns = start_ns + u64::from(offset);
            self.rows.push(row);
            match self.slots.last_mut() {
                Some((at_ns, end)) if *at_ns == slot_ns => *end += 1,
                _ => self.slots.push((slot_ns, self.rows.len())),
            }
        }
    }

    /// Orders rows by counting them, two passes over them in all. False if slots are too close together for that.
    fn count(&mut self, rows: &[(u32, T)]) -> bool {
        let mut ends = [0_u32; MOST_SLOTS];
        let mut offsets = [u32::MAX; MOST_SLOTS];
        for (offset, _) in rows {
            let slot = (offset >> SLOT_BITS) as usize;
            ends[slot] += 1;
            let known = &mut offsets[slot];
            if *known != *offset {
                if *known != u32::MAX {
                    return false;
                }
                *known = *offset;
            }
        }
        let mut before = 0;
        for end in &mut ends {
            (*end, before) = (before, before + *end);
        }
        self.order.resize(rows.len(), 0);
        for ((offset, _), place) in rows.iter().zip(0_u32..) {
            let next = &mut ends[(offset >> SLOT_BITS) as usize];
            self.order[*next as usize] = place;
            *next += 1;
        }
        true
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
        let mut in_slots = InSlots::new();
        // Few and many; in steps of a usual slot, of a tenth of one, and anywhere.
        for (many, step_ns) in [(40, 1_000_000), (3_000, 1_000_000), (3_000, 100_000), (3_000, 1)] {
            let start_ns = 1_767_225_600_000_000_000 >> SPAN_BITS << SPAN_BITS;
            let mut span = Span { number: Span::<u64>::number_of(start_ns), rows: Vec::new() };
            let mut tree = BTreeMap::<u64, Vec<u64>>::new();
            for row in 0..many {
                let slot_ns = start_ns + draw((1 << SPAN_BITS) / step_ns) * step_ns;
                assert!(span.holds(slot_ns));
                span.push(slot_ns, row);
                tree.entry(slot_ns).or_default().push(row);
            }
            in_slots.fill(&span);
            while let Some((slot_ns, rows)) = tree.pop_first() {
                assert_eq!(in_slots.first(), Some(slot_ns));
                assert_eq!(in_slots.pop_first(), Some((slot_ns, &rows[..])));
            }
            assert_eq!((in_slots.first(), in_slots.pop_first()), (None, None));
        }
    }
}
