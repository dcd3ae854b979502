use super::{Named, Sample, mean_and_deviation, normal, samples};
use crate::{Subject, VictimBins};
use std::collections::BTreeMap;

/// CPI2's rule (Zhang et al., EuroSys 2013), in time scaled to recordings of a minute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpi2 {
    /// A sample: 10 s once a minute there, 1 s here.
    pub sample_ns: u64,
    /// A sample is an outlier this many deviations above the mean.
    pub sigmas: f64,
    /// This many outliers...
    pub outliers: usize,
    /// ...among this many samples in a row make an anomaly: five minutes there.
    pub among: usize,
    /// An antagonist's correlation is at least this.
    pub correlation: f64,
}

impl Default for Cpi2 {
    fn default() -> Self {
        Self { sample_ns: 1_000_000_000, sigmas: 2.0, outliers: 3, among: 30, correlation: 0.35 }
    }
}

/// The pairs CPI2 would name. It knows a job's mean from its many copies; here an earlier, quiet recording stands for
/// them, and without one the recording itself has to do.
pub fn cpi2(victims: &[VictimBins<'_>], earlier: &[VictimBins<'_>], rule: &Cpi2) -> Vec<Named> {
    let mut named = Vec::new();
    for victim in victims.iter().filter(|one| !one.victim.is_reserved()) {
        let samples = samples(victim, rule.sample_ns);
        let before = normal(victim.victim, earlier, rule.sample_ns);
        let costs = before.as_deref().unwrap_or(&samples).iter().map(|sample| sample.cost);
        let (mean, deviation) = mean_and_deviation(costs);
        let threshold = mean + rule.sigmas * deviation;
        let outliers = |window: &[Sample]| window.iter().filter(|s| s.cost > threshold).count();
        let anomalous = samples
            .windows(rule.among.clamp(1, samples.len().max(1)))
            .any(|window| outliers(window) >= rule.outliers);
        if !anomalous || threshold <= 0.0 {
            continue;
        }
        for (aggressor, correlation) in correlations(&samples, threshold) {
            if correlation >= rule.correlation {
                named.push(Named { victim: victim.victim, aggressor });
            }
        }
    }
    named
}

/// `sum u(t) (1 - threshold / c(t))` where the cost is above it, `sum u(t) (c(t) / threshold - 1)` where below, with
/// usage `u` scaled to the sum 1: the paper's equation 1.
fn correlations(samples: &[Sample], threshold: f64) -> BTreeMap<Subject, f64> {
    let mut usage: BTreeMap<Subject, f64> = BTreeMap::new();
    for (subject, cores) in samples.iter().flat_map(|sample| &sample.beside) {
        *usage.entry(*subject).or_default() += cores;
    }
    let mut sums: BTreeMap<Subject, f64> = BTreeMap::new();
    for sample in samples {
        let pull = if sample.cost > threshold {
            1.0 - threshold / sample.cost
        } else {
            sample.cost / threshold - 1.0
        };
        for (subject, cores) in &sample.beside {
            let all = usage.get(subject).copied().unwrap_or(0.0).max(f64::MIN_POSITIVE);
            *sums.entry(*subject).or_default() += cores / all * pull;
        }
    }
    sums
}
