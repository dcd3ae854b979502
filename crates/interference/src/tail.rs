/// The middle of the values; 0 of none. Orders them.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// Standard deviation of a normal bulk, whatever the outliers: 1.4826 times the median absolute deviation.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    let centre = median(&mut sorted);
    // What has no sign is in the order of its bits, and whole numbers are compared faster.
    let mut off: Vec<u64> = values.iter().map(|value| (value - centre).abs().to_bits()).collect();
    if off.is_empty() {
        return 0.0;
    }
    let middle = off.len() / 2;
    1.4826 * f64::from_bits(*off.select_nth_unstable(middle).1)
}

/// Probability that a standard normal exceeds `z`: the rational approximation of erfc by Numerical Recipes
/// (section 6.2), relative error below 1.2e-7 everywhere.
pub(crate) fn normal_above(z: f64) -> f64 {
    const TERMS: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    let series = TERMS.iter().rev().fold(0.0, |sum, term| sum * t + term);
    let above = 0.5 * t * (series - x * x).exp();
    if z < 0.0 { 1.0 - above } else { above }
}

/// Probability that Student's t with `df` degrees of freedom exceeds `t` (Wallace 1959).
pub(crate) fn student_above(t: f64, df: f64) -> f64 {
    let z = (8.0 * df + 1.0) / (8.0 * df + 3.0) * (df * (t * t / df).ln_1p()).sqrt();
    normal_above(z.copysign(t))
}

/// The t that 2.5 % exceed: the same approximation, turned round.
pub(crate) fn student_975(df: f64) -> f64 {
    let z = 1.959_964 * (8.0 * df + 3.0) / (8.0 * df + 1.0);
    (df * (z * z / df).exp_m1()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_agree_with_the_tables() {
        assert!((normal_above(1.959_964) - 0.025).abs() < 1e-6);
        assert!((normal_above(-1.0) - 0.841_345).abs() < 1e-5);
        assert!((student_above(2.228, 10.0) - 0.025).abs() < 5e-4);
        assert!((student_975(10.0) - 2.228).abs() < 0.02);
        assert!((student_975(120.0) - 1.980).abs() < 0.002);
    }
}
