//! What successive answers have in common.
//!
//! Two windows asked a moment apart differ by a few samples at their ends; the chunks between are
//! the same. For those this keeps the moments and, around each percentile, the few hundred values that
//! can be the answer whatever the ends hold: samples weighing `slack` in all can move a percentile
//! by no more than `slack` in rank.

use crate::moments::Moments;
use crate::run::{Run, SortedColumn};
use crate::select::Selection;
use std::ops::Range;
use std::sync::OnceLock;

/// The percentiles every answer holds.
pub(crate) const PERCENTILES: [u64; 3] = [50, 95, 99];

/// Below this many samples the plain way is as fast.
pub(crate) const WORTHWHILE: usize = 2_048;

/// Questions about the same chunks before this is built: it costs about as much as so many plain answers,
/// so nobody ever pays more than twice what the better choice would have cost.
pub(crate) const QUESTIONS: u64 = 6;

/// Samples at the ends of a window this allows for: two ragged chunks and one not yet sorted.
const END_SAMPLES: u64 = 192;

/// Rank of a percentile: the weight that values up to it must reach.
pub(crate) fn target(weight: u64, percent: u64) -> u64 {
    (u128::from(weight) * u128::from(percent)).div_ceil(100) as u64
}

#[derive(Debug)]
pub(crate) struct Middle {
    /// Numbers of the chunks this is about; chunks never change, so neither does this.
    pub(crate) chunks: Range<u64>,
    /// Filled as metrics are asked for.
    metrics: Box<[OnceLock<MiddleMetric>]>,
}

#[derive(Debug)]
pub(crate) struct MiddleMetric {
    pub(crate) moments: Moments,
    pub(crate) min: f64,
    pub(crate) max: f64,
    slack: u64,
    candidates: [Candidates; PERCENTILES.len()],
}

/// The values next to a percentile, and the weight of all smaller ones.
#[derive(Debug)]
struct Candidates {
    below: u64,
    column: SortedColumn,
}

impl Middle {
    pub(crate) fn new(chunks: Range<u64>, metrics: usize) -> Self {
        Self { chunks, metrics: (0..metrics).map(|_| OnceLock::new()).collect() }
    }

    /// What is known of a metric; found out from the runs over these chunks if it is not yet.
    pub(crate) fn metric(&self, metric: usize, runs: &[&Run], samples: usize) -> &MiddleMetric {
        self.metrics[metric].get_or_init(|| {
            let columns = runs.iter().map(|run| &run.columns[metric]);
            let columns: Vec<_> = columns.filter(|column| !column.values.is_empty()).collect();
            MiddleMetric::new(&columns, samples)
        })
    }
}

impl MiddleMetric {
    fn new(columns: &[&SortedColumn], samples: usize) -> Self {
        let mut selection = Selection::default();
        let (min, max) = extremes(columns);
        let moments = Moments::of_columns(columns);
        let slack = (moments.weight / samples as u64 + 1) * END_SAMPLES;
        let candidates = PERCENTILES.map(|percent| {
            let rank = target(moments.weight, percent);
            Candidates::around(columns, rank, slack, moments.weight, &mut selection)
        });
        Self { moments, min, max, slack, candidates }
    }

    /// The percentiles of the middle and `ends` together; `None` if the ends weigh too much.
    pub(crate) fn percentiles(
        &self,
        ends: &[(f64, u64)],
        ends_weight: u64,
        between: &mut Vec<(f64, u64)>,
    ) -> Option<[f64; PERCENTILES.len()]> {
        if ends_weight > self.slack || self.moments.weight == 0 {
            return None;
        }
        let mut answers = [0.0; PERCENTILES.len()];
        for ((answer, percent), candidates) in
            answers.iter_mut().zip(PERCENTILES).zip(&self.candidates)
        {
            let rank = target(self.moments.weight + ends_weight, percent);
            *answer = candidates.reaching(rank, ends, between)?;
        }
        Some(answers)
    }
}

impl Candidates {
    fn around(
        columns: &[&SortedColumn],
        rank: u64,
        slack: u64,
        weight: u64,
        selection: &mut Selection,
    ) -> Self {
        if weight == 0 {
            return Self { below: 0, column: SortedColumn::sorting(&mut []) };
        }
        selection.reset(columns.len());
        let least = selection.smallest_reaching(columns, rank.saturating_sub(slack).max(1));
        let most = selection.smallest_reaching(columns, (rank + slack).min(weight));
        let mut items = Vec::new();
        let mut below = 0;
        for column in columns {
            let from = column.values.partition_point(|&value| value < least);
            let to = column.values.partition_point(|&value| value <= most);
            below += column.below(from);
            let mut at = from;
            while at < to {
                // A metric that hardly changes has long stretches of one value: one candidate.
                let value = column.values[at];
                let same = match column.values[at..to].get(1) {
                    Some(&next) if next == value => {
                        column.values[at..to].partition_point(|&other| other == value)
                    }
                    _ => 1,
                };
                items.push((value, column.below(at + same) - column.below(at)));
                at += same;
            }
        }
        Self { below, column: SortedColumn::sorting(&mut items) }
    }

    /// The smallest value up to which middle and ends together weigh `rank`; `between` is scratch.
    fn reaching(
        &self,
        rank: u64,
        ends: &[(f64, u64)],
        between: &mut Vec<(f64, u64)>,
    ) -> Option<f64> {
        let values = &self.column.values;
        let (least, most) = (*values.first()?, *values.last()?);
        let mut below = self.below;
        between.clear();
        for &(value, weight) in ends {
            below += if value < least { weight } else { 0 };
            if value >= least && value <= most {
                between.push((value, weight));
            }
        }
        between.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let target = rank.checked_sub(below).filter(|target| *target > 0)?;

        let (mut from, mut to) = (0, values.len());
        while from < to {
            let at = usize::midpoint(from, to);
            let ends_through = between.iter().take_while(|end| end.0 <= values[at]);
            let through = self.column.below(at + 1) + ends_through.map(|end| end.1).sum::<u64>();
            if through < target {
                from = at + 1;
            } else {
                to = at;
            }
        }
        let of_middle = values.get(from).copied();
        let mut ends_through = 0;
        let of_ends = between.iter().find(|(value, weight)| {
            ends_through += weight;
            let position = values.partition_point(|other| other <= value);
            self.column.below(position) + ends_through >= target
        });
        match (of_middle, of_ends) {
            (Some(middle), Some(end)) => Some(middle.min(end.0)),
            (middle, end) => middle.or(end.map(|end| end.0)),
        }
    }
}

/// Smallest and largest value of columns none of which is empty.
pub(crate) fn extremes(columns: &[&SortedColumn]) -> (f64, f64) {
    columns.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), column| {
        (min.min(column.values[0]), max.max(column.values[column.values.len() - 1]))
    })
}
