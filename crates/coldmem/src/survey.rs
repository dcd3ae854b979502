//! What one round finds: every cgroup's charged memory and ages.

use crate::age::{Ages, ColdBoundary, Kind};
use crate::backend::{Backend, WarmUp};
use crate::charged::{MemoryStat, NodeMemory, at_most};
use crosstalk_host::{Capability, Stalled};
use std::collections::HashMap;
use std::path::PathBuf;

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
    /// How many cgroups within have memory of unknown age: what is cold of all is then not known either.
    pub missing: usize,
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

    /// What could not be read of it or of a cgroup within.
    pub fn why_unknown(&self) -> Option<String> {
        let missing = self.missing;
        let within = || format!("ages of {missing} cgroups within are not known");
        self.problem.clone().or_else(|| (missing > 0).then(within))
    }

    /// Whether it has memory of whose age nothing is known. One without a memory controller has none.
    fn is_missing(&self) -> bool {
        self.ages.is_none() && (self.stat.is_some() || self.problem.is_some())
    }

    /// Adds what a cgroup within has, which reaches no further back than the least of its parts.
    fn add(&mut self, within: &Self) {
        self.missing += within.missing + usize::from(within.is_missing());
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
    /// How many cgroups were not looked at, because there are too many.
    pub beyond: usize,
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

    /// Leaves open what is cold of whoever was not watched for long enough, or not in all its parts. What is known of the
    /// root's parts is known of the node's.
    pub(crate) fn leave_cold_open(&mut self) {
        let of_node = self.groups.first().map_or(0, |root| root.missing);
        let groups = self.groups.iter_mut().map(|g| (&mut g.ages, g.warm_up, g.missing));
        for (ages, warm_up, missing) in groups.chain([(&mut self.ages, self.warm_up, of_node)]) {
            let is_open = warm_up != WarmUp::Ready || missing > 0;
            if let Some(ages) = ages.as_mut().filter(|_| is_open) {
                ages.leave_cold_open();
            }
        }
    }
}

/// The path of the cgroup that this one lies in; `None` for the root.
fn above(path: &str) -> Option<&str> {
    let (parent, own) = path.rsplit_once('/')?;
    (!own.is_empty()).then_some(if parent.is_empty() { "/" } else { parent })
}

/// Notes where cgroups lie that were not looked at: in the nearest that was.
pub(crate) fn miss(groups: &mut [Group], beyond: &[PathBuf]) {
    if beyond.is_empty() {
        return;
    }
    let places = places(groups);
    for inside in beyond {
        let path = format!("/{}", inside.display());
        let mut at = above(&path);
        while let Some(parent) = at {
            if let Some(group) = places.get(parent).and_then(|at| groups.get_mut(*at)) {
                group.missing += 1;
                break;
            }
            at = above(parent);
        }
    }
}

fn places(groups: &[Group]) -> HashMap<String, usize> {
    groups.iter().enumerate().map(|(at, group)| (group.path.clone(), at)).collect()
}

/// Adds to each cgroup what those within it have. They come behind it in the list.
pub(crate) fn add_up(groups: &mut [Group]) {
    let places = places(groups);
    for at in (1..groups.len()).rev() {
        let (before, rest) = groups.split_at_mut(at);
        let Some(parent) = above(&rest[0].path) else { continue };
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
        // Of one whose charges cannot be read nothing is known, whatever is known of those within.
        let own = own.or(group.problem.is_some().then_some(None));
        let used = own.or(sum).flatten();
        if let Some(ages) = &mut group.ages {
            ages.spare(Kind::File, used);
        }
        if group.path == "/" {
            node.ages.iter_mut().for_each(|ages| ages.spare(Kind::File, used));
        } else if let Some(parent) = above(&group.path) {
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
    let node = top.fold(Group::default(), |mut node, group| {
        node.add(group);
        node
    });
    // Where ages are known of nobody, no part of a sum is missing.
    if node.ages.is_some() { node } else { Group { missing: 0, ..node } }
}
