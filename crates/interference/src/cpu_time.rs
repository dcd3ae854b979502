use crate::{Evidence, Held, Resource, Settings, Signal, Subject, Verdict, VictimBins};
use std::collections::BTreeMap;

/// A holder that was in the way in fewer bins than this (0.4 s) passed by: on a busy machine everybody does.
const LEAST_BINS: usize = 10;

/// Losses to those who held the core while the victim waited. These are sums of what was measured, not estimates:
/// the interval says only where within a slot the wait may have lain.
pub(crate) fn verdicts(victim: &VictimBins<'_>, settings: &Settings) -> Vec<Verdict> {
    let mut holders: BTreeMap<Subject, Sum> = BTreeMap::new();
    for bin in &victim.bins {
        for held in bin.held.iter().filter(|held| held.ns > 0.0) {
            holders.entry(held.subject).or_default().add(bin.start_ns, held);
        }
    }
    let waited: f64 = victim.bins.iter().map(|bin| bin.wait_ns).sum();
    let whole: f64 = victim.bins.iter().map(|bin| bin.on_cpu_ns + bin.wait_ns).sum();
    let judged = |(holder, sum): (Subject, Sum)| {
        let within = |start: &u64| (sum.from_ns..=sum.to_ns).contains(start);
        let bins = victim.bins.iter().filter(|bin| within(&bin.start_ns));
        let wanted: f64 = bins.map(|bin| bin.on_cpu_ns + bin.wait_ns).sum();
        let share = |ns: f64| (ns / wanted.max(1.0)).clamp(0.0, 1.0);
        // Against all the time the victim wanted, not only that beside this holder: what passes by is not worth a verdict.
        let matters = sum.bins >= LEAST_BINS && sum.ns >= settings.least_loss * whole;
        let found = matters && sum.low_ns > 0.0;
        found.then(|| Verdict {
            victim: victim.victim,
            aggressors: vec![holder],
            from_ns: sum.from_ns,
            to_ns: sum.to_ns.saturating_add(settings.bin_ns),
            slowdown: share(sum.ns),
            low: share(sum.low_ns),
            high: share(sum.high_ns),
            lost_seconds: sum.ns / 1e9 * victim.stands_for(),
            resource: Resource::CpuTime,
            signal: Signal::RunQueueWait,
            confidence: 0.99,
            evidence: Evidence { bins: sum.bins, exposure: waited / 1e9, ..Evidence::default() },
        })
    };
    holders.into_iter().filter_map(judged).collect()
}

#[derive(Debug, Default)]
struct Sum {
    ns: f64,
    low_ns: f64,
    high_ns: f64,
    from_ns: u64,
    to_ns: u64,
    bins: usize,
}

impl Sum {
    fn add(&mut self, start_ns: u64, held: &Held) {
        self.ns += f64::from(held.ns);
        self.low_ns += f64::from(held.low_ns);
        self.high_ns += f64::from(held.high_ns);
        self.from_ns = if self.bins == 0 { start_ns } else { self.from_ns.min(start_ns) };
        self.to_ns = self.to_ns.max(start_ns);
        self.bins += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bin;

    fn bin(at: u64, held_by: &[(u32, f32)]) -> Bin {
        let held =
            |&(who, ns): &(u32, f32)| Held { subject: Subject(who), ns, low_ns: ns, high_ns: ns };
        Bin {
            start_ns: at * 40_000_000,
            on_cpu_ns: 10e6,
            voluntary_switches: 5.0,
            counted: None,
            progress: None,
            stolen: None,
            freq_mhz: None,
            wait_ns: 5e6,
            probe: None,
            exposures: Box::default(),
            held: held_by.iter().map(held).collect(),
        }
    }

    #[test]
    fn who_is_in_the_way_for_long_is_named_and_who_passes_by_is_not() {
        // Somebody holds the core for a third of the time throughout; a hundred others once each.
        let bins: Vec<Bin> =
            (0..100).map(|at| bin(at, &[(1, 4e6), (100 + at as u32, 1e6)])).collect();
        let victim = VictimBins { victim: Subject(0), bins: bins.iter().collect(), on_cpu_ns: 0.0 };
        let found = verdicts(&victim, &Settings::recording());
        let named: Vec<&[Subject]> = found.iter().map(|one| &one.aggressors[..]).collect();
        assert_eq!(named, [[Subject(1)]]);
        assert!((found[0].slowdown - 4.0 / 15.0).abs() < 1e-6, "{found:?}");
    }
}
