//! Median and its standard error.

/// A set of numbers, summed up so that a few wild ones change little.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    pub(crate) median: f64,
    pub(crate) standard_error: f64,
}

impl Sample {
    /// `values` holds at least one number, and no NaN.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        let middle = median(&mut values);
        for value in &mut values {
            *value = (*value - middle).abs();
        }
        // 1.4826 makes the median deviation a standard deviation, 1.253 that of a median's error.
        let deviation = 1.4826 * median(&mut values);
        let standard_error = 1.253 * deviation / (values.len().max(1) as f64).sqrt();
        Self { median: middle, standard_error }
    }
}

fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let upper = *upper;
    if values.len().is_multiple_of(2) { f64::midpoint(lower, upper) } else { upper }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_median_is_the_middle_of_the_sorted_numbers(
            values in prop::collection::vec(-1e6..1e6_f64, 1..60)
        ) {
            let got = Sample::of(values.iter().copied());
            let mut sorted = values;
            sorted.sort_by(f64::total_cmp);
            let (a, b) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
            prop_assert_eq!(got.median, f64::midpoint(a, b));
            prop_assert!(got.standard_error >= 0.0);
        }

        #[test]
        fn a_minority_of_wild_numbers_moves_the_median_no_further_than_the_others_reach(
            calm in prop::collection::vec(0.9..1.1_f64, 11..40),
            wild in prop::collection::vec(any::<f64>().prop_filter("no NaN", |v| !v.is_nan()), 0..10)
        ) {
            let median = Sample::of(calm.into_iter().chain(wild)).median;
            prop_assert!((0.9..=1.1).contains(&median));
        }
    }
}
