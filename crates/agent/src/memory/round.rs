//! One round of the source, sorted by who it is about: pure.

use crosstalk_coldmem::{Backend, ColdRow, Policy, Usage, UsageRow, system_usage};
use std::collections::{HashMap, HashSet};
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
        Some(Self { end_ns, backend: first.backend, node, others, outermost })
    }

    /// What the node itself takes beside pods and containers.
    pub(crate) fn system(&self, policy: Policy) -> Option<Usage> {
        system_usage(policy, &self.node.row, &self.workloads().collect::<Vec<_>>())
    }

    fn workloads(&self) -> impl Iterator<Item = &UsageRow> {
        self.outermost.iter().filter_map(|at| self.others.get(*at)).map(|held| &held.row)
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
