//! Who is measured where, as a reader needs it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Pool;
use super::files::MonitorFiles;
use super::subject::{Scope, SubjectKey};
use crate::{Group, MonitoringInfo};

/// The groups of a [`Pool`], or groups that others made, and who is in them. A copy: reading does not wait while a pool
/// moves threads.
#[derive(Debug, Clone)]
pub struct Roster {
    edition: u64,
    monitoring: Arc<MonitoringInfo>,
    groups: BTreeMap<u32, MeasuredGroup>,
    homes: HashMap<SubjectKey, u32>,
    /// Their numbers: of a parent nothing else is known.
    pids: HashSet<u32>,
}

/// A group in use.
#[derive(Debug, Clone)]
pub struct MeasuredGroup {
    /// The pool's number for it.
    pub id: u32,
    /// Changes when the group gets another owner.
    pub generation: u32,
    /// The group.
    pub group: Group,
    /// What its values cover.
    pub scope: Scope,
    /// Lines of a former owner may be left.
    pub stale: bool,
    /// The processes in the group, with their names.
    pub members: Vec<(SubjectKey, Arc<str>)>,
    pub(crate) files: Vec<MonitorFiles>,
}

impl MeasuredGroup {
    /// A group that somebody else made and keeps, opened to be read. What cannot be opened has rows of state `error`.
    /// Counters are counted from the first reading of this value and its copies.
    #[must_use]
    pub fn open(
        id: u32,
        group: Group,
        scope: Scope,
        members: Vec<(SubjectKey, Arc<str>)>,
        monitoring: &MonitoringInfo,
    ) -> Self {
        let files = MonitorFiles::open_all(&group, monitoring);
        Self { id, generation: next_edition() as u32, group, scope, stale: false, members, files }
    }
}

impl Roster {
    /// Groups that no pool looks after, for example one per pod.
    #[must_use]
    pub fn of(monitoring: MonitoringInfo, groups: Vec<MeasuredGroup>) -> Self {
        let home = |group: &MeasuredGroup| {
            let id = group.id;
            group.members.iter().map(move |(key, _)| (*key, id)).collect::<Vec<_>>()
        };
        let homes = groups.iter().flat_map(home).collect();
        Self::new(Arc::new(monitoring), groups, homes)
    }

    #[cfg(test)]
    pub(crate) fn with_homes(monitoring: MonitoringInfo, homes: HashMap<SubjectKey, u32>) -> Self {
        Self::new(Arc::new(monitoring), Vec::new(), homes)
    }

    fn new(
        monitoring: Arc<MonitoringInfo>,
        groups: Vec<MeasuredGroup>,
        homes: HashMap<SubjectKey, u32>,
    ) -> Self {
        Self {
            edition: next_edition(),
            monitoring,
            groups: groups.into_iter().map(|group| (group.id, group)).collect(),
            pids: homes.keys().map(|key| key.pid).collect(),
            homes,
        }
    }

    /// No two rosters have the same, except copies: a reader sees by it that it knows this one.
    pub(crate) fn edition(&self) -> u64 {
        self.edition
    }

    /// What the machine can monitor.
    #[must_use]
    pub fn monitoring(&self) -> &MonitoringInfo {
        &self.monitoring
    }

    /// Every group in use.
    pub fn groups(&self) -> impl Iterator<Item = &MeasuredGroup> {
        self.groups.values()
    }

    /// One group in use.
    #[must_use]
    pub fn group(&self, id: u32) -> Option<&MeasuredGroup> {
        self.groups.get(&id)
    }

    /// The group a process is in.
    #[must_use]
    pub fn group_of(&self, key: SubjectKey) -> Option<u32> {
        self.homes.get(&key).copied()
    }

    /// Whether a process with this number is in a group.
    pub(crate) fn has_pid(&self, pid: u32) -> bool {
        self.pids.contains(&pid)
    }
}

fn next_edition() -> u64 {
    static EDITIONS: AtomicU64 = AtomicU64::new(0);
    EDITIONS.fetch_add(1, Ordering::Relaxed)
}

impl Pool {
    /// Who is measured where at this time.
    #[must_use]
    pub fn roster(&self) -> Roster {
        let in_use = self.groups.iter().filter(|(_, group)| group.role.is_some());
        let groups = in_use.map(|(id, group)| {
            let name = |key: &SubjectKey| Some((*key, Arc::clone(&self.known.get(key)?.comm)));
            MeasuredGroup {
                id: *id,
                generation: group.generation,
                group: group.group.clone(),
                scope: group.scope(),
                stale: group.stale_until_ns.is_some(),
                members: group.members.iter().filter_map(name).collect(),
                files: group.files.clone(),
            }
        });
        let homes = self.known.iter().filter_map(|(key, known)| Some((*key, known.group?)));
        Roster::new(Arc::clone(&self.monitoring), groups.collect(), homes.collect())
    }
}
