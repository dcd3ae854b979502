//! How much could be reclaimed or oversold now. Nothing is reclaimed here.

use crate::age::{ColdBoundary, Kind};
use crate::backend::{Backend, WarmUp};
use crate::policy::{Charged, Policy, Usage};
use crate::survey::{Group, Survey};
use crosstalk_model::Placement;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// What one pod, container or cgroup could give.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Its cgroup.
    pub cgroup: String,
    /// The container and pod it is.
    #[serde(flatten)]
    pub place: Placement,
    /// Cold now: could be oversold. Absent where ages are not known.
    pub cold_bytes: Option<u64>,
    /// What of it the kernel could take: without what is locked in memory, without slab, and of anonymous memory no more than
    /// swap has room for. Absent where that is not known.
    pub reclaimable_bytes: Option<u64>,
    /// No more than this is cold.
    pub at_most_bytes: Option<u64>,
    /// Idle for so long or longer.
    pub age_s: u64,
    /// Where ages are told in steps: what counts as cold has been idle for so long at least.
    pub cold_from_ms: Option<u64>,
    /// Whether ages reach that far back.
    pub warm_up: WarmUp,
    /// What it uses with only its hot page cache counted, or what that falls back to.
    pub usage: Option<Usage>,
    /// Pages read back a second after they had been reclaimed: those were not cold. Absent where it is not counted.
    pub refaults_per_s: Option<f64>,
    /// As many since the cgroup was made.
    pub refaults: Option<u64>,
    /// Share of the time in which a task stood still for memory; absent where the kernel does not say.
    pub stalled: Option<f64>,
    /// Why nothing is known.
    pub problem: Option<String>,
}

/// Advice from two surveys so far apart: for containers and pods or, where there are none, for every
/// cgroup but the root. The most to gain first. `swap_room` says how much more of a cgroup can go to swap.
pub fn advise(
    before: &Survey,
    now: &Survey,
    apart: Duration,
    boundary: &ColdBoundary,
    swap_room: impl Fn(&str) -> Option<u64>,
    place_of: impl Fn(&str) -> Placement,
) -> Vec<Advice> {
    let placed = |group: &Group| {
        let place = place_of(&group.path);
        (place.container_id.is_some() || place.pod_uid.is_some()).then_some(place)
    };
    let any = now.groups.iter().any(|group| placed(group).is_some());
    let mut all = Vec::new();
    let mut seen: HashSet<Arc<str>> = HashSet::new();
    for group in now.groups.iter().filter(|group| group.path != "/") {
        let place = match placed(group) {
            // What lies within a container, and has no name of its own, is a part of it.
            Some(place) => match place.container_id.clone().or(place.pod_uid.clone()) {
                Some(name) if !seen.insert(name.clone()) => continue,
                _ => place,
            },
            None if any => continue,
            None => Placement::default(),
        };
        let then = before.groups.iter().find(|then| then.id == group.id);
        let advice = of_group((group, now.backend), then, apart, boundary, place);
        let room = || swap_room(&group.path);
        all.push(Advice { reclaimable_bytes: reclaimable(group, now.backend, room), ..advice });
    }
    all.sort_by_key(|advice| {
        (Reverse(advice.cold_bytes.or(advice.at_most_bytes)), advice.cgroup.clone())
    });
    all
}

/// What the kernel could take of what is cold. Slab is left out: which of its objects can go is not known.
fn reclaimable(
    group: &Group,
    backend: Backend,
    swap_room: impl FnOnce() -> Option<u64>,
) -> Option<u64> {
    group.cold_bytes()?;
    let ages = group.ages.as_ref()?;
    // kidled says what is locked and MGLRU has none of it; DAMON sees it among all other memory, so all of it is taken off.
    let locked = if backend == Backend::Damon { group.stat?.unevictable? } else { 0 };
    let of = |kind| Some(ages.evictable_cold_of(kind)?.saturating_sub(locked));
    let (file, anon) = (of(Kind::File)?, of(Kind::Anon)?);
    let anon = if anon > 0 { anon.min(swap_room()?) } else { 0 };
    Some(file.saturating_add(anon))
}

fn of_group(
    (group, backend): (&Group, Backend),
    then: Option<&Group>,
    apart: Duration,
    boundary: &ColdBoundary,
    place: Placement,
) -> Advice {
    let seconds = apart.as_secs_f64();
    let grown = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
    let refaulted = grown(group.refaults(), then.and_then(Group::refaults));
    let stalled_ns = grown(group.stalled_ns(), then.and_then(Group::stalled_ns));
    let cold = group.cold_bytes();
    Advice {
        cgroup: group.path.clone(),
        place,
        cold_bytes: cold,
        reclaimable_bytes: None,
        at_most_bytes: group.at_most_bytes(boundary, backend),
        age_s: boundary.age.as_secs(),
        cold_from_ms: group.cold_from_ms,
        warm_up: group.warm_up,
        usage: group.stat.and_then(|stat| stat.usage(Policy::UsageWithHotPageCache, cold)),
        refaults_per_s: refaulted.filter(|_| seconds > 0.0).map(|pages| pages as f64 / seconds),
        refaults: group.refaults(),
        stalled: stalled_ns
            .filter(|_| seconds > 0.0)
            .map(|ns| (ns as f64 / 1e9 / seconds).clamp(0.0, 1.0)),
        problem: group.why_unknown(),
    }
}
