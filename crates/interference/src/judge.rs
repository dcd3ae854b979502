use crate::columns::Group;
use crate::series::best_signal;
use crate::trial::{Effect, Trial};
use crate::{
    Because, CannotTell, Evidence, Findings, Resource, Settings, Signal, Subject, Verdict,
    VictimBins, Way, cpu_time,
};

/// Fewer bins than this (two seconds) are not looked at.
const LEAST_BINS: usize = 50;
/// Share of stolen time from which on cycles a nanosecond are no frequency.
const LEAST_STOLEN: f64 = 0.001;
/// From here on a second signal is said to move as well.
const MOVES: f64 = 2.5;
/// A loss so many times what memory's slowness explains is the cache's.
const FAR_BEYOND: f64 = 3.0;
/// A group that may have cost this much, and yet does not stand out, is one that cannot be told.
const WORTH_SAYING: f64 = 0.05;

/// Turns the statistics of all victims of one node into verdicts.
///
/// The one numeric core: it does not matter whether the bins come from an [`crate::Observer`] or a query.
pub fn judge(victims: &[VictimBins<'_>], settings: &Settings) -> Findings {
    let mut findings = Findings::default();
    let probe = victims.iter().find(|one| one.victim == Subject::PROBE);
    let probe = probe.map(|probe| Trial::of_probe(probe, settings));
    let mut suspicions = Vec::new();
    let mut tests = 0;
    for victim in victims.iter().filter(|one| !one.victim.is_reserved()) {
        findings.verdicts.extend(cpu_time::verdicts(victim, settings));
        match trials(victim, settings) {
            Ok(trials) => {
                for trial in trials {
                    tests += trial.tests;
                    never_quiet(victim.victim, &trial, &mut findings);
                    suspicions.extend(Suspicion::all(victim, trial));
                }
            }
            Err(because) => {
                let neighbours = Vec::new();
                findings.cannot_tell.push(CannotTell {
                    victim: victim.victim,
                    neighbours,
                    because,
                });
            }
        }
    }
    for (suspicion, chance) in holm(suspicions, tests) {
        if chance <= settings.false_alarm {
            findings.verdicts.extend(suspicion.verdict(chance, probe.as_ref(), settings));
        } else if suspicion.group.members.len() > 1 && suspicion.at_most() > WORTH_SAYING {
            let (victim, neighbours) = (suspicion.victim.victim, suspicion.group.subjects());
            findings.cannot_tell.push(CannotTell {
                victim,
                neighbours,
                because: Because::Collinear,
            });
        }
    }
    findings.verdicts.sort_by(|a, b| b.lost_seconds.total_cmp(&a.lost_seconds));
    findings
}

fn trials(victim: &VictimBins<'_>, settings: &Settings) -> Result<Vec<Trial>, Because> {
    if victim.bins.len() < LEAST_BINS {
        return Err(Because::TooShort);
    }
    let signal = best_signal(&victim.bins).ok_or(Because::NoSignal)?;
    let trial = Trial::of_cost(victim, signal, settings);
    if trial.columns.groups.is_empty() && trial.columns.never_quiet.is_empty() {
        return Err(Because::ExposureTooSmall);
    }
    if !trial.is_judged() && !trial.columns.groups.is_empty() {
        return Err(Because::TooShort);
    }
    let mut trials = vec![trial];
    // Cycles do not pass while time is stolen: their rate would accuse whoever is on when the host is busy. Where
    // nobody says how much is stolen, it is not taken to be nothing.
    let stolen: Option<f64> = victim.bins.iter().map(|bin| bin.stolen).sum();
    let keeps_its_time = stolen.is_some_and(|sum| sum < LEAST_STOLEN * victim.bins.len() as f64);
    let has_frequency =
        victim.bins.iter().any(|bin| bin.counted.is_some() || bin.freq_mhz.is_some());
    if has_frequency && keeps_its_time {
        trials.push(Trial::of_cost(victim, Signal::Frequency, settings));
    }
    Ok(trials)
}

fn never_quiet(victim: Subject, trial: &Trial, findings: &mut Findings) {
    let neighbours = trial.columns.never_quiet.clone();
    let known = CannotTell { victim, neighbours, because: Because::NeverQuiet };
    if !known.neighbours.is_empty() && !findings.cannot_tell.contains(&known) {
        findings.cannot_tell.push(known);
    }
}

/// A neighbour, or a group, whose exposure makes a victim's work dearer; perhaps by chance.
struct Suspicion<'a> {
    victim: &'a VictimBins<'a>,
    trial: std::rc::Rc<Trial>,
    group: Group,
    effect: Effect,
}

impl<'a> Suspicion<'a> {
    fn all(victim: &'a VictimBins<'a>, trial: Trial) -> Vec<Self> {
        let trial = std::rc::Rc::new(trial);
        let groups = trial.columns.groups.iter().enumerate();
        let suspect = |(at, group): (usize, &Group)| {
            let effect = trial.effect(at)?;
            Some(Self { victim, trial: trial.clone(), group: group.clone(), effect })
        };
        groups.filter_map(suspect).collect()
    }

    fn at_most(&self) -> f64 {
        self.trial.lost(&self.group, self.effect.high, (0, u64::MAX)).0
    }

    fn verdict(&self, chance: f64, probe: Option<&Trial>, settings: &Settings) -> Option<Verdict> {
        let (trial, group, effect) = (&self.trial, &self.group, &self.effect);
        let extent = trial.extent(group, settings.bin_ns);
        let (slowdown, lost_seconds) = trial.lost(group, effect.per_core, extent);
        if slowdown < settings.least_loss {
            return None;
        }
        let subjects = group.subjects();
        let misses = Trial::of_misses(self.victim, &trial.columns.groups);
        let evidence = Evidence {
            bins: trial.points.len(),
            exposure: group.mean,
            effect_per_core: effect.per_core,
            t: effect.t,
            misses_t: misses.t_of(&subjects),
            probe_t: probe.and_then(|probe| probe.t_of(&subjects)),
        };
        let memory = probe.and_then(|probe| probe.per_core_of(&subjects));
        Some(Verdict {
            victim: self.victim.victim,
            from_ns: extent.0,
            to_ns: extent.1,
            slowdown,
            low: trial.lost(group, effect.low, extent).0,
            high: trial.lost(group, effect.high, extent).0,
            lost_seconds: lost_seconds * self.victim.stands_for(),
            resource: resource(trial.signal, group, &evidence, memory),
            signal: trial.signal,
            confidence: 1.0 - chance,
            aggressors: subjects,
            evidence,
        })
    }
}

/// What moves says what is fought for: the core's clock, its pipeline, the cache's space, or memory's time.
///
/// Without counters the probe helps: a victim cannot be slowed by memory's queue more than memory itself is. What it
/// loses far beyond that, it loses to misses.
fn resource(
    signal: Signal,
    group: &Group,
    evidence: &Evidence,
    memory_per_core: Option<f64>,
) -> Resource {
    let ways = || group.members.iter().map(|member| member.1);
    if signal == Signal::Frequency {
        Resource::Frequency
    } else if ways().any(|way| way == Way::Sibling) {
        Resource::SiblingThread
    } else if ways().all(|way| way == Way::Memory) {
        Resource::MemoryBandwidth
    } else if let Some(t) = evidence.misses_t {
        if t >= MOVES { Resource::Cache } else { Resource::MemoryBandwidth }
    } else {
        let moves = evidence.probe_t.is_some_and(|t| t >= MOVES);
        match memory_per_core.filter(|_| moves) {
            Some(memory) if memory >= evidence.effect_per_core => Resource::MemoryBandwidth,
            Some(memory) if FAR_BEYOND * memory < evidence.effect_per_core => Resource::Cache,
            _ => Resource::CacheOrMemory,
        }
    }
}

/// Chances after Holm: the probability that anybody among all who were looked at is blamed by chance.
fn holm(mut suspicions: Vec<Suspicion<'_>>, tests: usize) -> Vec<(Suspicion<'_>, f64)> {
    suspicions.sort_by(|a, b| a.effect.chance.total_cmp(&b.effect.chance));
    let mut least: f64 = 0.0;
    let mut adjusted = Vec::with_capacity(suspicions.len());
    for (before, suspicion) in suspicions.into_iter().enumerate() {
        least = least.max(suspicion.effect.chance * tests.saturating_sub(before).max(1) as f64);
        adjusted.push((suspicion, least.min(1.0)));
    }
    adjusted
}
