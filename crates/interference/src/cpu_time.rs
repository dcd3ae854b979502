use crate::tail::normal_above;
use crate::{Bin, Evidence, Held, Resource, Settings, Signal, Subject, Verdict, VictimBins};
use std::collections::BTreeMap;

/// A holder that was in the way in fewer bins than this (0.4 s) passed by: on a busy machine everybody does.
const LEAST_BINS: usize = 10;
/// What 2.5 % of a standard normal exceed.
const NORMAL_975: f64 = 1.959_964;

/// Losses to those who held the core while the victim waited. In the bins that are kept these are sums of what was
/// measured: the interval says where within a slot the wait may have lain and, where not all bins are kept, how far those
/// that are speak for the others.
pub(crate) fn verdicts(victim: &VictimBins<'_>, settings: &Settings) -> Vec<Verdict> {
    let mut holders: BTreeMap<Subject, Sum> = BTreeMap::new();
    for bin in &victim.bins {
        let weight = victim.weight(bin.start_ns);
        for held in bin.held.iter().filter(|held| held.ns > 0.0) {
            holders.entry(held.subject).or_default().add(bin.start_ns, held, weight);
        }
    }
    let waited: f64 = victim.bins.iter().map(|bin| bin.wait_ns).sum();
    let wanted = |bin: &&Bin| (bin.on_cpu_ns + bin.wait_ns) * victim.weight(bin.start_ns);
    let whole: f64 = victim.bins.iter().map(wanted).sum();
    let judged = |(holder, sum): (Subject, Sum)| {
        let within = |start: &u64| (sum.from_ns..=sum.to_ns).contains(start);
        let bins = victim.bins.iter().filter(|bin| within(&bin.start_ns));
        let wanted: f64 = bins.map(wanted).sum();
        let share = |ns: f64| (ns / wanted.max(1.0)).clamp(0.0, 1.0);
        // Against all the time the victim wanted, not only that beside this holder: what passes by is not worth a verdict.
        let matters = sum.bins >= LEAST_BINS && sum.ns >= settings.least_loss * whole;
        let confidence = 1.0 - sum.chance();
        let found = matters && confidence >= 1.0 - settings.false_alarm;
        if !found {
            return None;
        }
        let all = victim.whole(&[holder], sum.measured.iter().map(|(at, ns)| (*at, *ns)));
        let (low, high) = all.widen(share(sum.ns), share(sum.low_ns), share(sum.high_ns));
        Some(Verdict {
            victim: victim.victim,
            aggressors: vec![holder],
            from_ns: sum.from_ns,
            to_ns: sum.to_ns.saturating_add(settings.bin_ns),
            slowdown: share(sum.ns),
            low,
            high,
            lost_seconds: sum.measured.values().sum::<f64>() / 1e9 * all.times,
            resource: Resource::CpuTime,
            signal: Signal::RunQueueWait,
            confidence,
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
    /// What was measured, by the bin.
    measured: BTreeMap<u64, f64>,
}

impl Sum {
    fn add(&mut self, start_ns: u64, held: &Held, weight: f64) {
        self.ns += f64::from(held.ns) * weight;
        self.low_ns += f64::from(held.low_ns) * weight;
        self.high_ns += f64::from(held.high_ns) * weight;
        *self.measured.entry(start_ns).or_default() += f64::from(held.ns);
        self.from_ns = if self.bins == 0 { start_ns } else { self.from_ns.min(start_ns) };
        self.to_ns = self.to_ns.max(start_ns);
        self.bins += 1;
    }

    /// The chance that the holder was in nobody's way: what it held the core for is at least the lower bound, which is
    /// taken for the lower end of a 95 % interval. Where the slots leave no doubt there is none.
    fn chance(&self) -> f64 {
        let error = (self.ns - self.low_ns) / NORMAL_975;
        if error > 0.0 { normal_above(self.ns / error) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let victim = VictimBins { victim: Subject(0), bins: bins.iter().collect(), sample: None };
        let found = verdicts(&victim, &Settings::recording());
        let named: Vec<&[Subject]> = found.iter().map(|one| &one.aggressors[..]).collect();
        assert_eq!(named, [[Subject(1)]]);
        assert!((found[0].slowdown - 4.0 / 15.0).abs() < 1e-6, "{found:?}");
        assert!(found[0].confidence > 0.9999, "the slots leave no doubt: {found:?}");
    }

    #[test]
    fn the_less_the_slots_say_of_who_was_in_the_way_the_less_sure_is_the_verdict() {
        let confidence = |low_ns: f32| {
            let held = Held { subject: Subject(1), ns: 4e6, low_ns, high_ns: 5e6 };
            let one = |at| Bin { held: [held].into(), ..bin(at, &[]) };
            let bins: Vec<Bin> = (0..100).map(one).collect();
            let bins = bins.iter().collect();
            let victim = VictimBins { victim: Subject(0), bins, sample: None };
            verdicts(&victim, &Settings::recording()).first().map(|verdict| verdict.confidence)
        };
        let sure: Vec<f64> = [0.4e6, 1e6, 2e6].into_iter().filter_map(confidence).collect();
        assert!(sure.len() == 3 && sure.is_sorted(), "{sure:?}");
        assert!(sure[0] > 0.98 && sure[0] < 0.99 && sure[2] > 0.999, "{sure:?}");
        assert_eq!(confidence(0.0), None, "it may have been in nobody's way");
    }
}
