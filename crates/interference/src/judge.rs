use crate::columns::Group;
use crate::series::best_signal;
use crate::side_by_side::side_by_side;
use crate::trial::{Effect, Trial};
use crate::{
    Because, CannotTell, Evidence, Findings, Resource, Settings, Signal, Subject, Verdict,
    VictimBins, Way, cpu_time,
};
use std::cell::LazyCell;
use std::sync::{Arc, OnceLock};

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
    // As dear as a victim's own, and asked for only where somebody is convicted.
    let probe = LazyCell::new(|| {
        let probe = victims.iter().find(|one| one.victim == Subject::PROBE);
        probe.map(|probe| Trial::of_probe(probe, settings))
    });
    let mut suspicions = Vec::new();
    let mut tests = 0;
    for outcome in outcomes(victims, settings) {
        findings.verdicts.extend(outcome.verdicts);
        findings.cannot_tell.extend(outcome.cannot_tell);
        suspicions.extend(outcome.suspicions);
        tests += outcome.tests;
    }
    let suspicions = holm(suspicions, tests);
    let convicted = suspicions.iter().filter(|(_, chance)| *chance <= settings.false_alarm);
    let mut cases: Vec<&Case<'_>> =
        convicted.filter_map(|(suspicion, _)| suspicion.case.as_deref()).collect();
    cases.sort_by_key(|case| std::ptr::from_ref(*case));
    cases.dedup_by_key(|case| std::ptr::from_ref(*case));
    side_by_side(&cases, settings.threads, |case| {
        case.misses();
    });
    for (suspicion, chance) in suspicions {
        if chance <= settings.false_alarm {
            findings.verdicts.extend(suspicion.verdict(chance, (*probe).as_ref(), settings));
        } else if suspicion.at_most.is_some_and(|share| share > WORTH_SAYING) {
            let (victim, neighbours) = (suspicion.victim, suspicion.group.subjects());
            findings.cannot_tell.push(CannotTell {
                victim,
                neighbours,
                because: Because::Collinear,
            });
        }
    }
    let is_mute = |unsaid: &CannotTell| unsaid.because == Because::NoSignal;
    if findings.cannot_tell.iter().any(is_mute) {
        let slows_memory = (*probe).as_ref().map(|probe| probe.convicted(settings.false_alarm));
        let slows_memory = slows_memory.unwrap_or_default();
        for unsaid in findings.cannot_tell.iter_mut().filter(|one| is_mute(one)) {
            let others = slows_memory.iter().filter(|who| **who != unsaid.victim);
            unsaid.neighbours = others.copied().collect();
            if !unsaid.neighbours.is_empty() {
                unsaid.because = Because::OnlyProbe;
            }
        }
    }
    findings.verdicts.sort_by(|a, b| b.lost_seconds.total_cmp(&a.lost_seconds));
    findings
}

/// What came of one victim.
#[derive(Default)]
struct Outcome<'a> {
    verdicts: Vec<Verdict>,
    cannot_tell: Vec<CannotTell>,
    suspicions: Vec<Suspicion<'a>>,
    tests: usize,
}

/// Victims are judged each by itself, so several at a time where there is more than one thread for it; in their order.
fn outcomes<'a>(victims: &'a [VictimBins<'a>], settings: &Settings) -> Vec<Outcome<'a>> {
    let victims: Vec<_> = victims.iter().filter(|one| !one.victim.is_reserved()).collect();
    side_by_side(&victims, settings.threads, |victim| outcome(victim, settings))
}

fn outcome<'a>(victim: &'a VictimBins<'a>, settings: &Settings) -> Outcome<'a> {
    let mut outcome =
        Outcome { verdicts: cpu_time::verdicts(victim, settings), ..Outcome::default() };
    match trials(victim, settings) {
        Ok(trials) => {
            for trial in trials {
                outcome.tests += trial.tests;
                never_quiet(victim.victim, &trial, &mut outcome.cannot_tell);
                outcome.suspicions.extend(Suspicion::all(victim, trial, settings));
            }
        }
        Err(because) => {
            let neighbours = Vec::new();
            outcome.cannot_tell.push(CannotTell { victim: victim.victim, neighbours, because });
        }
    }
    outcome
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

fn never_quiet(victim: Subject, trial: &Trial, cannot_tell: &mut Vec<CannotTell>) {
    let neighbours = trial.columns.never_quiet.clone();
    let known = CannotTell { victim, neighbours, because: Because::NeverQuiet };
    if !known.neighbours.is_empty() && !cannot_tell.contains(&known) {
        cannot_tell.push(known);
    }
}

/// A trial of one victim that somebody may be convicted in.
struct Case<'a> {
    victim: &'a VictimBins<'a>,
    trial: Trial,
    /// The same neighbours by misses: the same for all who are convicted, and dear.
    misses: OnceLock<Trial>,
}

impl Case<'_> {
    fn misses(&self) -> &Trial {
        let groups = &self.trial.columns.groups;
        self.misses.get_or_init(|| Trial::of_misses(self.victim, groups))
    }
}

/// A neighbour, or a group, whose exposure makes a victim's work dearer; perhaps by chance.
struct Suspicion<'a> {
    victim: Subject,
    group: Group,
    effect: Effect,
    /// Of a group that cannot be told apart, what it may have cost.
    at_most: Option<f64>,
    /// None for whom chance explains already: counting all the others who were looked at cannot convict it, and a
    /// trial holds the victim's whole course.
    case: Option<Arc<Case<'a>>>,
}

impl<'a> Suspicion<'a> {
    fn all(victim: &'a VictimBins<'a>, trial: Trial, settings: &Settings) -> Vec<Self> {
        let case = Arc::new(Case { victim, trial, misses: OnceLock::new() });
        let trial = &case.trial;
        let groups = trial.columns.groups.iter().enumerate();
        let suspect = |(at, group): (usize, &Group)| {
            let effect = trial.effect(at)?;
            let is_group = group.members.len() > 1;
            Some(Self {
                victim: victim.victim,
                group: group.clone(),
                at_most: is_group.then(|| trial.lost(group, effect.high, (0, u64::MAX), |_| 1.0)),
                case: (effect.chance <= settings.false_alarm).then(|| case.clone()),
                effect,
            })
        };
        groups.filter_map(suspect).collect()
    }

    fn verdict(&self, chance: f64, probe: Option<&Trial>, settings: &Settings) -> Option<Verdict> {
        let case = self.case.as_deref()?;
        let (trial, group, effect) = (&case.trial, &self.group, &self.effect);
        let extent = trial.extent(group, settings.bin_ns);
        let victim = case.victim;
        let share = |per_core: f64| trial.lost(group, per_core, extent, |at| victim.weight(at));
        let slowdown = share(effect.per_core);
        if slowdown < settings.least_loss {
            return None;
        }
        let subjects = group.subjects();
        let evidence = Evidence {
            bins: trial.series.points.len(),
            exposure: group.mean,
            effect_per_core: effect.per_core,
            t: effect.t,
            misses_t: case.misses().t_of(&subjects),
            probe_t: probe.and_then(|probe| probe.t_of(&subjects)),
        };
        // Of a sample nobody knows when the neighbour came and went between what is kept.
        let is_part =
            |start_ns: u64| victim.sample.is_some() || (extent.0..extent.1).contains(&start_ns);
        let losses = trial.losses(group, effect.per_core);
        let measured: Vec<(u64, f64)> = losses
            .filter(|(start_ns, ..)| is_part(*start_ns))
            .map(|(start_ns, lost_ns, _)| (start_ns, lost_ns))
            .collect();
        let lost_ns: f64 = measured.iter().map(|one| one.1).sum();
        let whole = victim.whole(&subjects, measured.into_iter());
        let (low, high) = whole.widen(slowdown, share(effect.low), share(effect.high));
        let memory = probe.and_then(|probe| probe.per_core_of(&subjects));
        Some(Verdict {
            victim: self.victim,
            from_ns: extent.0,
            to_ns: extent.1,
            slowdown,
            low,
            high,
            lost_seconds: lost_ns / 1e9 * whole.times,
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
