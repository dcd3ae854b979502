//! Estimates with intervals, by resampling what was measured.

use super::Stretch;
use serde::Serialize;
use std::collections::BTreeMap;

/// Resamples; the ends of a 95 % interval move by less than they are wide.
const RESAMPLES: usize = 1_000;
/// From fewer pieces no interval is drawn.
const LEAST: usize = 3;
/// The same run always gives the same figures.
const SEED: u64 = 0x05ee_d0fb;

/// A 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A figure, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Its 95 % interval; absent when too little was measured to draw one.
    pub range: Option<Range>,
}

impl Estimate {
    /// As a percentage, with its interval.
    ///
    /// ```
    /// use crosstalk_bench::result::{Estimate, Range};
    ///
    /// let range = Some(Range { low: 0.4, high: 0.51 });
    /// assert_eq!(Estimate { value: 0.456, range }.percent(), "45.6 % (40.0 to 51.0)");
    /// ```
    pub fn percent(&self) -> String {
        let figure = format!("{:.1} %", self.value * 100.0);
        match self.range {
            Some(r) => format!("{figure} ({:.1} to {:.1})", r.low * 100.0, r.high * 100.0),
            None => figure,
        }
    }
}

/// What is drawn as one: whole rounds where there are enough, else single stretches.
fn units(stretches: &[&Stretch]) -> Vec<(f64, f64)> {
    let mut rounds: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for stretch in stretches {
        let round = rounds.entry(stretch.round).or_default();
        *round = (round.0 + stretch.units, round.1 + stretch.seconds);
    }
    if rounds.len() >= LEAST {
        return rounds.into_values().collect();
    }
    stretches.iter().map(|stretch| (stretch.units, stretch.seconds)).collect()
}

fn speed(units: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (done, seconds) = units.fold((0.0, 0.0), |sum, unit| (sum.0 + unit.0, sum.1 + unit.1));
    if seconds > 0.0 { done / seconds } else { 0.0 }
}

fn estimate<const N: usize>(
    samples: [&[&Stretch]; N],
    figure: impl Fn([f64; N]) -> f64,
) -> Estimate {
    let all = samples.map(units);
    let value = figure(std::array::from_fn(|i| speed(all[i].iter().copied())));
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut drawn: Vec<f64> = Vec::with_capacity(RESAMPLES);
    if all.iter().all(|units| units.len() >= LEAST) {
        for _ in 0..RESAMPLES {
            let again = std::array::from_fn(|i| {
                let units = &all[i];
                speed((0..units.len()).map(|_| units[random.usize(0..units.len())]))
            });
            drawn.push(figure(again));
        }
    }
    drawn.retain(|value| value.is_finite());
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| drawn[((drawn.len() - 1) as f64 * share).round() as usize];
    let range = (drawn.len() > RESAMPLES / 2).then(|| Range { low: at(0.025), high: at(0.975) });
    Estimate { value, range }
}

/// How fast it was.
pub(super) fn rate(stretches: &[&Stretch]) -> Estimate {
    estimate([stretches], |[rate]| rate)
}

/// A figure of two speeds.
pub(super) fn pair(a: &[&Stretch], b: &[&Stretch], figure: impl Fn(f64, f64) -> f64) -> Estimate {
    estimate([a, b], |[a, b]| figure(a, b))
}

/// A figure of three speeds.
pub(super) fn triple(
    a: &[&Stretch],
    b: &[&Stretch],
    c: &[&Stretch],
    figure: impl Fn(f64, f64, f64) -> f64,
) -> Estimate {
    estimate([a, b, c], |[a, b, c]| figure(a, b, c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Condition;

    fn stretches(round: u32, rates: &[f64]) -> Vec<Stretch> {
        let stretch = |rate: &f64| Stretch {
            round,
            units: *rate,
            seconds: 1.0,
            condition: Condition::default(),
        };
        rates.iter().map(stretch).collect()
    }

    #[test]
    fn an_interval_holds_the_truth_about_as_often_as_it_says() {
        let mut random = fastrand::Rng::with_seed(9);
        let mut normal = |mean: f64| {
            let sum: f64 = (0..12).map(|_| random.f64()).sum();
            mean + (sum - 6.0) * 5.0
        };
        let trials = 200;
        let mut hits = 0;
        for _ in 0..trials {
            let alone = stretches(0, &(0..12).map(|_| normal(100.0)).collect::<Vec<_>>());
            let beside = stretches(0, &(0..12).map(|_| normal(60.0)).collect::<Vec<_>>());
            let (alone, beside): (Vec<_>, Vec<_>) =
                (alone.iter().collect(), beside.iter().collect());
            let range = pair(&alone, &beside, |a, b| 1.0 - b / a).range.unwrap();
            hits += usize::from(range.low <= 0.4 && 0.4 <= range.high);
        }
        assert!((170..=199).contains(&hits), "{hits} of {trials}");
    }

    #[test]
    fn rounds_are_drawn_whole_and_too_little_has_no_interval() {
        let mut many: Vec<Stretch> = Vec::new();
        for (round, rate) in [(0, 90.0), (1, 100.0), (2, 110.0)] {
            many.extend(stretches(round, &[rate; 20]));
        }
        let estimate = rate(&many.iter().collect::<Vec<_>>());
        let range = estimate.range.unwrap();
        // Sixty stretches alike within a round would make it ten times as narrow.
        assert!((estimate.value - 100.0).abs() < 1e-9 && range.high - range.low > 8.0, "{range:?}");
        let few = stretches(0, &[1.0, 2.0]);
        assert_eq!(rate(&few.iter().collect::<Vec<_>>()).range, None);
    }
}
