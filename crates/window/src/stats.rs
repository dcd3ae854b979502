use crate::chunk::{CHUNK, Chunk, value};
use crate::middle::{Middle, MiddleMetric, PERCENTILES, WORTHWHILE, extremes, target};
use crate::moments::Moments;
use crate::run::{Run, SortedColumn};
use crate::select::Selection;
use std::ops::Range;
use std::sync::Arc;

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
    /// Numbers of the chunks the runs cover, if there is no hole between them.
    run_chunks: Option<Range<u64>>,
    run_samples: usize,
    /// What earlier windows over the same runs found out.
    middle: Option<Arc<Middle>>,
}

/// What both ways of computing an answer yield.
struct Summary {
    moments: Moments,
    min: f64,
    max: f64,
    percentiles: [f64; PERCENTILES.len()],
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
    between: Vec<(f64, u64)>,
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
            run_chunks: None,
            run_samples: 0,
            middle: None,
        }
    }

    /// Adds the run over the chunks of these numbers.
    pub(crate) fn add_run(&mut self, run: &'view Run, chunks: Range<u64>, covered_ns: u64) {
        let samples = (chunks.end - chunks.start) as usize * CHUNK;
        self.run_chunks = match (&self.run_chunks, self.runs.is_empty()) {
            (_, true) => Some(chunks),
            (Some(before), _) if before.end == chunks.start => Some(before.start..chunks.end),
            _ => None,
        };
        self.runs.push(run);
        self.run_samples += samples;
        self.samples += samples;
        self.covered_ns += covered_ns;
    }

    /// The chunks between the edges, if it pays to remember what is found out about them.
    pub(crate) fn memorable(&self) -> Option<Range<u64>> {
        self.run_chunks.clone().filter(|_| self.run_samples >= WORTHWHILE)
    }

    pub(crate) fn remember(&mut self, middle: Arc<Middle>) {
        self.middle = Some(middle);
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
        let last = self.last(metric)?;
        let known = self.middle.as_ref().and_then(|middle| {
            let middle = middle.metric(metric, &self.runs, self.run_samples);
            self.beside(middle, &scratch.edge, &mut scratch.between)
        });
        let summary = match known {
            Some(summary) => summary,
            None => self.over_runs(metric, scratch),
        };
        let [p50, p95, p99] = summary.percentiles;
        Some(Stats {
            mean: summary.moments.mean,
            std: summary.moments.std(),
            min: summary.min,
            max: summary.max,
            p50,
            p95,
            p99,
            last,
            coverage: summary.moments.weight as f64 / self.length_ns as f64,
        })
    }

    /// From what is known of the middle, and the edges beside it.
    fn beside(
        &self,
        middle: &MiddleMetric,
        edge: &[(f64, u64)],
        between: &mut Vec<(f64, u64)>,
    ) -> Option<Summary> {
        let moments = Moments::of(edge);
        let percentiles = middle.percentiles(edge, moments.weight, between)?;
        let values = || edge.iter().map(|item| item.0);
        Some(Summary {
            moments: middle.moments.merge(moments),
            min: values().fold(middle.min, f64::min),
            max: values().fold(middle.max, f64::max),
            percentiles,
        })
    }

    /// From all runs and the edges: the plain way.
    fn over_runs(&self, metric: usize, scratch: &mut Scratch) -> Summary {
        let edge = SortedColumn::sorting(&mut scratch.edge);
        let runs = self.runs.iter().map(|run| &run.columns[metric]);
        let columns: Vec<&SortedColumn> =
            runs.chain([&edge]).filter(|column| !column.values.is_empty()).collect();
        let moments = Moments::of_columns(&columns);
        let (min, max) = extremes(&columns);
        let selection = &mut scratch.selection;
        selection.reset(columns.len());
        let percentiles = PERCENTILES
            .map(|percent| selection.smallest_reaching(&columns, target(moments.weight, percent)));
        Summary { moments, min, max, percentiles }
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
