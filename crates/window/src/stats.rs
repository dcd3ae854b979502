use crate::chunk::{Chunk, value};
use crate::moments::Moments;
use crate::run::{Run, SortedColumn};
use crate::select::Selection;
use std::ops::Range;

/// One metric over one window, weighted by the time each sample covers inside it.
///
/// A quantile is the smallest measured value that the metric did not exceed for at least that share of
/// the measured time: always a value that occurred, never one between two.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Time-weighted mean.
    pub mean: f64,
    /// Time-weighted standard deviation of the measured values (population, not sample).
    pub std: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Newest value.
    pub last: f64,
    /// Share of the window in which this metric was measured, 0 to 1.
    pub coverage: f64,
}

/// The samples of an exact stretch of time.
#[derive(Debug)]
pub struct Window<'view> {
    length_ns: u64,
    metrics: usize,
    samples: usize,
    covered_ns: u64,
    /// Whole runs, oldest first.
    runs: Vec<&'view Run>,
    /// Samples outside any run: the partly covered ends, and what is too new to be sorted.
    edges: Vec<Edge<'view>>,
    /// Weight of each edge sample, in the order of `edges`.
    weights: Vec<u64>,
}

#[derive(Debug)]
struct Edge<'view> {
    chunk: &'view Chunk,
    samples: Range<usize>,
    /// How many runs precede it, to find the newest value.
    after_runs: usize,
}

/// Working memory shared by the metrics of an answer.
#[derive(Default)]
struct Scratch {
    edge: Vec<(f64, u64)>,
    selection: Selection,
}

impl<'view> Window<'view> {
    pub(crate) fn new(length_ns: u64, metrics: usize) -> Self {
        Self {
            length_ns,
            metrics,
            samples: 0,
            covered_ns: 0,
            runs: Vec::new(),
            edges: Vec::new(),
            weights: Vec::new(),
        }
    }

    pub(crate) fn add_run(&mut self, run: &'view Run, samples: usize, covered_ns: u64) {
        self.runs.push(run);
        self.samples += samples;
        self.covered_ns += covered_ns;
    }

    /// Adds those of the first `len` samples of a chunk that overlap `start..end`.
    pub(crate) fn add_edge(&mut self, chunk: &'view Chunk, len: usize, start: u64, end: u64) {
        let from = (0..len).find(|&at| chunk.end(at) > start).unwrap_or(len);
        let to = (from..len).find(|&at| chunk.start(at) >= end).unwrap_or(len);
        for at in from..to {
            let weight = chunk.end(at).min(end) - chunk.start(at).max(start);
            self.covered_ns += weight;
            self.weights.push(weight);
        }
        self.samples += to - from;
        self.edges.push(Edge { chunk, samples: from..to, after_runs: self.runs.len() });
    }

    /// How many samples overlap the window.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Share of the window that samples cover, 0 to 1, whether or not they hold every value.
    #[must_use]
    pub fn coverage(&self) -> f64 {
        self.covered_ns as f64 / self.length_ns as f64
    }

    /// Statistics of the metric with this index; `None` if it was never measured in the window or
    /// does not exist.
    #[must_use]
    pub fn stats(&self, metric: usize) -> Option<Stats> {
        self.stats_with(metric, &mut Scratch::default())
    }

    /// Statistics of every metric, in their order.
    #[must_use]
    pub fn all_stats(&self) -> Vec<Option<Stats>> {
        let mut scratch = Scratch::default();
        (0..self.metrics).map(|metric| self.stats_with(metric, &mut scratch)).collect()
    }

    fn stats_with(&self, metric: usize, scratch: &mut Scratch) -> Option<Stats> {
        if metric >= self.metrics {
            return None;
        }
        self.collect_edge(metric, &mut scratch.edge);
        let edge = SortedColumn::sorting(&mut scratch.edge);
        let runs = self.runs.iter().map(|run| &run.columns[metric]);
        let columns: Vec<&SortedColumn> =
            runs.chain([&edge]).filter(|column| !column.values.is_empty()).collect();
        let moments =
            columns.iter().fold(Moments::default(), |sum, column| sum.merge(column.moments));
        if moments.weight == 0 {
            return None;
        }
        let lowest = columns.iter().map(|column| column.values[0]);
        let highest = columns.iter().map(|column| column.values[column.values.len() - 1]);
        let selection = &mut scratch.selection;
        selection.reset(columns.len());
        let mut percentile = |percent: u128| {
            let target = (u128::from(moments.weight) * percent).div_ceil(100);
            selection.smallest_reaching(&columns, target as u64)
        };
        Some(Stats {
            mean: moments.mean,
            std: moments.std(),
            min: lowest.fold(f64::INFINITY, f64::min),
            max: highest.fold(f64::NEG_INFINITY, f64::max),
            p50: percentile(50),
            p95: percentile(95),
            p99: percentile(99),
            last: self.last(metric)?,
            coverage: moments.weight as f64 / self.length_ns as f64,
        })
    }

    fn collect_edge(&self, metric: usize, items: &mut Vec<(f64, u64)>) {
        items.clear();
        let mut weights = self.weights.iter();
        for edge in &self.edges {
            let cells = &edge.chunk.column(metric)[edge.samples.clone()];
            for (cell, &weight) in cells.iter().zip(&mut weights) {
                items.extend(value(cell).map(|value| (value, weight)));
            }
        }
    }

    /// The newest value, looking back through edges and runs in order of time.
    fn last(&self, metric: usize) -> Option<f64> {
        let newest_of =
            |runs: &[&Run]| runs.iter().rev().find_map(|run| run.columns[metric].newest);
        let mut unseen = self.runs.len();
        for edge in self.edges.iter().rev() {
            let cells = &edge.chunk.column(metric)[edge.samples.clone()];
            let found = newest_of(&self.runs[edge.after_runs..unseen])
                .or_else(|| cells.iter().rev().find_map(value));
            if found.is_some() {
                return found;
            }
            unseen = edge.after_runs;
        }
        newest_of(&self.runs[..unseen])
    }
}
