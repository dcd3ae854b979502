//! Rows of a data set in the order of their slots.
//!
//! A file has them in flushes of half a second, each sorted by process; slots of an idle core come later still. So rows
//! wait until everything of their time has certainly been read.

use crate::in_slots::InSlots;
use crate::spans::Supply;

pub(crate) struct Ordered<T, S> {
    pub(crate) spans: S,
    whole: InSlots<T>,
}

impl<T: Copy, S: Supply<T>> Ordered<T, S> {
    pub(crate) const fn new(spans: S) -> Self {
        Self { spans, whole: InSlots::new() }
    }

    /// The next slot with its rows, if it begins no later than `until_ns`.
    pub(crate) fn next_until(&mut self, until_ns: u64) -> Option<(u64, &[T])> {
        while self.whole.first().is_none() {
            let span = self.spans.next_whole(until_ns)?;
            self.whole.fill(&span);
            self.spans.recycle(span);
        }
        if self.whole.first()? > until_ns {
            return None;
        }
        self.whole.pop_first()
    }
}
