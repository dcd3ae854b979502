//! Sorted columns over one or more full chunks.

use crate::chunk::{CHUNK, Chunk, value};
use crate::moments::Moments;
use std::sync::Arc;

/// Chunks per run at each level: a window of a thousand chunks is covered by some forty runs.
pub(crate) const SPANS: [usize; 3] = [1, 8, 64];

/// How much weight lies below a position of a sorted column.
#[derive(Debug, Clone)]
pub(crate) enum Weights {
    /// Every value weighs the same: the usual case, and half the memory.
    Each(u64),
    /// Weight through position i, inclusive.
    Through(Box<[u64]>),
}

/// The values of one metric over a run in ascending order; absent ones left out.
#[derive(Debug, Clone)]
pub(crate) struct SortedColumn {
    pub(crate) values: Box<[f64]>,
    pub(crate) weights: Weights,
    pub(crate) moments: Moments,
    /// The newest value.
    pub(crate) newest: Option<f64>,
}

impl SortedColumn {
    /// Sorts `items`, given in order of time, in place and keeps a copy.
    pub(crate) fn sorting(items: &mut [(f64, u64)]) -> Self {
        let moments = Moments::of(items);
        let newest = items.last().map(|item| item.0);
        // Stable: it recognises the already sorted parts of which a longer run is made.
        items.sort_by(|a, b| a.0.total_cmp(&b.0));
        let each = items.first().map_or(0, |item| item.1);
        let weights = if items.iter().all(|item| item.1 == each) {
            Weights::Each(each)
        } else {
            let mut sum = 0;
            let through = items.iter().map(|item| {
                sum += item.1;
                sum
            });
            Weights::Through(through.collect())
        };
        Self { values: items.iter().map(|item| item.0).collect(), weights, moments, newest }
    }

    /// Weight of the first `count` values.
    pub(crate) fn below(&self, count: usize) -> u64 {
        match &self.weights {
            Weights::Each(each) => each * count as u64,
            Weights::Through(through) => count.checked_sub(1).map_or(0, |last| through[last]),
        }
    }

    fn items(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let weight = |at| self.below(at + 1) - self.below(at);
        self.values.iter().enumerate().map(move |(at, &value)| (value, weight(at)))
    }
}

/// Sorted columns of every metric over `SPANS[level]` chunks.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) columns: Box<[SortedColumn]>,
}

/// A run being built, column by column.
#[derive(Debug)]
pub(crate) struct Build {
    pub(crate) level: usize,
    /// Which run of its level this becomes, counted from the first ever.
    pub(crate) number: u64,
    parts: Parts,
    columns: Vec<SortedColumn>,
    metrics: usize,
}

/// What a run is made from.
#[derive(Debug)]
pub(crate) enum Parts {
    Chunk(Arc<Chunk>),
    Runs(Vec<Arc<Run>>),
}

impl Build {
    pub(crate) fn new(level: usize, number: u64, parts: Parts, metrics: usize) -> Self {
        Self { level, number, parts, columns: Vec::with_capacity(metrics), metrics }
    }

    /// Values sorted by one step.
    pub(crate) fn step_cost(&self) -> usize {
        SPANS[self.level] * CHUNK
    }

    /// Builds the next column; `scratch` is only there to spare an allocation.
    pub(crate) fn step(&mut self, scratch: &mut Vec<(f64, u64)>) {
        let metric = self.columns.len();
        scratch.clear();
        let mut newest = None;
        match &self.parts {
            Parts::Chunk(chunk) => {
                for (at, cell) in chunk.column(metric).iter().enumerate() {
                    let weight = chunk.end(at) - chunk.start(at);
                    scratch.extend(value(cell).map(|value| (value, weight)));
                }
            }
            Parts::Runs(runs) => {
                scratch.extend(runs.iter().flat_map(|run| run.columns[metric].items()));
                newest = runs.iter().rev().find_map(|run| run.columns[metric].newest);
            }
        }
        let mut column = SortedColumn::sorting(scratch);
        column.newest = newest.or(column.newest);
        self.columns.push(column);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.columns.len() == self.metrics
    }

    pub(crate) fn finish(self) -> Run {
        Run { columns: self.columns.into_boxed_slice() }
    }
}
