//! Estimates with intervals, by resampling what was measured.

use super::Stretch;
use serde::Serialize;
use std::collections::BTreeMap;

/// Resamples; the ends of a 95 % interval move by less than they are wide.
const RESAMPLES: usize = 1_000;
/// From fewer pieces no interval is drawn.
const LEAST: usize = 3;
/// Neighbouring stretches are alike: what slows one still slows the next. Of blocks as long as this each is nearly by itself;
/// where there are few of them, that they are few widens the interval.
const BLOCK_SECONDS: f64 = 2.5;
/// Shorter ones would be too much alike.
const LEAST_BLOCK_SECONDS: f64 = 1.0;
/// Of a long time they are longer: more of them would say little more, and what drifts slowly is alike for longer.
const MOST_BLOCKS: usize = 12;
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

/// What is drawn as one: whole rounds where there are enough, else blocks of stretches that follow each other.
fn units(stretches: &[&Stretch]) -> Vec<(f64, f64)> {
    let mut rounds: BTreeMap<u32, Vec<&Stretch>> = BTreeMap::new();
    for stretch in stretches {
        rounds.entry(stretch.round).or_default().push(stretch);
    }
    if rounds.len() >= LEAST {
        return rounds.values().map(|round| sum(round.iter().copied())).collect();
    }
    let (_, seconds) = sum(stretches.iter().copied());
    let most = (seconds / LEAST_BLOCK_SECONDS) as usize;
    let count = ((seconds / BLOCK_SECONDS) as usize).clamp(LEAST, MOST_BLOCKS).min(most).max(1);
    let length = seconds / count as f64;
    rounds.values().flat_map(|round| blocks(round, length)).collect()
}

/// About as long as this, and all of one length as far as stretches can be.
fn blocks(round: &[&Stretch], length: f64) -> Vec<(f64, f64)> {
    let (_, seconds) = sum(round.iter().copied());
    let count = (seconds / length).round().max(1.0);
    let mut blocks: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    let mut passed = 0.0;
    for stretch in round {
        let middle = (passed + stretch.seconds / 2.0) / seconds;
        let block = blocks.entry((middle * count) as usize).or_default();
        *block = (block.0 + stretch.units, block.1 + stretch.seconds);
        passed += stretch.seconds;
    }
    blocks.into_values().collect()
}

fn sum<'s>(stretches: impl Iterator<Item = &'s Stretch>) -> (f64, f64) {
    stretches.fold((0.0, 0.0), |sum, stretch| (sum.0 + stretch.units, sum.1 + stretch.seconds))
}

/// By how much an interval is wider than resampling so few pieces makes it: Student's t instead of the normal
/// distribution, and a spread that resampling finds too small by the root of n / (n - 1).
fn widening(pieces: usize) -> f64 {
    const Z: f64 = 1.959_964;
    let n = pieces as f64;
    let df = n - 1.0;
    // Fisher's expansion of t (Abramowitz and Stegun 26.7.5).
    let t = Z
        + (Z.powi(3) + Z) / (4.0 * df)
        + (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / (96.0 * df.powi(2))
        + (3.0 * Z.powi(7) + 19.0 * Z.powi(5) + 17.0 * Z.powi(3) - 15.0 * Z) / (384.0 * df.powi(3));
    t / Z * (n / df).sqrt()
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
    let fewest = all.iter().map(Vec::len).min().unwrap_or(0);
    if fewest >= LEAST {
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
    let wider = |drawn: f64| value + (drawn - value) * widening(fewest);
    let at = |share: f64| wider(drawn[((drawn.len() - 1) as f64 * share).round() as usize]);
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

    /// Of how many trials in a hundred the interval holds the truth: a loss of 40 %, seen in so many stretches of 0.2 s alone
    /// and beside others, each like the one before to this degree.
    fn hits(alone: usize, beside: usize, alike: f64) -> usize {
        let mut random = fastrand::Rng::with_seed(9);
        let mut normal = move || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        let mut series = |length: usize, mean: f64| {
            let mut off = normal();
            let mut next = || {
                let units = (mean + off * 15.0) * 0.2;
                off = alike * off + (1.0 - alike * alike).sqrt() * normal();
                let condition = Condition::default();
                Stretch { round: 0, units, seconds: 0.2, condition }
            };
            (0..length).map(|_| next()).collect::<Vec<Stretch>>()
        };
        let trials = 300;
        let mut hits = 0;
        for _ in 0..trials {
            let (alone, beside) = (series(alone, 100.0), series(beside, 60.0));
            let (alone, beside): (Vec<_>, Vec<_>) =
                (alone.iter().collect(), beside.iter().collect());
            let range = pair(&alone, &beside, |a, b| 1.0 - b / a).range.unwrap();
            hits += usize::from(range.low <= 0.4 && 0.4 <= range.high);
        }
        hits * 100 / trials
    }

    #[test]
    fn an_interval_holds_the_truth_about_as_often_as_it_says() {
        for (alone, beside) in [(60, 60), (60, 140), (300, 300), (20, 20)] {
            let hits = hits(alone, beside, 0.0);
            assert!((91..=99).contains(&hits), "{hits} % of {alone} and {beside} stretches");
        }
    }

    #[test]
    fn an_interval_holds_the_truth_of_stretches_that_are_like_their_neighbours_too() {
        for alike in [0.5, 0.75] {
            for (alone, beside) in [(60, 140), (300, 300), (20, 20)] {
                let hits = hits(alone, beside, alike);
                assert!(hits >= 91, "{hits} % of {alone} and {beside} stretches, alike by {alike}");
            }
        }
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
