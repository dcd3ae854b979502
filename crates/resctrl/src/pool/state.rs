//! A group the pool owns, from its making over quarantine to its next owner.

use std::collections::BTreeSet;

use super::files::MonitorFiles;
use super::plan::{Purpose, Role};
use super::subject::{Scope, SubjectKey};
use crate::{Group, MonValue};

/// A group without an owner, while the lines of the last one leave the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quarantine {
    pub(crate) since_ns: u64,
    pub(crate) drained: bool,
}

#[derive(Debug)]
pub(crate) struct OwnedGroup {
    pub(crate) group: Group,
    pub(crate) files: Vec<MonitorFiles>,
    pub(crate) control: String,
    /// What it is for; `None` in quarantine.
    pub(crate) role: Option<Role>,
    pub(crate) quarantine: Option<Quarantine>,
    /// Rows are flagged until then, unless the occupancy is seen to have drained before.
    pub(crate) stale_until_ns: Option<u64>,
    pub(crate) members: BTreeSet<SubjectKey>,
    /// Changes whenever the group gets another owner, so that a reader starts its differences anew.
    pub(crate) generation: u32,
}

impl OwnedGroup {
    pub(crate) fn new(group: Group, files: Vec<MonitorFiles>, role: Role) -> Self {
        Self {
            group,
            files,
            control: role.control.clone(),
            role: Some(role),
            quarantine: None,
            stale_until_ns: None,
            members: BTreeSet::new(),
            generation: 0,
        }
    }

    /// What the values cover now. A child that was not moved yet is counted with its parent: then both share.
    pub(crate) fn scope(&self) -> Scope {
        match self.role.as_ref().map(|role| &role.purpose) {
            Some(Purpose::Process(_)) if self.members.len() <= 1 => Scope::Process,
            Some(Purpose::Container(_)) => Scope::Container,
            _ => Scope::Shared,
        }
    }

    pub(crate) fn free(&mut self, now_ns: u64) {
        self.role = None;
        self.stale_until_ns = None;
        self.quarantine = Some(Quarantine { since_ns: now_ns, drained: false });
        self.members.clear();
    }

    /// Gives the group to another owner; if lines of the last one are left its rows are flagged for a while.
    pub(crate) fn reuse(&mut self, role: Role, now_ns: u64, stale_for_ns: u64) {
        let drained = self.quarantine.is_none_or(|quarantine| quarantine.drained);
        self.stale_until_ns = (!drained).then(|| now_ns + stale_for_ns);
        self.quarantine = None;
        self.role = Some(role);
        self.generation = self.generation.wrapping_add(1);
    }
}

/// Whether a group's readings, one for each domain, show that the old lines have left.
pub(crate) fn is_drained(readings: &[MonValue], threshold: u64) -> bool {
    // A word says nothing about the lines, so it is not taken for an empty cache.
    readings.iter().all(|value| value.count().is_some_and(|bytes| bytes <= threshold))
}

/// Which quarantined group to give to a new owner: a drained one, else one that has waited its time.
pub(crate) fn reusable(
    quarantined: impl Iterator<Item = (u32, Quarantine)>,
    now_ns: u64,
    longest_ns: u64,
) -> Option<u32> {
    let usable = |quarantine: &Quarantine| {
        quarantine.drained || now_ns.saturating_sub(quarantine.since_ns) >= longest_ns
    };
    quarantined
        .filter(|(_, quarantine)| usable(quarantine))
        .min_by_key(|(id, quarantine)| (!quarantine.drained, quarantine.since_ns, *id))
        .map(|(id, _)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drained_group_is_taken_before_one_that_only_waited() {
        let waited = Quarantine { since_ns: 0, drained: false };
        let drained = Quarantine { since_ns: 90, drained: true };
        let fresh = Quarantine { since_ns: 95, drained: false };
        let all = [(1, waited), (2, drained), (3, fresh)];
        assert_eq!(reusable(all.into_iter(), 100, 50), Some(2));
        assert_eq!(reusable([(1, waited), (3, fresh)].into_iter(), 100, 50), Some(1));
        assert_eq!(reusable([(3, fresh)].into_iter(), 100, 50), None);
    }

    #[test]
    fn a_word_is_not_an_empty_cache() {
        assert!(is_drained(&[MonValue::Count(10), MonValue::Count(0)], 10));
        assert!(!is_drained(&[MonValue::Count(11)], 10));
        assert!(!is_drained(&[MonValue::Unavailable], 10));
    }
}
