//! What is used of memory, under each policy, and how much of it is cold: of the node, of what the system itself
//! takes, and of every pod, container and plain cgroup.
//!
//! The window's thread puts in what the source of cold memory delivers ([`Memory::take_ages`], [`Memory::take_usage`]).
//! Readers get what was published last, whole, and never wait for it.

mod answer;
mod exposition;
mod history;
mod round;
#[cfg(test)]
mod tests;

pub(crate) use answer::{MemoryAnswer, Parameters, WindowMemory, parse};
pub(crate) use history::{Aggregate, History, KEPT, over};
pub(crate) use round::{Which, place_of};

use arc_swap::ArcSwapOption;
use crosstalk_coldmem::{ColdRow, Policy, UsageRow};
use round::{Key, Round};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What is told of memory, and what readers see of it.
#[derive(Debug)]
pub(crate) struct Memory {
    /// What usage is aggregated over.
    pub(crate) durations: Vec<Duration>,
    /// What of the page cache counts, unless somebody asks otherwise.
    pub(crate) policy: Policy,
    /// How many pods, and how many containers, have a history.
    limit: usize,
    /// Time between looks.
    period: Duration,
    /// Only the window's thread takes it.
    ages: Mutex<Vec<ColdRow>>,
    published: ArcSwapOption<Published>,
}

/// One round, and what came before it.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) round: Round,
    pub(crate) histories: HashMap<Key, Arc<History>>,
    /// What is older than this is of a source that has gone silent.
    current_ns: u64,
}

impl Published {
    /// Whether the source has not gone silent since.
    pub(crate) fn is_current(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.round.end_ns) <= self.current_ns
    }
}

/// Looks that may fail to come before the last one is no longer told as what is now.
const MISSED: u64 = 3;

impl Memory {
    pub(crate) fn new(durations: Vec<Duration>, policy: Policy, limit: usize) -> Self {
        let (ages, published) = (Mutex::default(), ArcSwapOption::empty());
        Self { durations, policy, limit, period: Duration::from_secs(60), ages, published }
    }

    /// With looks so far apart.
    pub(crate) fn every(self, period: Duration) -> Self {
        Self { period, ..self }
    }

    /// The last round, if there was any.
    pub(crate) fn newest(&self) -> Option<Arc<Published>> {
        self.published.load_full()
    }

    /// The last round, unless the source has gone silent since.
    pub(crate) fn current(&self, now_ns: u64) -> Option<Arc<Published>> {
        self.newest().filter(|newest| newest.is_current(now_ns))
    }

    /// Takes a round's ages, which its usage follows.
    pub(crate) fn take_ages(&self, rows: &[ColdRow]) {
        *self.ages.lock().unwrap_or_else(PoisonError::into_inner) = rows.to_vec();
    }

    /// Takes a round's usage, read at `end_ns` (monotonic), and publishes it.
    pub(crate) fn take_usage(&self, rows: &[UsageRow], end_ns: u64) {
        let ages = std::mem::take(&mut *self.ages.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(mut round) = Round::new(rows, ages, end_ns) else { return };
        let before = self.published.load_full();
        if let Some(before) = &before {
            round.keep_ages(&before.round);
        }
        let current_ns = self.current_ns(before.as_deref(), end_ns);
        let mut histories = before.map(|before| before.histories.clone()).unwrap_or_default();
        let values: HashMap<Key, [Option<f64>; 4]> = round.values().collect();
        for (key, values) in &values {
            if let Some(history) = histories.get_mut(key) {
                Arc::make_mut(history).push(end_ns, *values);
            }
        }
        for (key, new) in &values {
            if histories.contains_key(key) {
                continue;
            }
            let alike = || histories.keys().filter(|known| known.0 == key.0);
            if alike().count() >= self.limit {
                // Who is gone makes room for who is here.
                let gone = alike().find(|known| !values.contains_key(known)).cloned();
                let Some(gone) = gone else { continue };
                histories.remove(&gone);
            }
            let mut history = History::default();
            history.push(end_ns, *new);
            histories.insert(key.clone(), Arc::new(history));
        }
        histories.retain(|_, history| history.is_known_at(end_ns));
        self.published.store(Some(Arc::new(Published { round, histories, current_ns })));
    }

    /// A source that looks more rarely than it should, because that is dear, is not silent.
    fn current_ns(&self, before: Option<&Published>, end_ns: u64) -> u64 {
        let period_ns = u64::try_from(self.period.as_nanos()).unwrap_or(u64::MAX);
        let apart_ns = before.map_or(0, |before| end_ns.saturating_sub(before.round.end_ns));
        let apart_ns = apart_ns.min(period_ns.saturating_mul(10)).max(period_ns);
        apart_ns.saturating_mul(MISSED)
    }
}
