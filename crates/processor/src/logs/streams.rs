//! What containers said last, where the next line may need it.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

use crosstalk_training_log::{Outcome, Parser, Stream};

use super::record::Kubernetes;

/// Streams that wait for a line at once; beyond them one is forgotten, which costs it an iteration.
const MAX_WAITING: usize = 16 << 10;

/// The streams of all containers; only those that wait for something are kept.
#[derive(Debug, Default)]
pub(super) struct Streams {
    waiting: Mutex<HashMap<u64, Stream>>,
    hasher: RandomState,
}

impl Streams {
    /// Reads the lines of one record, after those of the same container before it.
    pub(super) fn read<'t>(
        &self,
        parser: &Parser,
        speaker: &Kubernetes<'_>,
        text: &'t str,
        tell: impl FnMut(&'t str, Outcome),
    ) {
        let key = self.hasher.hash_one((
            &speaker.namespace_name,
            &speaker.pod_name,
            &speaker.pod_id,
            &speaker.container_name,
        ));
        let mut stream = self.waiting().remove(&key).unwrap_or_default();
        stream.read(parser, text, tell);
        if stream.is_waiting() {
            let mut waiting = self.waiting();
            if waiting.len() >= MAX_WAITING
                && let Some(forgotten) = waiting.keys().next().copied()
            {
                waiting.remove(&forgotten);
            }
            waiting.insert(key, stream);
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Stream>> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
