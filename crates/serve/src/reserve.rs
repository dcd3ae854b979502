//! Places for what is essential, beyond those that anybody may fill.
//!
//! Who comes when the others are taken gets one of these, since what it wants is only known when it has said so. Where they
//! are taken, too, one who asked for something else makes room, or else whoever has said nothing longest. A probe asks as soon
//! as it is let in, and so is answered however many others come, silent or sending.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

/// Connections beyond the limit that are still heard.
const PLACES: usize = 64;

/// Who is in the places, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    stays: Mutex<Vec<Arc<Stay>>>,
}

/// What a connection was used for, in the order in which places are taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Something that is refused here.
    Other = 1,
    /// Nothing yet.
    Nothing = 2,
    /// What is essential: nobody takes its place.
    Essential = 3,
}

/// One connection's time in a place.
#[derive(Debug)]
pub(crate) struct Stay {
    asked: AtomicU8,
    over: Notify,
}

impl Stay {
    /// Says what was asked for.
    pub(crate) fn asks_for(&self, asked: Asked) {
        self.asked.store(asked as u8, Ordering::Relaxed);
    }

    fn has_asked(&self, asked: Asked) -> bool {
        self.asked.load(Ordering::Relaxed) == asked as u8
    }

    /// Waits until another takes the place.
    pub(crate) async fn over(&self) {
        self.over.notified().await;
    }
}

/// A place, free again when dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    reserve: Arc<Reserve>,
    pub(crate) stay: Arc<Stay>,
}

impl Reserve {
    /// A place, and whether it was another's; `None` where all of them are asking for what is essential.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<(Taken, bool)> {
        let mut stays = self.stays();
        let full = stays.len() >= PLACES;
        if full {
            let oldest = |asked| stays.iter().position(|stay| stay.has_asked(asked));
            let leaves = oldest(Asked::Other).or_else(|| oldest(Asked::Nothing))?;
            stays.remove(leaves).over.notify_one();
        }
        let asked = AtomicU8::new(Asked::Nothing as u8);
        let stay = Arc::new(Stay { asked, over: Notify::new() });
        stays.push(Arc::clone(&stay));
        Some((Taken { reserve: Arc::clone(self), stay }, full))
    }

    /// How many are taken.
    pub(crate) fn taken(&self) -> usize {
        self.stays().len()
    }

    fn stays(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Stay>>> {
        self.stays.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.reserve.stays().retain(|stay| !Arc::ptr_eq(stay, &self.stay));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_something_else_makes_room_then_who_is_silent_and_who_probes_never() {
        let reserve = Arc::new(Reserve::default());
        let mut taken: Vec<Taken> = (0..PLACES).map(|_| reserve.enter().unwrap().0).collect();
        taken[0].stay.asks_for(Asked::Essential);
        taken[7].stay.asks_for(Asked::Other);
        let mut later = Vec::new();
        for leaves in [7, 1, 2] {
            let is_in = || reserve.stays().iter().any(|s| Arc::ptr_eq(s, &taken[leaves].stay));
            assert!(is_in());
            let (entered, was_anothers) = reserve.enter().unwrap();
            assert!(was_anothers && !is_in() && reserve.taken() == PLACES);
            later.push(entered);
        }
        drop(taken.remove(7));
        assert_eq!(reserve.taken(), PLACES, "its place was another's by then");
        taken.iter().chain(&later).for_each(|taken| taken.stay.asks_for(Asked::Essential));
        assert!(reserve.enter().is_none());
        drop(later);
        assert!(reserve.enter().is_some_and(|(_, was_anothers)| !was_anothers));
    }
}
