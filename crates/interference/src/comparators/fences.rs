use super::{Named, Sample, mean_and_deviation, normal, samples};
use crate::{Subject, VictimBins};
use std::collections::BTreeMap;

/// A rule after PRM (workload contention analysis): fences by utilisation, culprit by greatest change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fences {
    /// A sample.
    pub sample_ns: u64,
    /// Bins of the victim's utilisation, each with a fence of its own.
    pub utilisations: usize,
    /// The fence stands this many deviations above the mean of its bin.
    pub sigmas: f64,
    /// Samples beyond the fence that make a finding.
    pub beyond: usize,
}

impl Default for Fences {
    fn default() -> Self {
        Self { sample_ns: 1_000_000_000, utilisations: 5, sigmas: 2.0, beyond: 2 }
    }
}

/// The pairs such a rule would name: whose activity beside the victim rose most where the cost was beyond its fence.
/// (PRM takes the greatest change of cache occupancy or bandwidth; activity stands for them where neither is known.)
pub fn fences(victims: &[VictimBins<'_>], earlier: &[VictimBins<'_>], rule: &Fences) -> Vec<Named> {
    let mut named = Vec::new();
    for victim in victims.iter().filter(|one| !one.victim.is_reserved()) {
        let samples = samples(victim, rule.sample_ns);
        let before = normal(victim.victim, earlier, rule.sample_ns);
        let before = before.as_deref().unwrap_or(&samples);
        let most = before.iter().map(|sample| sample.cores).fold(0.0, f64::max);
        let bin = |sample: &Sample| {
            let share = sample.cores / most.max(f64::MIN_POSITIVE);
            ((share * rule.utilisations as f64) as usize).min(rule.utilisations)
        };
        let mut bins: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for sample in before {
            bins.entry(bin(sample)).or_default().push(sample.cost);
        }
        let is_beyond = |sample: &&Sample| {
            bins.get(&bin(sample)).is_some_and(|costs| {
                let (mean, deviation) = mean_and_deviation(costs.iter().copied());
                sample.cost > mean + rule.sigmas * deviation
            })
        };
        let beyond: Vec<&Sample> = samples.iter().filter(is_beyond).collect();
        if beyond.len() >= rule.beyond.max(1) {
            let culprit = greatest_rise(&samples, &beyond);
            named.extend(culprit.map(|aggressor| Named { victim: victim.victim, aggressor }));
        }
    }
    named
}

fn greatest_rise(all: &[Sample], beyond: &[&Sample]) -> Option<Subject> {
    let mut rise: BTreeMap<Subject, f64> = BTreeMap::new();
    for sample in all {
        for (subject, cores) in &sample.beside {
            *rise.entry(*subject).or_default() -= cores / all.len() as f64;
        }
    }
    for sample in beyond {
        for (subject, cores) in &sample.beside {
            *rise.entry(*subject).or_default() += cores / beyond.len() as f64;
        }
    }
    rise.into_iter().filter(|one| one.1 > 0.0).max_by(|a, b| a.1.total_cmp(&b.1)).map(|one| one.0)
}
