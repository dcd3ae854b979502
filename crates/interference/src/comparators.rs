//! Rules that others published, on the same bins, for the accuracy table. They are here to be beaten.

mod cpi2;
mod fences;

pub use cpi2::{Cpi2, cpi2};
pub use fences::{Fences, fences};

use crate::series::{Measure, Point, Series, best_signal, series};
use crate::{Subject, VictimBins};
use std::collections::BTreeMap;
use std::ops::Range;

/// A pair that a rule names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Named {
    /// Who suffers.
    pub victim: Subject,
    /// Who is said to cause it.
    pub aggressor: Subject,
}

/// A victim's cost and neighbours over one of the rule's own, longer, samples.
struct Sample {
    cost: f64,
    cores: f64,
    beside: BTreeMap<Subject, f64>,
}

fn samples(victim: &VictimBins<'_>, length_ns: u64) -> Vec<Sample> {
    let Some(signal) = best_signal(&victim.bins) else { return Vec::new() };
    let series = series(&victim.bins, Measure::Cost(signal));
    let same =
        |a: &Point, b: &Point| a.start_ns / length_ns.max(1) == b.start_ns / length_ns.max(1);
    let mut from = 0;
    let sample = |points: &[Point]| {
        let rows = from..from + points.len();
        from = rows.end;
        sample(victim.victim, &series, rows, length_ns)
    };
    series.points.chunk_by(same).map(sample).collect()
}

/// The samples from which a rule learns what is normal: the victim's earlier ones, if there are any.
fn normal(victim: Subject, earlier: &[VictimBins<'_>], length_ns: u64) -> Option<Vec<Sample>> {
    let earlier = earlier.iter().find(|one| one.victim == victim)?;
    Some(samples(earlier, length_ns)).filter(|samples| !samples.is_empty())
}

fn sample(victim: Subject, series: &Series, rows: Range<usize>, length_ns: u64) -> Sample {
    let points = &series.points[rows.clone()];
    let many = points.len() as f64;
    let mut beside: BTreeMap<Subject, f64> = BTreeMap::new();
    for ((subject, _), cores) in series.neighbours() {
        let cores = &cores[rows.clone()];
        let was_there = cores.iter().any(|cores| *cores > 0.0);
        if was_there && subject != victim && !subject.is_reserved() {
            *beside.entry(subject).or_default() += cores.iter().sum::<f64>() / many;
        }
    }
    Sample {
        cost: points.iter().map(|point| point.cost.exp()).sum::<f64>() / many,
        cores: points.iter().map(|point| point.on_cpu_ns).sum::<f64>() / length_ns.max(1) as f64,
        beside,
    }
}

fn mean_and_deviation(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let many = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / many;
    (mean, (values.map(|value| (value - mean).powi(2)).sum::<f64>() / many).sqrt())
}
