//! What a run shows: how fast each container was alone and beside others, and what a mitigation won back.

mod bootstrap;
mod compare;
mod conditions;
pub mod html;
mod read;
mod series;

pub use bootstrap::{Estimate, Range};
pub use compare::{Compared, Comparison, compare};
pub use conditions::{Condition, Stretch, stretches};
pub use read::{CachePoint, ProgressPoint, Recorded, RunningSpan, UsagePoint};
pub use series::{Point, Series, series};

use crate::Error;
use crate::store::{Event, EventKind, RunDir, RunRecord};
use serde::Serialize;

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

/// Sums up what was recorded.
pub fn summary(record: &RunRecord, recorded: &Recorded) -> Summary {
    let late = recorded.events.iter().filter_map(|event| match event.kind {
        EventKind::Start { late_ms } | EventKind::Stop { late_ms } => Some(late_ms.abs()),
        _ => None,
    });
    let decisions =
        recorded.events.iter().filter(|event| matches!(event.kind, EventKind::Decision(_)));
    let containers =
        record.containers.iter().map(|container| fared(&container.name, recorded)).collect();
    Summary {
        run: record.clone(),
        containers,
        decisions: decisions.cloned().collect(),
        latest_ms: late.max_by(f64::total_cmp),
    }
}

fn fared(name: &str, recorded: &Recorded) -> ContainerResult {
    let all = stretches(name, recorded);
    let mut conditions: Vec<Condition> = all.iter().map(|s| s.condition.clone()).collect();
    conditions.sort();
    conditions.dedup();
    let of = |condition: &Condition| -> Vec<&Stretch> {
        all.iter().filter(|stretch| stretch.condition == *condition).collect()
    };
    let alone = of(&Condition::default());
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
    let because = fared.is_empty().then_some(
        "it does not say what it got done; give it progress: (crosstalk workload does so by itself)",
    );
    let won_back = won_back(&all, &alone);
    ContainerResult { name: name.to_owned(), fared, won_back, because }
}

/// Beside the same others, with them held back against without.
fn won_back(all: &[Stretch], alone: &[&Stretch]) -> Option<Estimate> {
    let held: Vec<&Stretch> = all.iter().filter(|s| s.condition.held_back).collect();
    let beside = &held.first()?.condition.beside;
    let free = |s: &&Stretch| !s.condition.held_back && s.condition.beside == *beside;
    let free: Vec<&Stretch> = all.iter().filter(free).collect();
    if alone.is_empty() || free.is_empty() {
        return None;
    }
    let share = |alone: f64, free: f64, held: f64| (held - free) / (alone - free);
    Some(bootstrap::triple(alone, &free, &held, share))
}
