//! How much could be reclaimed or oversold now. Nothing is reclaimed here.

use crate::age::ColdBoundary;
use crate::policy::{Charged, Policy, Usage};
use crate::survey::{Group, Survey};
use crosstalk_model::Placement;
use serde::Serialize;
use std::time::Duration;

/// What one pod, container or cgroup could give.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Its cgroup.
    pub cgroup: String,
    /// The container and pod it is.
    #[serde(flatten)]
    pub place: Placement,
    /// Cold now: could be reclaimed, or oversold. Absent where ages are not known.
    pub cold_bytes: Option<u64>,
    /// No more than this is cold.
    pub at_most_bytes: Option<u64>,
    /// Idle for so long or longer.
    pub age_s: u64,
    /// What it uses with only its hot page cache counted, or what that falls back to.
    pub usage: Option<Usage>,
    /// Pages read back a second after they had been reclaimed: those were not cold. Absent where it is not counted.
    pub refaults_per_s: Option<f64>,
    /// Share of the time in which a task stood still for memory; absent where the kernel does not say.
    pub stalled: Option<f64>,
    /// Why nothing is known.
    pub problem: Option<String>,
}

/// Advice from two surveys so far apart: for containers and pods or, where there are none, for every
/// cgroup but the root. The most to gain first.
pub fn advise(
    before: &Survey,
    now: &Survey,
    apart: Duration,
    boundary: &ColdBoundary,
    place_of: fn(&str) -> Placement,
) -> Vec<Advice> {
    let placed = |group: &Group| {
        let place = place_of(&group.path);
        (place.container_id.is_some() || place.pod_uid.is_some()).then_some(place)
    };
    let any = now.groups.iter().any(|group| placed(group).is_some());
    let mut all = Vec::new();
    for group in now.groups.iter().filter(|group| group.path != "/") {
        let place = match placed(group) {
            Some(place) => place,
            None if any => continue,
            None => Placement::default(),
        };
        let then = before.groups.iter().find(|then| then.id == group.id);
        all.push(of_group(group, then, apart, boundary, place));
    }
    all.sort_by_key(|advice| {
        (std::cmp::Reverse(advice.cold_bytes.or(advice.at_most_bytes)), advice.cgroup.clone())
    });
    all
}

fn of_group(
    group: &Group,
    then: Option<&Group>,
    apart: Duration,
    boundary: &ColdBoundary,
    place: Placement,
) -> Advice {
    let seconds = apart.as_secs_f64();
    let grown = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
    let refaulted = grown(group.refaults(), then.and_then(Group::refaults));
    let some_ns = |group: &Group| group.stalled?.some_ns;
    let stalled_ns = grown(some_ns(group), then.and_then(some_ns));
    let cold = group.cold_bytes();
    Advice {
        cgroup: group.path.clone(),
        place,
        cold_bytes: cold,
        at_most_bytes: group.at_most_bytes(boundary),
        age_s: boundary.age.as_secs(),
        usage: group.stat.and_then(|stat| stat.usage(Policy::UsageWithHotPageCache, cold)),
        refaults_per_s: refaulted.filter(|_| seconds > 0.0).map(|pages| pages as f64 / seconds),
        stalled: stalled_ns
            .filter(|_| seconds > 0.0)
            .map(|ns| (ns as f64 / 1e9 / seconds).clamp(0.0, 1.0)),
        problem: group.problem.clone(),
    }
}
