//! How likely memory is contended, given how far it is from quiet and how much quiet itself strays.

/// Contention slows what the probe feels by at least this much, as a natural logarithm: 8 %.
pub(crate) const LEAST_EFFECT: f64 = 0.08;
/// And by this much at most, of which any value is as likely as another: 80 %. A single streaming core was seen to
/// take 25 to 40 %.
const MOST_EFFECT: f64 = 0.6;
/// Other tenants, migrations, a firmware that wakes: what no model knows of happens more often than once in a hundred
/// times.
const SUREST: f64 = 0.99;

/// The probability that memory is contended if it is `above` quiet, where quiet medians stray by `noise` (both as
/// logarithms), and that was believed as much as `before`.
///
/// Bayes' rule over two hypotheses: quiet medians lie about 0; contended ones about an effect that is evenly
/// distributed. Both stray as Student's t with four degrees of freedom does, since shared hosts have heavy tails.
pub(crate) fn contended(above: f64, noise: f64, before: f64) -> f64 {
    // Faster than quiet is quiet; out in the tails the ratio of the two would say nothing.
    let (above, noise) = (above.max(0.0), noise.max(1e-3));
    let if_quiet = density(above / noise) / noise;
    let if_contended = below((above - LEAST_EFFECT) / noise) / (MOST_EFFECT - LEAST_EFFECT);
    let odds = before / (1.0 - before) * if_contended / if_quiet;
    (odds / (1.0 + odds)).clamp(1.0 - SUREST, SUREST)
}

/// Student's t, four degrees of freedom.
fn density(x: f64) -> f64 {
    0.375 * (1.0 + x * x / 4.0).powf(-2.5)
}

/// The share of it below `x`.
fn below(x: f64) -> f64 {
    let scale = 1.0 + x * x / 4.0;
    0.5 + 0.375 * x / scale.sqrt() * (1.0 - x * x / (12.0 * scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_distribution_is_that_of_tables_and_of_its_own_density() {
        for (x, share) in [(0.0, 0.5), (1.0, 0.81305), (2.776, 0.975), (4.604, 0.995)] {
            assert!((below(x) - share).abs() < 1e-4, "{x}: {}", below(x));
        }
        let steps = 4_000;
        let area: f64 = (0..steps).map(|i| density((f64::from(i) + 0.5) * 1e-3) * 1e-3).sum();
        assert!((area - (below(4.0) - 0.5)).abs() < 1e-6, "{area}");
    }

    proptest! {
        #[test]
        fn more_slowness_makes_contention_likelier_and_no_number_is_out_of_bounds(
            above in -1.0..3.0_f64, more in 0.0..1.0_f64, noise in 0.0..0.3_f64, before in 0.01..0.99_f64,
        ) {
            let (less, more) = (contended(above, noise, before), contended(above + more, noise, before));
            prop_assert!(more >= less - 1e-9, "{less} {more}");
            prop_assert!((1.0 - SUREST..=SUREST).contains(&less));
        }
    }
}
