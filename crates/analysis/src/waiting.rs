//! Rows that wait until everything of their time has certainly been read.

use crate::in_slots::Span;
use std::collections::VecDeque;

/// More than a row is later than its neighbours in a file, unless its recorder was held up.
pub(crate) const HORIZON_NS: u64 = 2_000_000_000;
/// What is waited for at most: a minute of a busy node fits into memory, and later rows are not a recorder's.
pub(crate) const LONGEST_HORIZON_NS: u64 = 60_000_000_000;

/// Rows in short spans of time, the earliest first, each as it came. A row is only put behind the one before it in its
/// span, so that memory is written from front to back; slots come into order when the span is whole, which is little
/// enough to lie in a core's own cache.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    spans: VecDeque<Span<T>>,
    /// Where the last row went.
    last: usize,
    /// How much later a row may come than those of its time.
    horizon_ns: u64,
    newest_ns: u64,
    /// Rows before this were handed out.
    passed_ns: u64,
    /// Rows that came after those of their time were handed out.
    pub(crate) late: u64,
    /// The horizon with which none of them would have been late, but for those that no horizon is long enough for.
    pub(crate) enough_ns: u64,
    /// Memory of spans that were handed out, for those to come.
    spare: Vec<Span<T>>,
}

impl<T> Waiting<T> {
    pub(crate) fn new(horizon_ns: u64) -> Self {
        Self {
            spans: VecDeque::new(),
            last: 0,
            horizon_ns,
            newest_ns: 0,
            passed_ns: 0,
            late: 0,
            enough_ns: 0,
            spare: Vec::new(),
        }
    }

    /// Adds a row.
    #[inline]
    pub(crate) fn push(&mut self, slot_ns: u64, row: T) {
        self.newest_ns = self.newest_ns.max(slot_ns);
        if slot_ns < self.passed_ns {
            self.late += 1;
            // One that no horizon is long enough for must not keep the others from theirs.
            let behind_ns = self.newest_ns - slot_ns;
            if behind_ns <= LONGEST_HORIZON_NS {
                self.enough_ns = self.enough_ns.max(behind_ns);
            }
            return;
        }
        match self.spans.get_mut(self.last) {
            Some(span) if span.holds(slot_ns) => span.push(slot_ns, row),
            _ => {
                self.last = self.place(slot_ns);
                self.spans[self.last].push(slot_ns, row);
            }
        }
    }

    /// Rows up to this slot were read, whether or not they are wanted.
    pub(crate) fn reach(&mut self, slot_ns: u64) {
        self.newest_ns = self.newest_ns.max(slot_ns);
    }

    /// Whether everything that begins no later than this has certainly been read.
    pub(crate) fn is_past(&self, until_ns: u64) -> bool {
        Span::<T>::end_of(until_ns).saturating_add(self.horizon_ns) <= self.newest_ns
    }

    /// Where the span of a slot is. Spans mostly follow one another without a gap.
    fn place(&mut self, slot_ns: u64) -> usize {
        let number = Span::<T>::number_of(slot_ns);
        let first = self.spans.front().map_or(number, |span| span.number);
        let guess = number.saturating_sub(first) as usize;
        if self.spans.get(guess).is_some_and(|span| span.number == number) {
            return guess;
        }
        let searched = self.spans.binary_search_by_key(&number, |span| span.number);
        searched.unwrap_or_else(|at| {
            let mut span = self.spare.pop().unwrap_or_default();
            span.number = number;
            self.spans.insert(at, span);
            at
        })
    }

    /// Takes the earliest span out, if no more rows of it are to be expected: those of one that is this old, or of any
    /// if all `are_in`.
    pub(crate) fn pop_whole(&mut self, are_in: bool) -> Option<Span<T>> {
        let end_ns = self.spans.front()?.end_ns();
        if !are_in && end_ns.saturating_add(self.horizon_ns) > self.newest_ns {
            return None;
        }
        self.passed_ns = end_ns;
        self.last = self.last.saturating_sub(1);
        self.spans.pop_front()
    }

    /// Gives the memory of a span back.
    pub(crate) fn recycle(&mut self, mut span: Span<T>) {
        span.clear();
        self.spare.push(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;

    #[test]
    fn a_span_is_handed_out_two_seconds_after_its_end_and_what_comes_later_is_counted() {
        let mut waiting = Waiting::new(HORIZON_NS);
        for slot in [3, 1, 2] {
            waiting.push(SECOND + slot * MS, slot);
        }
        assert!(waiting.pop_whole(false).is_none());
        waiting.push(3 * SECOND + 2 * MS, 0);
        assert!(waiting.pop_whole(false).is_none(), "more of its time may come");
        waiting.push(3 * SECOND + 100 * MS, 0);
        assert!(waiting.pop_whole(false).is_some());
        assert!(waiting.pop_whole(false).is_none());
        waiting.push(SECOND, 7);
        assert_eq!(waiting.late, 1);
        assert_eq!(waiting.enough_ns, 2 * SECOND + 100 * MS);
        assert!(waiting.pop_whole(true).is_some(), "all are in");
    }

    #[test]
    fn with_the_horizon_that_is_enough_nothing_is_late() {
        let late = |horizon_ns: u64| {
            let mut waiting = Waiting::new(horizon_ns);
            for at in
                [10 * SECOND, 17 * SECOND + 3 * MS, 10 * SECOND + 1, 30 * SECOND, 23 * SECOND + 1]
            {
                waiting.push(at, ());
                while waiting.pop_whole(false).is_some() {}
            }
            (waiting.late, waiting.enough_ns)
        };
        let (rows, enough_ns) = late(HORIZON_NS);
        assert_eq!((rows, enough_ns), (1, 7 * SECOND + 3 * MS - 1));
        assert_eq!(late(enough_ns), (0, 0));
    }

    #[test]
    fn a_row_that_is_too_late_for_any_horizon_does_not_hide_what_the_others_need() {
        let mut waiting = Waiting::new(HORIZON_NS);
        for at in [10, 100, 10, 107, 100, 10] {
            waiting.push(at * SECOND, ());
            while waiting.pop_whole(false).is_some() {}
        }
        assert_eq!((waiting.late, waiting.enough_ns), (3, 7 * SECOND));
    }

    #[test]
    fn what_lies_far_apart_or_at_the_end_of_time_is_kept_in_order() {
        let mut waiting = Waiting::new(HORIZON_NS);
        for at in [i64::MAX as u64, 0, 1 << 40, SECOND] {
            waiting.push(at, at);
        }
        assert!(waiting.is_past(SECOND) && !waiting.is_past(u64::MAX - 1));
        let mut ends = Vec::new();
        while let Some(span) = waiting.pop_whole(true) {
            ends.push(span.end_ns());
            waiting.recycle(span);
        }
        assert!(ends.is_sorted() && ends.len() == 4, "{ends:?}");
    }
}
