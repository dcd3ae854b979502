//! What a run shows: how fast each container was alone and beside others, and what a mitigation won back.

mod baseline;
mod bootstrap;
mod cells;
mod compare;
mod conditions;
pub mod html;
mod read;
mod series;
mod tasks;

pub use bootstrap::{Estimate, Range};
pub use compare::{Compared, Comparison, compare};
pub use conditions::{Condition, Stretch, stretches};
pub use read::{CachePoint, ProgressPoint, Recorded, RunningSpan, UsagePoint};
pub use series::{Point, Series, series};
pub use tasks::TaskPoint;

use crate::Error;
use crate::store::{Event, EventKind, RunDir, RunRecord};
use baseline::Baseline;
use serde::Serialize;
use std::collections::BTreeMap;

/// How one container fared under one condition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fared {
    /// The condition.
    #[serde(flatten)]
    pub condition: Condition,
    /// Units of work a second.
    pub rate: Estimate,
    /// Seconds that were looked at.
    pub seconds: f64,
    /// Rounds they are from.
    pub rounds: usize,
    /// Share of its speed alone that was lost; absent without a baseline.
    pub slowdown: Option<Estimate>,
}

/// How one container fared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContainerResult {
    /// Its name.
    pub name: String,
    /// Under each condition, alone first.
    pub fared: Vec<Fared>,
    /// What of its loss was won back while others were held back for it.
    pub won_back: Option<Estimate>,
    /// Why nothing is said of it.
    pub because: Option<&'static str>,
}

/// What a run shows.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The run.
    pub run: RunRecord,
    /// Each container.
    pub containers: Vec<ContainerResult>,
    /// What a scheduler decided, and when.
    pub decisions: Vec<Event>,
    /// The most that a start or stop was off its plan, ms.
    pub latest_ms: Option<f64>,
}

/// Reads a run's folder and sums it up.
///
/// # Errors
/// It cannot be read.
pub fn summarize(dir: &RunDir, record: &RunRecord) -> Result<Summary, Error> {
    let recorded = Recorded::read(dir, record)?;
    Ok(summary(record, &recorded))
}

/// Reads a run's folder once, for what it shows and for its page.
///
/// # Errors
/// It cannot be read.
pub fn summarize_and_draw(dir: &RunDir, record: &RunRecord) -> Result<(Summary, String), Error> {
    let recorded = Recorded::read(dir, record)?;
    let summary = summary(record, &recorded);
    let page = html::page(&summary, &recorded);
    Ok((summary, page))
}

/// Sums up what was recorded.
pub fn summary(record: &RunRecord, recorded: &Recorded) -> Summary {
    let late = recorded.events.iter().filter_map(|event| match event.kind {
        EventKind::Start { late_ms } | EventKind::Stop { late_ms } => Some(late_ms.abs()),
        _ => None,
    });
    let decisions =
        recorded.events.iter().filter(|event| matches!(event.kind, EventKind::Decision(_)));
    let containers = record.containers.iter().map(|container| {
        let name = &container.name;
        fared(name, recorded, &Baseline::of(name, record, &recorded.events))
    });
    let containers = containers.collect();
    Summary {
        run: record.clone(),
        containers,
        decisions: decisions.cloned().collect(),
        latest_ms: late.max_by(f64::total_cmp),
    }
}

fn fared(name: &str, recorded: &Recorded, baseline: &Baseline) -> ContainerResult {
    let all = stretches(name, recorded);
    let alone = baseline.among(&all);
    let mut conditions: Vec<Condition> = all.iter().map(|s| s.condition.clone()).collect();
    conditions.sort();
    conditions.dedup();
    // Time alone that cannot be held against other time is not told.
    conditions.retain(|condition| !condition.beside.is_empty() || !alone.is_empty());
    let of = |condition: &Condition| -> Vec<&Stretch> {
        match condition.beside.is_empty() {
            true => alone.clone(),
            false => all.iter().filter(|stretch| stretch.condition == *condition).collect(),
        }
    };
    let lost = |these: &[&Stretch]| {
        let loss = |alone: f64, beside: f64| 1.0 - beside / alone;
        (!alone.is_empty()).then(|| bootstrap::pair(&alone, these, loss))
    };
    let fared = conditions.iter().map(|condition| {
        let these = of(condition);
        let mut rounds: Vec<u32> = these.iter().map(|stretch| stretch.round).collect();
        rounds.dedup();
        Fared {
            rate: bootstrap::rate(&these),
            seconds: these.iter().map(|stretch| stretch.seconds).sum(),
            rounds: rounds.len(),
            slowdown: lost(&these).filter(|_| *condition != Condition::default()),
            condition: condition.clone(),
        }
    });
    let fared: Vec<Fared> = fared.collect();
    let because = fared.is_empty().then(|| match all.is_empty() {
        true => because(name, recorded),
        false => {
            "it only ever ran alone and limited by the scheduler; solo: true gives it a baseline"
        }
    });
    let won_back = won_back(&all, &alone);
    ContainerResult { name: name.to_owned(), fared, won_back, because }
}

/// Why nothing can be said of how fast it was.
fn because(name: &str, recorded: &Recorded) -> &'static str {
    let ran = recorded.running.iter().any(|span| span.container == name);
    let measured = recorded.progress.iter().any(|point| point.container == name);
    match (ran, measured) {
        (false, _) => "it never ran",
        (true, false) => {
            "it does not say what it got done; give it progress: (crosstalk workload does so by itself)"
        }
        (true, true) => "it said too seldom what it got done to tell how fast it was",
    }
}

/// Beside the same others, with them held back against without.
fn won_back(all: &[Stretch], alone: &[&Stretch]) -> Option<Estimate> {
    // Beside others the loss is another, and so is what can be won back: of several companies the one that was longest.
    let mut companies: BTreeMap<&[String], [Vec<&Stretch>; 2]> = BTreeMap::new();
    for stretch in all {
        let both = companies.entry(&stretch.condition.beside).or_default();
        both[usize::from(stretch.condition.held_back)].push(stretch);
    }
    companies.retain(|_, [free, held]| !free.is_empty() && !held.is_empty());
    let seconds = |held: &[&Stretch]| held.iter().map(|stretch| stretch.seconds).sum::<f64>();
    let longest =
        |a: &[Vec<&Stretch>; 2], b: &[Vec<&Stretch>; 2]| seconds(&a[1]).total_cmp(&seconds(&b[1]));
    let [free, held] = companies.into_values().max_by(longest)?;
    if alone.is_empty() {
        return None;
    }
    let share = |alone: f64, free: f64, held: f64| (held - free) / (alone - free);
    Some(bootstrap::triple(alone, &free, &held, share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_ran_is_not_asked_for_progress() {
        let span = |container: &str| RunningSpan {
            container: container.to_owned(),
            round: 0,
            from_ns: 1,
            to_ns: 9,
        };
        let point = ProgressPoint { round: 0, container: "once".to_owned(), at_ns: 5, done: 1.0 };
        let recorded = Recorded {
            running: vec![span("silent"), span("once")],
            progress: vec![point],
            ..Recorded::default()
        };
        let why = |name: &str| fared(name, &recorded, &Baseline::default()).because.unwrap();
        assert_eq!(why("never"), "it never ran");
        assert!(why("silent").contains("give it progress:"), "{}", why("silent"));
        assert!(why("once").contains("too seldom"), "{}", why("once"));
    }

    #[test]
    fn what_was_won_back_is_told_beside_the_same_others() {
        let stretch = |beside: &[&str], held_back: bool, units: f64| Stretch {
            round: 0,
            units,
            seconds: 1.0,
            condition: Condition {
                beside: beside.iter().map(|&name| name.to_owned()).collect(),
                held_back,
            },
        };
        let mut all = vec![
            // Beside `a` alone it was held back for a moment only, and was never seen free.
            stretch(&["a"], true, 10.0),
            stretch(&[], false, 100.0),
            stretch(&["a", "b"], false, 20.0),
        ];
        all.extend(std::iter::repeat_n(stretch(&["a", "b"], true, 60.0), 3));
        let alone: Vec<&Stretch> =
            all.iter().filter(|s| s.condition == Condition::default()).collect();
        let won = won_back(&all, &alone).unwrap();
        assert!((won.value - 0.5).abs() < 1e-9, "{won:?}");
    }
}
