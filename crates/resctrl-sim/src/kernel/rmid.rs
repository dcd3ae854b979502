//! RMIDs: free ones in order of their last use, and those in limbo.

use std::collections::VecDeque;

/// Why no RMID could be had.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoRmid {
    /// Some will be free once their lines have left the cache.
    Limbo,
    None,
}

#[derive(Debug)]
pub(super) struct Rmids {
    free: VecDeque<usize>,
    limbo: Vec<usize>,
}

impl Rmids {
    /// Identifier 0 belongs to the root.
    pub(super) fn new(count: usize) -> Self {
        Self { free: (1..count).collect(), limbo: Vec::new() }
    }

    pub(super) fn take(&mut self) -> Result<usize, NoRmid> {
        let none = if self.limbo.is_empty() { NoRmid::None } else { NoRmid::Limbo };
        self.free.pop_front().ok_or(none)
    }

    /// Back without limbo: it was never used.
    pub(super) fn put_back(&mut self, rmid: usize) {
        self.free.push_front(rmid);
    }

    pub(super) fn release(&mut self, rmid: usize) {
        self.limbo.push(rmid);
    }

    pub(super) fn in_limbo(&self) -> usize {
        self.limbo.len()
    }

    /// Frees those that are no longer dirty.
    pub(super) fn check(&mut self, is_dirty: impl Fn(usize) -> bool) {
        let (dirty, clean): (Vec<_>, Vec<_>) =
            self.limbo.drain(..).partition(|rmid| is_dirty(*rmid));
        self.limbo = dirty;
        self.free.extend(clean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_rmid_comes_first_and_limbo_is_told_from_exhaustion() {
        let mut rmids = Rmids::new(3);
        assert_eq!((rmids.take(), rmids.take()), (Ok(1), Ok(2)));
        assert_eq!(rmids.take(), Err(NoRmid::None));
        rmids.release(2);
        rmids.release(1);
        assert_eq!(rmids.take(), Err(NoRmid::Limbo));
        rmids.check(|rmid| rmid == 2);
        assert_eq!(rmids.take(), Ok(1));
        assert_eq!(rmids.take(), Err(NoRmid::Limbo));
    }
}
