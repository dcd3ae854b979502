//! Acts when somebody who matters is slowed, checks that it helped, and takes back what did not.
//!
//! One thing is changed at a time. A lever is pulled only after the same loss was seen several times in a row, kept only
//! if the victim won back a fair part of what it lost, and never pulled against somebody as important as the victim.

mod case;
mod letting_go;

use super::levers::{self, Lever, Pair};
use super::{Decision, Loss, Offered, Scheduler, Slowed, View, Vitals};
use crate::Error;
use crate::experiment::Container;
use crate::roster::Member;
use case::{Case, State, Trial};
use crosstalk_interference::{Resource, Signal};
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub(super) static OFFERED: Offered = Offered {
    name: "adaptive",
    needs_rdt: false,
    make: |experiment, means| {
        let groups = means.groups().ok().filter(|_| experiment.use_rdt);
        let levers = levers::all(means.host, groups, &experiment.containers)?;
        Ok(Box::new(Adaptive::new(levers, &experiment.containers)))
    },
};

/// Looks in a row that must show the same before anything is done.
const IN_A_ROW: u32 = 3;
/// A loss whose lower end is below this is not worth a change.
const LEAST_LOSS: f64 = 0.03;
/// How sure it must be.
const LEAST_CONFIDENCE: f64 = 0.95;
/// How the victim fared before is told over this long.
const BEFORE: Duration = Duration::from_secs(3);
/// What a change sets off dies down first.
const SETTLE: Duration = Duration::from_millis(500);
/// Then this long is looked at.
const CHECK: Duration = Duration::from_millis(2_500);
/// A change that tells nothing by then has not helped.
const PATIENCE: Duration = Duration::from_secs(8);
/// Of what it lost the victim must win back at least this.
const FAIR: f64 = 0.5;
/// A lever that was kept is taken back when it helps less than this, at so many looks in a row.
const STILL: f64 = 0.25;
const MOST_USELESS: u32 = 6;

/// Watches, acts, checks.
pub struct Adaptive {
    levers: Vec<Box<dyn Lever>>,
    ranks: BTreeMap<u32, (bool, i64)>,
    cases: BTreeMap<(u32, u32), Case>,
    /// How everybody fared, the newest last.
    history: VecDeque<(Duration, BTreeMap<u32, Vitals>)>,
    /// Who ran at the last look.
    running: Vec<Member>,
}

impl Adaptive {
    /// With these levers, tried in their order.
    pub fn new(levers: Vec<Box<dyn Lever>>, containers: &[Container]) -> Self {
        let ranks = containers.iter().map(|c| (c.index, (c.critical, c.priority))).collect();
        Self {
            levers,
            ranks,
            cases: BTreeMap::new(),
            history: VecDeque::new(),
            running: Vec::new(),
        }
    }

    /// Whether one may be held back for the other. Of equals neither is, where they only share a core fairly.
    fn may(&self, slowed: &Slowed, aggressor: u32) -> bool {
        let rank = |index: u32| self.ranks.get(&index).copied().unwrap_or_default();
        let (victim, other) = (rank(slowed.victim), rank(aggressor));
        let equals_may = slowed.resource != Resource::CpuTime;
        !other.0 && (victim > other || (victim == other && equals_may))
    }

    fn remember(&mut self, now: Duration, view: &View) {
        self.running.clone_from(&view.running);
        self.history.push_back((now, view.vitals.clone()));
        while self.history.front().is_some_and(|(at, _)| *at + PATIENCE * 2 < now) {
            self.history.pop_front();
        }
    }

    /// How `index` fared at the first look at or after `at` at which `also` was there too. What it had said it got
    /// done by then must be no older than `since_ns`: what was said before tells of another time.
    fn vitals_at(&self, at: Duration, index: u32, also: u32, since_ns: u64) -> Option<Vitals> {
        let is_new =
            |vitals: &Vitals| vitals.done.is_none_or(|(reported_ns, _)| reported_ns >= since_ns);
        let looks =
            self.history.iter().filter(|(when, all)| *when >= at && all.contains_key(&also));
        looks.filter_map(|(_, all)| all.get(&index)).find(|vitals| is_new(vitals)).cloned()
    }

    /// When a container is known to have run first, as far back as is remembered, Unix nanoseconds.
    fn first_seen_ns(&self, index: u32) -> Option<u64> {
        self.history.iter().find_map(|(_, all)| Some(all.get(&index)?.at_ns))
    }

    /// How fast the victim is that a lever is pulled for, over the last moments that tell of nothing but the lever.
    fn speed_under(&self, now: Duration, victim: u32, trial: &Trial, view: &View) -> Option<f64> {
        let settled = trial.since + SETTLE;
        let settled_ns = since(trial.loss.signal, trial.since_ns + SETTLE.as_nanos() as u64);
        let newest = now.saturating_sub(CHECK);
        let from = self.vitals_at(settled.max(newest), victim, victim, settled_ns)?;
        view.vitals.get(&victim)?.speed_since(&from, trial.loss)
    }

    /// Judges a trial that has run long enough.
    fn check(&mut self, now: Duration, view: &View) -> Vec<Decision> {
        let trying = self.cases.iter().find_map(|(key, case)| match &case.state {
            State::Trying(trial) => Some((*key, trial.clone())),
            _ => None,
        });
        let Some(((victim, aggressor), trial)) = trying else { return Vec::new() };
        if now < trial.since + SETTLE + CHECK {
            return Vec::new();
        }
        let after = self.speed_under(now, victim, &trial, view);
        if after.is_none() && now < trial.since + PATIENCE {
            return Vec::new();
        }
        let recovered = after.map(|after| trial.recovered(after));
        let helped = recovered.is_some_and(|recovered| recovered >= FAIR);
        let lever = self.levers[trial.lever].name();
        let share =
            recovered.map_or("an unknown part".to_owned(), |r| format!("{:.0} %", r * 100.0));
        let mut evidence = json!({
            "lever": lever, "speed_before": trial.before, "speed_expected": trial.expected,
            "speed_after": after, "recovered": recovered,
        });
        let (aggressor_name, victim_name) = (self.name_of(aggressor), self.name_of(victim));
        let Some(case) = self.cases.get_mut(&(victim, aggressor)) else { return Vec::new() };
        let (what, message) = if helped {
            case.state = State::Kept(trial, 0);
            ("kept", format!("{lever} stays: {victim_name} won back {share} of what it lost"))
        } else {
            case.state = State::Suspected;
            // How the victim fares without it is seen anew before the next is tried.
            case.in_a_row = 0;
            match self.let_go(trial.lever, aggressor) {
                None => (
                    "rolled back",
                    format!("{lever} taken back: {victim_name} won back only {share}"),
                ),
                Some(error) => {
                    let message =
                        format!("{lever} does not help, and cannot be taken back: {error}");
                    evidence["error"] = error.into();
                    ("stuck", message)
                }
            }
        };
        vec![decision(what, aggressor_name, victim_name, message, evidence)]
    }

    /// Takes back what was kept and has ceased to help.
    fn check_kept(&mut self, now: Duration, view: &View) -> Vec<Decision> {
        let kept: Vec<((u32, u32), Trial)> = self.cases.iter().filter_map(kept_trial).collect();
        let mut decisions = Vec::new();
        for ((victim, aggressor), trial) in kept {
            let Some(speed) = self.speed_under(now, victim, &trial, view) else { continue };
            let recovered = trial.recovered(speed);
            let Some(case) = self.cases.get_mut(&(victim, aggressor)) else { continue };
            let State::Kept(_, useless) = &mut case.state else { continue };
            *useless = if recovered < STILL { *useless + 1 } else { 0 };
            if *useless < MOST_USELESS {
                continue;
            }
            (case.state, case.in_a_row) = (State::Suspected, 0);
            let error = self.let_go(trial.lever, aggressor);
            let (name, victim) = (self.name_of(aggressor), self.name_of(victim));
            let lever = self.levers[trial.lever].name();
            let evidence = json!({
                "lever": lever, "speed_before": trial.before, "speed_expected": trial.expected,
                "speed_after": speed, "recovered": recovered, "error": error,
            });
            let (what, message) = match error {
                None => (
                    "rolled back",
                    format!("{lever} taken back: {victim} is as slow with it as without"),
                ),
                Some(error) => {
                    ("stuck", format!("{lever} helps no more, and cannot be taken back: {error}"))
                }
            };
            decisions.push(decision(what, name, victim, message, evidence));
        }
        decisions
    }

    /// Counts what is seen, and acts on what was seen often enough.
    fn act(&mut self, now: Duration, view: &View) -> Vec<Decision> {
        let is_sure = |s: &&Slowed| s.confidence >= LEAST_CONFIDENCE && s.low >= LEAST_LOSS;
        let mut seen: BTreeMap<(u32, u32), &Slowed> = BTreeMap::new();
        for slowed in view.slowed.iter().filter(is_sure) {
            let runs = |index: &u32| view.running.iter().any(|member| member.index == *index);
            let mut blamed: Vec<u32> = slowed.aggressors.iter().copied().filter(runs).collect();
            // Of several that cannot be told apart, the busiest first.
            blamed
                .sort_by_key(|i| std::cmp::Reverse(view.vitals.get(i).map_or(0, |v| v.on_cpu_ns)));
            let found = blamed.into_iter().find(|index| self.may(slowed, *index));
            if let Some(aggressor) = found.filter(|_| runs(&slowed.victim)) {
                // Through several resources at once, it is the greatest loss that is to be won back.
                let known = seen.entry((slowed.victim, aggressor)).or_insert(slowed);
                if slowed.slowdown > known.slowdown {
                    *known = slowed;
                }
            }
        }
        for (key, case) in &mut self.cases {
            if !seen.contains_key(key) {
                case.in_a_row = 0;
            }
        }
        let is_busy = self.cases.values().any(|case| matches!(case.state, State::Trying(_)));
        let mut decisions = Vec::new();
        let mut worst: Vec<((u32, u32), &Slowed)> = seen.into_iter().collect();
        worst.sort_by(|a, b| b.1.slowdown.total_cmp(&a.1.slowdown));
        for (key, slowed) in worst {
            let case = self.cases.entry(key).or_default();
            case.in_a_row += 1;
            let ripe = case.in_a_row >= IN_A_ROW && matches!(case.state, State::Suspected);
            if ripe && !is_busy && decisions.is_empty() {
                decisions.extend(self.try_next(now, view, key, slowed));
            }
        }
        decisions
    }

    /// Pulls the next lever that was not tried for this pair.
    fn try_next(
        &mut self,
        now: Duration,
        view: &View,
        (victim, aggressor): (u32, u32),
        slowed: &Slowed,
    ) -> Option<Decision> {
        let member = |index: u32| view.running.iter().find(|member| member.index == index);
        let (v, a) = (member(victim)?, member(aggressor)?);
        let came_ns = since(slowed.signal, self.first_seen_ns(aggressor)?);
        let start = self.vitals_at(now.saturating_sub(BEFORE), victim, aggressor, came_ns)?;
        let since_ns = view.vitals.get(&victim)?.at_ns;
        let loss = Loss { aggressor, signal: slowed.signal };
        let before = view.vitals.get(&victim)?.speed_since(&start, loss)?;
        let uses_cores = self.cores_used(now, view, aggressor);
        let moves = self.moved(now, view, aggressor);
        let (resource, moves) = (slowed.resource, &moves);
        let pair = Pair { victim: v, aggressor: a, resource, uses_cores, moves };
        let mut evidence = json!({
            "slowdown": slowed.slowdown, "low": slowed.low, "high": slowed.high,
            "resource": slowed.resource.name(), "signal": slowed.signal.name(),
            "confidence": slowed.confidence, "speed_before": before,
        });
        // What holds it back for another victim already cannot be pulled twice, nor taken back for one of them alone.
        let others = self.cases.iter().filter(|((_, who), _)| *who == aggressor);
        let pulled: Vec<usize> = others.filter_map(|(_, case)| case.pulled()).collect();
        let case = self.cases.entry((victim, aggressor)).or_default();
        let (mut refused, mut lacking) = (serde_json::Map::new(), serde_json::Map::new());
        for (at, lever) in self.levers.iter_mut().enumerate() {
            if case.tried.contains(&at) || pulled.contains(&at) {
                continue;
            }
            case.tried.push(at);
            let how = match lever.pull(&pair) {
                Ok(Some(how)) => how,
                Ok(None) => {
                    let why = lever.lacks(&pair);
                    lacking.extend(why.map(|why| (lever.name().to_owned(), why.into())));
                    continue;
                }
                Err(error) => {
                    // What it did before it failed is undone; that it failed is told with what is done instead.
                    let undone = lever.release(a).err().map(|error| format!("; undone: {error}"));
                    let message = format!("{error}{}", undone.unwrap_or_default());
                    refused.insert(lever.name().to_owned(), message.into());
                    continue;
                }
            };
            let expected = match slowed.signal {
                // All the time it wants.
                Signal::RunQueueWait => 1.0,
                _ => before / (1.0 - slowed.slowdown.min(0.95)),
            };
            let trial = Trial { lever: at, since: now, since_ns, before, expected, loss };
            case.state = State::Trying(trial);
            note(&mut evidence, "refused", refused);
            note(&mut evidence, "left_out", lacking);
            let message = format!(
                "{} loses {:.0} % to {} ({}): {}, {how}",
                v.name,
                slowed.slowdown * 100.0,
                a.name,
                slowed.resource.name(),
                lever.name(),
            );
            return Some(decision(
                "acted",
                a.name.to_string(),
                v.name.to_string(),
                message,
                evidence,
            ));
        }
        case.state = State::GaveUp;
        let message = match refused.len() {
            0 => format!("nothing this machine offers keeps {} from {}", a.name, v.name),
            _ => format!("what would keep {} from {} was refused", a.name, v.name),
        };
        note(&mut evidence, "refused", refused);
        note(&mut evidence, "left_out", lacking);
        Some(decision("gave up", a.name.to_string(), v.name.to_string(), message, evidence))
    }

    /// What it has moved to and from memory lately, bytes a second by L3 cache.
    fn moved(&self, now: Duration, view: &View, index: u32) -> BTreeMap<u32, f64> {
        let start = self.vitals_at(now.saturating_sub(BEFORE), index, index, 0);
        let both = start.zip(view.vitals.get(&index));
        both.map(|(start, end)| end.traffic_since(&start)).unwrap_or_default()
    }

    fn cores_used(&self, now: Duration, view: &View, index: u32) -> Option<f64> {
        let start = self.vitals_at(now.saturating_sub(BEFORE), index, index, 0)?;
        let end = view.vitals.get(&index)?;
        let ns = end.at_ns.checked_sub(start.at_ns).filter(|ns| *ns > 0)?;
        Some(end.on_cpu_ns.saturating_sub(start.on_cpu_ns) as f64 / ns as f64)
    }
}

/// What a victim says it got done matters only where the loss is not measured whole.
const fn since(signal: Signal, since_ns: u64) -> u64 {
    match signal {
        Signal::RunQueueWait => 0,
        _ => since_ns,
    }
}

fn kept_trial((key, case): (&(u32, u32), &Case)) -> Option<((u32, u32), Trial)> {
    match &case.state {
        State::Kept(trial, _) => Some((*key, trial.clone())),
        State::Suspected | State::Trying(_) | State::GaveUp => None,
    }
}

/// Levers that should have worked and did not, or that could not be tried, each with its reason.
fn note(
    evidence: &mut serde_json::Value,
    what: &str,
    levers: serde_json::Map<String, serde_json::Value>,
) {
    if !levers.is_empty() {
        evidence[what] = levers.into();
    }
}

fn decision(
    what: &str,
    aggressor: String,
    victim: String,
    message: String,
    evidence: serde_json::Value,
) -> Decision {
    let (container, victim) = (Some(aggressor), Some(victim));
    Decision { what: what.to_owned(), container, victim, message, evidence }
}

impl Scheduler for Adaptive {
    fn cannot_see(&mut self, why: &str) -> Vec<Decision> {
        let (what, message) = ("idle".to_owned(), format!("adaptive does nothing: {why}"));
        let evidence = json!({ "counters": why });
        vec![Decision { what, container: None, victim: None, message, evidence }]
    }

    fn look(&mut self, now: Duration, view: &View) -> Vec<Decision> {
        self.remember(now, view);
        let mut decisions = self.check(now, view);
        decisions.extend(self.check_kept(now, view));
        decisions.extend(self.act(now, view));
        decisions
    }

    fn tend(&mut self) -> Result<(), Error> {
        let all: Vec<_> = self.levers.iter_mut().map(|lever| lever.tend()).collect();
        all.into_iter().collect()
    }

    fn ended(&mut self, member: &Member) -> Vec<Decision> {
        self.let_go_with(member)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.cases.clear();
        self.history.clear();
        self.running.clear();
        let all: Vec<_> = self.levers.iter_mut().map(|lever| lever.finish()).collect();
        all.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
