//! One round of the source, sorted by who it is about: pure.

use super::history::KEPT;
use crosstalk_coldmem::{Backend, ColdRow, Kind, Policy, Usage, UsageRow, system_usage};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Who uses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Which {
    Node,
    /// What is in no pod and no container.
    System,
    Pod,
    Container,
    /// A cgroup that is neither and lies in neither.
    Cgroup,
}

impl Which {
    pub(crate) const ALL: [Self; 5] =
        [Self::Node, Self::System, Self::Pod, Self::Container, Self::Cgroup];

    /// The word in `subject=` and in metric names.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::System => "system",
            Self::Pod => "pod",
            Self::Container => "container",
            Self::Cgroup => "cgroup",
        }
    }
}

/// Pods by UID, containers by id, cgroups by path.
pub(crate) type Key = (Which, Arc<str>);

/// One subject in one round.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) key: Key,
    pub(crate) row: UsageRow,
    /// What has been idle for how long; empty where that is not known.
    pub(crate) ages: Vec<ColdRow>,
}

impl Held {
    fn keep_ages(&mut self, then: &Self) {
        let both = then.row.with_page_cache.zip(self.row.with_page_cache);
        let Some(mut gone) = both.map(|(then, now)| then.saturating_sub(now)) else { return };
        let most = self.row.at_most_bytes.unwrap_or(u64::MAX);
        let cold = then.row.cold_bytes.map(|cold| cold.saturating_sub(gone).min(most));
        self.row.cold_bytes = cold;
        // What is more than that in all is taken from the ages, too.
        gone = then.row.cold_bytes.zip(cold).map_or(0, |(then, now)| then - now);
        self.ages.clone_from(&then.ages);
        for bytes in self.ages.iter_mut().filter_map(|row| row.cold_bytes.as_mut()) {
            let less = gone.min(*bytes);
            (*bytes, gone) = (*bytes - less, gone - less);
        }
    }
}

/// Values of a history, in this order.
pub(crate) const WITHOUT: usize = 0;
pub(crate) const WITH: usize = 1;
pub(crate) const HOT: usize = 2;
pub(crate) const COLD: usize = 3;

/// The place of a policy among the values of a history.
pub(crate) const fn place_of(policy: Policy) -> usize {
    match policy {
        Policy::UsageWithoutPageCache => WITHOUT,
        Policy::UsageWithPageCache => WITH,
        Policy::UsageWithHotPageCache => HOT,
    }
}

/// Everybody in one round.
#[derive(Debug)]
pub(crate) struct Round {
    /// When it was read, monotonic.
    pub(crate) end_ns: u64,
    /// When what is cold was looked at; absent where it was not.
    pub(crate) ages_ns: Option<u64>,
    pub(crate) backend: Backend,
    pub(crate) node: Held,
    /// Pods, containers and plain cgroups, each before those within it.
    pub(crate) others: Vec<Held>,
    /// Those of `others` that lie in no other pod or container.
    outermost: Vec<usize>,
}

impl Round {
    /// `None` where not even the node is there.
    pub(crate) fn new(rows: &[UsageRow], ages: Vec<ColdRow>, end_ns: u64) -> Option<Self> {
        let (first, rest) = rows.split_first().filter(|(first, _)| first.cgroup_id == 0)?;
        let mut by_cgroup: HashMap<u64, Vec<ColdRow>> = HashMap::new();
        // Ages of another round, whose usage got lost on the way, are none of this one.
        for row in ages.into_iter().filter(|row| row.slot_start_ns == first.slot_start_ns) {
            by_cgroup.entry(row.cgroup_id).or_default().push(row);
        }
        let has_ages = !by_cgroup.is_empty() && first.backend != Backend::Bounds;
        let ages_ns = has_ages.then_some(end_ns);
        let mut hold = |key: Key, row: &UsageRow| {
            let ages = by_cgroup.remove(&row.cgroup_id).unwrap_or_default();
            Held { key, row: row.clone(), ages }
        };
        let node = hold((Which::Node, "".into()), first);
        let mut seen: HashSet<Key> = HashSet::new();
        let mut others = Vec::new();
        for row in rest {
            let key = key_of(row);
            // What lies within a container, and has no name of its own, belongs to it.
            if seen.insert(key.clone()) {
                others.push(hold(key, row));
            }
        }
        let outermost = outermost(&others);
        Some(Self { end_ns, ages_ns, backend: first.backend, node, others, outermost })
    }

    /// Takes what is cold from the round before where this one looked at usage alone: ages may be so dear that they are looked
    /// at more rarely. What a subject has less than then may all have been cold.
    pub(crate) fn keep_ages(&mut self, before: &Self) {
        let Some(then_ns) = before.ages_ns else { return };
        let is_old = self.end_ns.saturating_sub(then_ns) > KEPT.as_nanos() as u64;
        if self.ages_ns.is_some() || is_old || self.backend != before.backend {
            return;
        }
        self.ages_ns = Some(then_ns);
        let all = [&before.node].into_iter().chain(&before.others);
        let known: HashMap<(&Key, u64), &Held> =
            all.map(|held| ((&held.key, held.row.cgroup_id), held)).collect();
        for held in [&mut self.node].into_iter().chain(&mut self.others) {
            if let Some(then) = known.get(&(&held.key, held.row.cgroup_id)) {
                held.keep_ages(then);
            }
        }
    }

    /// How long ago it was looked what is cold, seconds.
    pub(crate) fn ages_age(&self, now_ns: u64) -> Option<f64> {
        Some(now_ns.saturating_sub(self.ages_ns?) as f64 * 1e-9)
    }

    /// What the node itself takes beside pods and containers.
    pub(crate) fn system(&self, policy: Policy) -> Option<Usage> {
        system_usage(policy, &self.node.row, &self.workloads().collect::<Vec<_>>())
    }

    fn workloads(&self) -> impl Iterator<Item = &UsageRow> {
        self.outermost().map(|held| &held.row)
    }

    fn outermost(&self) -> impl Iterator<Item = &Held> {
        self.outermost.iter().filter_map(|at| self.others.get(*at))
    }

    /// What is cold in no pod and no container, by kind and by what `label` makes of an age in milliseconds; nothing where it is
    /// not known of all of them.
    pub(crate) fn system_ages(&self, label: fn(u64) -> u64) -> BTreeMap<(Kind, u64), u64> {
        let mut cells = BTreeMap::new();
        if self.system_cold().is_none() {
            return cells;
        }
        let of = |held: &Held| -> Vec<((Kind, u64), u64)> {
            let rows = held.ages.iter();
            rows.filter_map(|row| Some(((row.kind, label(row.age_from_ms)), row.cold_bytes?)))
                .collect()
        };
        for (cell, bytes) in of(&self.node) {
            *cells.entry(cell).or_default() += bytes;
        }
        for (cell, bytes) in self.outermost().flat_map(of) {
            cells.entry(cell).and_modify(|left| *left = left.saturating_sub(bytes));
        }
        cells
    }

    /// What is cold in no pod and no container; absent where it is not known of all of them.
    pub(crate) fn system_cold(&self) -> Option<u64> {
        let mut cold = self.node.row.cold_bytes?;
        for row in self.workloads() {
            cold = cold.saturating_sub(row.cold_bytes?);
        }
        Some(cold)
    }

    /// All of a kind. The system has no cgroup.
    pub(crate) fn of(&self, which: Which) -> impl Iterator<Item = &Held> {
        let node = (which == Which::Node).then_some(&self.node);
        node.into_iter().chain(self.others.iter().filter(move |held| held.key.0 == which))
    }

    /// What histories keep. Only what was measured under a policy counts as usage under it.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Key, [Option<f64>; 4])> {
        let float = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
        let own = |usage: Option<Usage>| {
            float(usage.filter(|usage| usage.fallback().is_none()).map(|usage| usage.bytes))
        };
        let system = [
            own(self.system(Policy::UsageWithoutPageCache)),
            own(self.system(Policy::UsageWithPageCache)),
            own(self.system(Policy::UsageWithHotPageCache)),
            float(self.system_cold()),
        ];
        let followed = self.others.iter().filter(|held| held.key.0 != Which::Cgroup);
        let of_row = move |held: &Held| {
            let row = &held.row;
            let bytes = [
                row.without_page_cache,
                row.with_page_cache,
                row.with_hot_page_cache(),
                row.cold_bytes,
            ];
            (held.key.clone(), bytes.map(float))
        };
        let system = ((Which::System, "".into()), system);
        [system].into_iter().chain([&self.node].into_iter().chain(followed).map(of_row))
    }
}

fn key_of(row: &UsageRow) -> Key {
    match (&row.place.container_id, &row.place.pod_uid) {
        (Some(id), _) => (Which::Container, Arc::clone(id)),
        (None, Some(uid)) => (Which::Pod, Arc::clone(uid)),
        (None, None) => (Which::Cgroup, Arc::clone(&row.cgroup)),
    }
}

fn outermost(others: &[Held]) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for (at, held) in others.iter().enumerate() {
        let lies_in = |outer: &usize| {
            let below = held.row.cgroup.strip_prefix(&*others[*outer].row.cgroup);
            below.is_some_and(|below| below.starts_with('/'))
        };
        let is_workload = matches!(held.key.0, Which::Pod | Which::Container);
        if is_workload && !found.iter().any(lies_in) {
            found.push(at);
        }
    }
    found
}
