//! How memory is divided among what a query does side by side.
//!
//! The engine has two ways: first come, first served, by which one sort takes all and the next has nothing yet that it could
//! put on disk, so that the query fails; and equal shares of all that could ever spill, which are too small to begin with
//! where a plan has many steps. Here who can spill is served as long as there is room, but is sent to the disk with what it
//! has once that is its share of the cores' work; whoever has nothing yet takes from what is left.

use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use std::fmt;

/// Steps of a plan that grow at once on one core, a group and the sort of what it found.
const STEPS: usize = 2;

/// Room for everybody, and a share for who can do with less.
#[derive(Debug)]
pub(crate) struct Shares {
    all: GreedyMemoryPool,
    share: usize,
}

impl Shares {
    /// So many bytes for the work of so many cores.
    pub(crate) fn new(bytes: usize, cores: usize) -> Self {
        Self { all: GreedyMemoryPool::new(bytes), share: bytes / (STEPS * cores.max(1)) }
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (share: {} bytes)", self.all, self.share)
    }
}

impl MemoryPool for Shares {
    fn name(&self) -> &str {
        "shares"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let has = reservation.size();
        if has > 0 && reservation.consumer().can_spill() && has + additional > self.share {
            return Err(resources_datafusion_err!(
                "{} has its share of memory: {has} of {} bytes",
                reservation.consumer().name(),
                self.share
            ));
        }
        self.all.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.all.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.all.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn one_that_can_spill_leaves_room_for_the_next_and_what_cannot_takes_what_there_is() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Shares::new(100, 2));
        let of =
            |name: &str, spills| MemoryConsumer::new(name).with_can_spill(spills).register(&pool);
        let (sort, next, join) = (of("sort", true), of("next", true), of("join", false));
        assert!(sort.try_grow(20).is_ok());
        assert!(sort.try_grow(10).is_err(), "it is to spill, though there is room");
        assert!(next.try_grow(40).is_ok(), "what comes in one piece is taken whole");
        assert!(join.try_grow(40).is_ok());
        assert!(join.try_grow(1).is_err());
        sort.free();
        assert!(sort.try_grow(20).is_ok());
    }
}
