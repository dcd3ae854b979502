//! Pods that speak before the caches know them.
//!
//! A source that hears of pods as they come hears of each a little after it has begun. A line that is here sooner would found
//! a workload of its own, so its sender is asked to come again; not for long, for a pod may be known to nobody at all.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long after a pod was first heard to speak the news of it may still be under way.
const NEWS: Duration = Duration::from_secs(3);

/// Pods that are remembered at most, and for how long where there are more.
const MOST: usize = 20_000;
const KEPT: Duration = Duration::from_secs(600);

/// When those were first heard to speak whom nobody knew.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    first: Mutex<HashMap<u64, Instant>>,
    hasher: RandomState,
}

impl Newcomers {
    /// Whether the pod of this namespace, name and UID was not heard to speak for longer than news of it take.
    pub(super) fn is_new(&self, pod: [&str; 3]) -> bool {
        self.is_new_at(pod, Instant::now())
    }

    fn is_new_at(&self, pod: [&str; 3], now: Instant) -> bool {
        let mut first = self.first.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if first.len() >= MOST {
            first.retain(|_, at| now.saturating_duration_since(*at) < KEPT);
        }
        let full = first.len() >= MOST;
        match first.get(&self.hasher.hash_one(pod)) {
            Some(at) => now.saturating_duration_since(*at) < NEWS,
            None if full => false,
            None => {
                first.insert(self.hasher.hash_one(pod), now);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_nobody_knows_is_new_for_a_while_and_so_many_are_remembered() {
        let (newcomers, now) = (Newcomers::default(), Instant::now());
        assert!(newcomers.is_new_at(["ml", "a", ""], now));
        assert!(newcomers.is_new_at(["ml", "a", ""], now + NEWS / 2));
        assert!(!newcomers.is_new_at(["ml", "a", ""], now + NEWS));
        assert!(newcomers.is_new_at(["web", "a", ""], now + NEWS), "another's");
        for number in 0..MOST {
            newcomers.is_new_at(["ml", "many", &number.to_string()], now + NEWS);
        }
        assert!(!newcomers.is_new_at(["ml", "late", ""], now + NEWS), "no room to remember");
        assert!(newcomers.is_new_at(["ml", "late", ""], now + NEWS + KEPT));
    }
}
