//! How many groups may be asked for, and when: back-off in limbo, shrinking at the limit, growing again. Pure.

const SECOND: u64 = 1_000_000_000;
const FIRST_PAUSE: u64 = SECOND / 10;
const LONGEST_PAUSE: u64 = 5 * SECOND;
/// Other tools come and go: after so long without a refusal one more is tried.
const GROW_AFTER: u64 = 30 * SECOND;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limiter {
    ceiling: usize,
    limit: usize,
    pause: u64,
    busy_until: u64,
    grow_at: u64,
}

impl Limiter {
    pub(crate) fn new(ceiling: usize) -> Self {
        Self { ceiling, limit: ceiling, pause: 0, busy_until: 0, grow_at: 0 }
    }

    /// Groups the pool may own at this time.
    pub(crate) fn capacity(&mut self, now: u64) -> usize {
        if self.limit < self.ceiling && now >= self.grow_at {
            self.limit += 1;
            self.grow_at = now + GROW_AFTER;
        }
        self.limit
    }

    /// Whether making a group may be tried.
    pub(crate) fn may_create(&self, now: u64) -> bool {
        now >= self.busy_until
    }

    pub(crate) fn created(&mut self) {
        self.pause = 0;
    }

    /// EBUSY: RMIDs are in limbo and will come back.
    pub(crate) fn in_limbo(&mut self, now: u64) {
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.busy_until = now + self.pause;
    }

    /// ENOSPC with so many owned: there are no more.
    pub(crate) fn exhausted(&mut self, owned: usize, now: u64) {
        self.limit = owned.min(self.limit);
        self.grow_at = now + GROW_AFTER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limbo_is_waited_out_longer_each_time_and_forgotten_after_success() {
        let mut limiter = Limiter::new(8);
        limiter.in_limbo(0);
        assert!(!limiter.may_create(FIRST_PAUSE - 1) && limiter.may_create(FIRST_PAUSE));
        for _ in 0..20 {
            limiter.in_limbo(0);
        }
        assert!(!limiter.may_create(LONGEST_PAUSE - 1) && limiter.may_create(LONGEST_PAUSE));
        limiter.created();
        limiter.in_limbo(0);
        assert!(limiter.may_create(FIRST_PAUSE));
    }

    #[test]
    fn exhaustion_shrinks_the_pool_and_time_lets_it_grow_by_one() {
        let mut limiter = Limiter::new(8);
        limiter.exhausted(3, 0);
        assert_eq!(limiter.capacity(1), 3);
        assert_eq!(limiter.capacity(GROW_AFTER), 4);
        assert_eq!(limiter.capacity(GROW_AFTER + 1), 4);
        limiter.exhausted(9, 0);
        assert_eq!(limiter.capacity(1), 4);
    }
}
