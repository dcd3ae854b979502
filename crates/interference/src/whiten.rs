/// Bins of the past that explain the next one: enough for phases of seconds under the noise of single bins.
const MOST_ORDER: usize = 6;

/// Coefficients of the autoregression `r(t) = sum phi(k) r(t-k) + e(t)` by Yule, Walker and Levinson.
///
/// A victim that drifts or changes its phase leaves residuals that resemble the ones before. Taking what the past
/// explains out of both sides compares each bin with those just before it, as much as this victim needs.
pub(crate) fn autoregression(residuals: &[f64], restart: &[bool], most: f64) -> Vec<f64> {
    let order = MOST_ORDER.min(residuals.len() / 20);
    let clipped: Vec<f64> = residuals.iter().map(|r| r.clamp(-most, most)).collect();
    let mean = clipped.iter().sum::<f64>() / clipped.len().max(1) as f64;
    let moment = |lag: usize| -> f64 {
        let pairs = (lag..clipped.len())
            .filter(|&t| !restart[t + 1 - lag.max(1)..=t][..lag].contains(&true));
        pairs.map(|t| (clipped[t] - mean) * (clipped[t - lag] - mean)).sum()
    };
    let moments: Vec<f64> = (0..=order).map(moment).collect();
    let mut phi: Vec<f64> = Vec::new();
    let mut error = moments[0];
    for lag in 1..=order {
        if !(error > 1e-12 * moments[0] && error.is_normal()) {
            break;
        }
        let explained: f64 = phi.iter().enumerate().map(|(k, p)| p * moments[lag - 1 - k]).sum();
        let reflection = ((moments[lag] - explained) / error).clamp(-0.999, 0.999);
        let before = phi.clone();
        for (k, p) in phi.iter_mut().enumerate() {
            *p -= reflection * before[lag - 2 - k];
        }
        phi.push(reflection);
        error *= 1.0 - reflection * reflection;
    }
    phi
}

/// Rows less what the rows before them explain; rows without enough of a past are left out. `keep` says which remain.
pub(crate) fn whiten(rows: &[f64], width: usize, keep: &[usize], phi: &[f64]) -> Vec<f64> {
    let mut out = Vec::with_capacity(keep.len() * width);
    let row = |t: usize| &rows[t * width..(t + 1) * width];
    let mut past = vec![0.0; width];
    for &t in keep {
        past.fill(0.0);
        for (k, p) in phi.iter().enumerate() {
            past.iter_mut().zip(row(t - 1 - k)).for_each(|(sum, before)| *sum += p * before);
        }
        out.extend(row(t).iter().zip(&past).map(|(now, past)| now - past));
    }
    out
}

/// The rows that have `order` rows before them without a break between.
pub(crate) fn with_past(restart: &[bool], order: usize) -> Vec<usize> {
    let mut run = 0;
    let mut keep = Vec::with_capacity(restart.len());
    for (t, &broken) in restart.iter().enumerate() {
        run = if broken { 0 } else { run + 1 };
        if t >= order && run >= order {
            keep.push(t);
        }
    }
    keep
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_of_a_drifting_series_is_found() {
        let mut value = 0.0;
        let mut random = 1_u64;
        let series: Vec<f64> = (0..20_000)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                value = 0.8 * value + (random >> 11) as f64 / (1_u64 << 53) as f64 - 0.5;
                value
            })
            .collect();
        let mut restart = vec![false; series.len()];
        restart[0] = true;
        let phi = autoregression(&series, &restart, 1e9);
        assert!((phi[0] - 0.8).abs() < 0.03, "{phi:?}");
        assert!(phi[1..].iter().all(|p| p.abs() < 0.03), "{phi:?}");
    }

    #[test]
    fn nothing_is_compared_across_a_break() {
        let restart = [true, false, false, true, false, false];
        assert_eq!(with_past(&restart, 2), [2, 5]);
    }
}
