//! The immutable list of chunks and runs that readers share.

use crate::chunk::Chunk;
use crate::run::{Run, SPANS};
use std::collections::VecDeque;
use std::sync::Arc;

/// Everything held at one moment. The last chunk is open: it grows until it is full.
///
/// Chunks are numbered from the first ever written; `first` is the number of the oldest held.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) first: u64,
    pub(crate) chunks: VecDeque<Arc<Chunk>>,
    levels: [Level; SPANS.len()],
}

/// The consecutive runs of one level; `first` is the number of the oldest, counted in runs.
#[derive(Debug, Clone, Default)]
struct Level {
    first: u64,
    runs: VecDeque<Arc<Run>>,
}

impl Snapshot {
    pub(crate) fn new(open: Arc<Chunk>) -> Self {
        Self { first: 0, chunks: VecDeque::from([open]), levels: Default::default() }
    }

    pub(crate) fn open(&self) -> &Arc<Chunk> {
        self.chunks.back().expect("a snapshot always ends in an open chunk")
    }

    /// Number of the chunk after the open one.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.chunks.len() as u64
    }

    /// Drops the oldest chunk, and every run that reached back into it.
    pub(crate) fn evict(&mut self) {
        self.chunks.pop_front();
        self.first += 1;
        for (level, span) in self.levels.iter_mut().zip(SPANS) {
            while !level.runs.is_empty() && level.first * (span as u64) < self.first {
                level.runs.pop_front();
                level.first += 1;
            }
        }
    }

    /// Adds the next finished run of a level, unless its chunks are gone already. Returns the
    /// parts of a run of the next level if this one completes it.
    pub(crate) fn add_run(
        &mut self,
        level: usize,
        number: u64,
        run: Arc<Run>,
    ) -> Option<Vec<Arc<Run>>> {
        if number * (SPANS[level] as u64) < self.first {
            return None;
        }
        let held = &mut self.levels[level];
        if held.runs.is_empty() {
            held.first = number;
        }
        held.runs.push_back(run);
        let parts = SPANS.get(level + 1)? / SPANS[level];
        let complete = (number + 1).is_multiple_of(parts as u64) && held.runs.len() >= parts;
        complete.then(|| held.runs.range(held.runs.len() - parts..).cloned().collect())
    }

    /// The longest run that starts at chunk number `from` and ends by `to`, and its span.
    pub(crate) fn run_at(&self, from: u64, to: u64) -> Option<(&Run, u64)> {
        self.levels.iter().zip(SPANS).rev().find_map(|(level, span)| {
            let span = span as u64;
            if !from.is_multiple_of(span) || from + span > to {
                return None;
            }
            let at = (from / span).checked_sub(level.first)?;
            level.runs.get(at as usize).map(|run| (&**run, span))
        })
    }
}
