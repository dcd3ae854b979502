//! What one round finds: every cgroup's charged memory and ages.

use crate::age::{Ages, ColdBoundary, Kind};
use crate::backend::{Backend, WarmUp};
use crate::charged::{MemoryStat, NodeMemory, at_most};
use crosstalk_host::{Capability, Stalled};
use std::collections::HashMap;

/// What is known of one cgroup, those within it included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The inode number of its folder.
    pub id: u64,
    /// Its path below the mount; `/` for the root.
    pub path: String,
    /// What is charged to it; absent where it has no memory controller or cannot be read.
    pub stat: Option<MemoryStat>,
    /// How long its memory has been idle; absent where the back end does not tell.
    pub ages: Option<Ages>,
    /// Whether its ages reach the boundary.
    pub warm_up: WarmUp,
    /// Where ages are told in steps: what counts as cold has been idle for so long at least.
    pub cold_from_ms: Option<u64>,
    /// How long its tasks stood still for memory.
    pub stalled: Option<Stalled>,
    /// What could not be read.
    pub problem: Option<String>,
}

impl Group {
    /// What is cold. Absent where ages are, and until memory was watched for as long as it takes to be called cold.
    pub fn cold_bytes(&self) -> Option<u64> {
        self.ages.as_ref().filter(|_| self.warm_up == WarmUp::Ready)?.cold_bytes()
    }

    /// Pages that were read back after they had been reclaimed, ever.
    pub fn refaults(&self) -> Option<u64> {
        let stat = self.stat.as_ref()?;
        stat.refaults_file?.checked_add(stat.refaults_anon.unwrap_or(0))
    }

    /// For how long a task stood still for memory, ever.
    pub fn stalled_ns(&self) -> Option<u64> {
        self.stalled?.some_ns
    }

    /// What at most a back end can find cold, of all kinds that count.
    pub fn at_most_bytes(&self, boundary: &ColdBoundary, backend: Backend) -> Option<u64> {
        let stat = self.stat.as_ref()?;
        let mut kinds = Kind::ALL.into_iter().filter(|kind| boundary.counts_kind(*kind));
        kinds.try_fold(0u64, |sum, kind| {
            Some(sum.saturating_add(at_most(stat, kind, boundary, backend)?))
        })
    }

    /// Adds what a cgroup within has, which reaches no further back than the least of its parts.
    fn add(&mut self, within: &Self) {
        let Some(ages) = &within.ages else { return };
        self.ages.get_or_insert_default().add(ages);
        self.warm_up = self.warm_up.worse(within.warm_up);
        self.cold_from_ms = self.cold_from_ms.max(within.cold_from_ms);
    }
}

/// One round over all cgroups.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// What told ages.
    pub backend: Backend,
    /// Why nothing did although it was asked to: the chosen back end does not work now.
    pub fallen: Option<Capability>,
    /// The node's memory.
    pub node: NodeMemory,
    /// The node's ages.
    pub ages: Option<Ages>,
    /// The root first, each cgroup before those within it.
    pub groups: Vec<Group>,
    /// Whether the node's ages reach the boundary.
    pub warm_up: WarmUp,
    /// Where ages are told in steps: what counts as cold of the node has been idle for so long at least.
    pub cold_from_ms: Option<u64>,
}

impl Survey {
    /// What is cold of the node, as [`Group::cold_bytes`] is of a cgroup.
    pub fn cold_bytes(&self) -> Option<u64> {
        self.ages.as_ref().filter(|_| self.warm_up == WarmUp::Ready)?.cold_bytes()
    }

    /// How many cgroups could not be read in part or at all.
    pub fn unreadable(&self) -> usize {
        self.groups.iter().filter(|group| group.problem.is_some()).count()
    }

    /// Leaves open what is cold of whoever was not watched for long enough.
    pub(crate) fn leave_cold_open(&mut self) {
        let groups = self.groups.iter_mut().map(|group| (&mut group.ages, group.warm_up));
        for (ages, warm_up) in groups.chain([(&mut self.ages, self.warm_up)]) {
            if let Some(ages) = ages.as_mut().filter(|_| warm_up != WarmUp::Ready) {
                ages.leave_cold_open();
            }
        }
    }
}

/// Adds to each cgroup what those within it have. They come behind it in the list.
pub(crate) fn add_up(groups: &mut [Group]) {
    let places: HashMap<String, usize> =
        groups.iter().enumerate().map(|(at, group)| (group.path.clone(), at)).collect();
    for at in (1..groups.len()).rev() {
        let (before, rest) = groups.split_at_mut(at);
        let Some((parent, _)) = rest[0].path.rsplit_once('/') else { continue };
        let parent = if parent.is_empty() { "/" } else { parent };
        let Some(parent) = places.get(parent).and_then(|at| before.get_mut(*at)) else { continue };
        // One that has memory of its own of which nothing is known is more than the sum of those within it.
        if parent.ages.is_some() || parent.stat.is_none() {
            parent.add(&rest[0]);
        }
    }
}

/// What of a cgroup's memory may be used however idle it looks.
pub(crate) type MayBeUsed = fn(&MemoryStat) -> Option<u64>;

/// Takes so much of what was told of page cache for used. What is charged to none, or to those within alone, is the sum of
/// theirs.
pub(crate) fn spare(groups: &mut [Group], node: &mut Group, may_be_used: MayBeUsed) {
    let mut within: HashMap<String, Option<u64>> = HashMap::new();
    for group in groups.iter_mut().rev() {
        let sum = within.remove(&group.path);
        let own = group.stat.as_ref().map(may_be_used);
        let used = own.or(sum).flatten();
        if let Some(ages) = &mut group.ages {
            ages.spare(Kind::File, used);
        }
        if group.path == "/" {
            node.ages.iter_mut().for_each(|ages| ages.spare(Kind::File, used));
        } else if let Some((parent, _)) = group.path.rsplit_once('/') {
            let parent = if parent.is_empty() { "/" } else { parent };
            let sum = within.entry(parent.to_owned()).or_insert(Some(0));
            *sum = sum.zip(used).map(|(sum, more)| sum.saturating_add(more));
        }
    }
}

/// The root, or where nothing is known of its own memory the sum of the topmost.
pub(crate) fn node_of(groups: &[Group]) -> Group {
    let Some((root, below)) = groups.split_first() else { return Group::default() };
    if root.ages.is_some() {
        return root.clone();
    }
    let top = below.iter().filter(|group| group.path.matches('/').count() == 1);
    top.fold(Group::default(), |mut node, group| {
        node.add(group);
        node
    })
}
