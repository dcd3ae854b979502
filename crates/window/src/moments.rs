//! Weight, mean and spread of a set of values, mergeable without cancellation.

use crate::run::SortedColumn;

/// Weighted moments in the form of Chan, Golub and LeVeque: sums of squares about the mean, so that
/// a small spread on a large mean (bytes per second) keeps its digits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Moments {
    pub(crate) weight: u64,
    pub(crate) mean: f64,
    /// Sum of weight x squared distance from the mean.
    spread: f64,
}

impl Moments {
    pub(crate) fn of(items: &[(f64, u64)]) -> Self {
        let Some(&(origin, _)) = items.first() else { return Self::default() };
        let (mut weight, mut first, mut second) = (0_u64, 0.0, 0.0);
        for &(value, w) in items {
            let (away, w_real) = (value - origin, w as f64);
            weight += w;
            first += w_real * away;
            second += w_real * away * away;
        }
        if weight == 0 {
            return Self::default();
        }
        let shift = first / weight as f64;
        Self { weight, mean: origin + shift, spread: (second - first * shift).max(0.0) }
    }

    pub(crate) fn of_columns(columns: &[&SortedColumn]) -> Self {
        columns.iter().fold(Self::default(), |sum, column| sum.merge(column.moments))
    }

    pub(crate) fn merge(self, other: Self) -> Self {
        if self.weight == 0 {
            return other;
        }
        if other.weight == 0 {
            return self;
        }
        let weight = self.weight + other.weight;
        let share = other.weight as f64 / weight as f64;
        let away = other.mean - self.mean;
        Self {
            weight,
            mean: self.mean + away * share,
            spread: self.spread + other.spread + away * away * self.weight as f64 * share,
        }
    }

    pub(crate) fn std(self) -> f64 {
        if self.weight == 0 { 0.0 } else { (self.spread / self.weight as f64).sqrt() }
    }
}
