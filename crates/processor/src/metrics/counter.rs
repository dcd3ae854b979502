//! Counters, alone and in bounded families.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Label sets a family keeps apart; the rest is counted together.
const MAX_SETS: usize = 256;

/// Counters told apart by `N` label values.
///
/// ```
/// use crosstalk_processor::metrics::CounterBy;
/// let counter = CounterBy::<1>::default();
/// counter.add(["full"], 2);
/// assert_eq!(counter.get(["full"]), 2);
/// ```
#[derive(Debug)]
pub struct CounterBy<const N: usize>(Mutex<BTreeMap<[String; N], u64>>);

impl<const N: usize> Default for CounterBy<N> {
    fn default() -> Self {
        CounterBy(Mutex::new(BTreeMap::new()))
    }
}

impl<const N: usize> CounterBy<N> {
    /// Adds `count` to the counter of these label values; adding nothing makes no counter.
    pub fn add(&self, values: [&str; N], count: u64) {
        if count == 0 {
            return;
        }
        let mut counters = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut key = values.map(str::to_owned);
        if counters.len() >= MAX_SETS && !counters.contains_key(&key) {
            key = values.map(|_| "other".to_owned());
        }
        *counters.entry(key).or_default() += count;
    }

    /// The sum so far of these label values.
    pub fn get(&self, values: [&str; N]) -> u64 {
        let counters = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        counters.get(&values.map(str::to_owned)).copied().unwrap_or(0)
    }

    /// All label values with their sums.
    pub fn all(&self) -> Vec<([String; N], u64)> {
        let counters = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        counters.iter().map(|(values, count)| (values.clone(), *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_sets_beyond_the_bound_are_counted_as_other() {
        let family = CounterBy::<1>::default();
        for number in 0..MAX_SETS + 10 {
            family.add([&number.to_string()], 1);
        }
        assert_eq!(family.all().len(), MAX_SETS + 1);
        assert_eq!(family.get(["other"]), 10);
    }
}
