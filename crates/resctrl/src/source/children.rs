//! Children that run under the RMID they inherited, until they have a group of their own.
//!
//! A forked process is in its parent's group until the pool has placed it, which takes a tenth of a second at best, and
//! for ever where it ends before. Meanwhile the parent's rows are those of both, and say so; when the child has left,
//! what it brought into the cache stays for a while, and those rows are stale.

use std::collections::HashMap;

use super::Seen;
use crate::pool::{Roster, Scope, SubjectKey};
use crate::sampler::{CacheReading, ReadingState};

/// What ran is heard of so late at most, at the pace of the slowest kernel tick: rows wait for it.
const LATE_NS: u64 = 20_000_000;
/// Rows that nobody says anything about are not kept back longer.
const PATIENCE_NS: u64 = 1_000_000_000;
/// A child that has not run for so long is forgotten; if it runs again, its parent is asked for again.
const FORGET_NS: u64 = 60_000_000_000;
/// Children followed at once.
const MOST_CHILDREN: usize = 20_000;

#[derive(Debug)]
struct Child {
    key: SubjectKey,
    /// The process whose group it inherited.
    owner: u32,
    ran_ns: u64,
}

/// From the start of the first child in the group of a process to the last time one was heard of there.
#[derive(Debug, Clone, Copy)]
struct Span {
    from_ns: u64,
    until_ns: u64,
}

#[derive(Debug)]
pub(super) struct Children {
    /// For so long after a child has left its lines are taken to be there.
    stale_for_ns: u64,
    unplaced: HashMap<u32, Child>,
    /// By the process that owns the group; the group may have another owner soon.
    spans: HashMap<u32, Span>,
    /// When the traffic of a group and cache was last read: the next value is of all the time since.
    traffic_ns: HashMap<(u32, u32), u64>,
    /// Up to when it is known who ran.
    reported_ns: u64,
    held: Vec<CacheReading>,
    pub(super) rows_with_children: u64,
}

impl Children {
    pub(super) fn new(stale_for_ns: u64) -> Self {
        Self {
            stale_for_ns,
            unplaced: HashMap::new(),
            spans: HashMap::new(),
            traffic_ns: HashMap::new(),
            reported_ns: 0,
            held: Vec::new(),
            rows_with_children: 0,
        }
    }

    /// Takes a list of who ran until now. `parent_of` asks the machine where the list does not say.
    pub(super) fn saw(
        &mut self,
        seen: &[Seen],
        roster: Option<&Roster>,
        now_ns: u64,
        parent_of: impl Fn(u32) -> Option<u32>,
    ) {
        self.reported_ns = now_ns;
        let Some(roster) = roster else { return };
        let mut rest: Vec<(SubjectKey, Option<u32>)> = Vec::new();
        for Seen { key, parent, .. } in seen {
            if !self.known(*key, roster, now_ns) {
                rest.push((*key, parent.or_else(|| parent_of(key.pid))));
            }
        }
        // A grandchild can be listed before its parent, whose group it has to be put down to.
        let mut before = usize::MAX;
        while rest.len() < before {
            before = rest.len();
            rest.retain(|(key, parent)| !self.born(*key, *parent, roster, now_ns));
        }
        self.unplaced.retain(|_, child| now_ns.saturating_sub(child.ran_ns) < FORGET_NS);
        let kept_ns = self.stale_for_ns + PATIENCE_NS;
        self.spans.retain(|_, span| now_ns.saturating_sub(span.until_ns) < kept_ns);
        self.traffic_ns.retain(|_, read_ns| now_ns.saturating_sub(*read_ns) < FORGET_NS);
    }

    /// Whether it has a group of its own, or is known to run in another's.
    fn known(&mut self, key: SubjectKey, roster: &Roster, now_ns: u64) -> bool {
        let is_placed = roster.group_of(key).is_some();
        let child = self.unplaced.get_mut(&key.pid).filter(|child| child.key == key);
        let Some(child) = child else { return is_placed };
        let owner = child.owner;
        child.ran_ns = now_ns;
        if is_placed {
            self.unplaced.remove(&key.pid);
        }
        // One that was placed a moment ago ran in its parent's group before.
        self.mark(owner, key.process_start_ns, now_ns);
        true
    }

    /// Puts a newcomer down to the owner of the group its parent is in; whether that is known.
    fn born(&mut self, key: SubjectKey, parent: Option<u32>, roster: &Roster, now_ns: u64) -> bool {
        let Some(parent) = parent else { return false };
        let unplaced = self.unplaced.get(&parent).map(|child| child.owner);
        let placed = || roster.has_pid(parent).then_some(parent);
        let Some(owner) = unplaced.or_else(placed) else { return false };
        if self.unplaced.len() < MOST_CHILDREN {
            self.unplaced.insert(key.pid, Child { key, owner, ran_ns: now_ns });
        }
        self.mark(owner, key.process_start_ns, now_ns);
        true
    }

    fn mark(&mut self, owner: u32, from_ns: u64, until_ns: u64) {
        let span = self.spans.entry(owner).or_insert(Span { from_ns, until_ns });
        // Long after the last one, it is another.
        if from_ns > span.until_ns.saturating_add(self.stale_for_ns) {
            span.from_ns = from_ns;
        }
        span.from_ns = span.from_ns.min(from_ns);
        span.until_ns = span.until_ns.max(until_ns);
    }

    /// Nobody will say any more who ran: every row is given out.
    pub(super) fn end(&mut self) {
        self.reported_ns = u64::MAX;
    }

    /// Takes rows and gives out those of which it is known who ran, flagged.
    pub(super) fn flag(
        &mut self,
        rows: impl Iterator<Item = CacheReading>,
        now_ns: u64,
    ) -> Vec<CacheReading> {
        self.held.extend(rows);
        let known_ns =
            self.reported_ns.saturating_sub(LATE_NS).max(now_ns.saturating_sub(PATIENCE_NS));
        let (mut out, held) =
            std::mem::take(&mut self.held).into_iter().partition(|row| row.read_at_ns < known_ns);
        self.held = held;
        for row in &mut out {
            self.flag_one(row);
        }
        out
    }

    fn flag_one(&mut self, row: &mut CacheReading) {
        if row.scope != Scope::Process {
            return;
        }
        let has_traffic = row.mbm_total_bytes.or(row.mbm_local_bytes).is_some();
        let traffic = has_traffic.then(|| {
            self.traffic_ns.insert((row.group, row.l3_domain), row.read_at_ns).unwrap_or(0)
        });
        let Some(span) = self.spans.get(&row.pid) else { return };
        if row.read_at_ns < span.from_ns {
            return;
        }
        if traffic.unwrap_or(row.slot_start_ns).min(row.slot_start_ns) <= span.until_ns {
            row.scope = Scope::WithChildren;
            self.rows_with_children += 1;
        } else if row.slot_start_ns - span.until_ns < self.stale_for_ns {
            row.state = row.state.max(ReadingState::Stale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MonitoringInfo;

    const MS: u64 = 1_000_000;
    const STALE: u64 = 1_000 * MS;

    fn key(pid: u32) -> SubjectKey {
        SubjectKey { pid, process_start_ns: u64::from(pid) * MS }
    }

    /// Who is placed where.
    fn roster(homes: &[(u32, u32)]) -> Roster {
        let homes = homes.iter().map(|(pid, group)| (key(*pid), *group)).collect();
        Roster::with_homes(MonitoringInfo::default(), homes)
    }

    fn seen(pid: u32, parent: Option<u32>) -> Seen {
        Seen { key: key(pid), comm: "x".into(), container: None, parent, cpu_ns: 1 }
    }

    fn row(slot_ms: u64, group: u32, scope: Scope) -> CacheReading {
        CacheReading {
            slot_start_ns: slot_ms * MS,
            read_at_ns: (slot_ms + 1) * MS,
            pid: 1,
            process_start_ns: MS,
            comm: "x".into(),
            l3_domain: 0,
            llc_occupancy_bytes: None,
            mbm_total_bytes: None,
            mbm_local_bytes: None,
            scope,
            state: ReadingState::Ok,
            group,
        }
    }

    fn flagged(children: &mut Children, slots: &[u64]) -> Vec<(Scope, ReadingState)> {
        let rows: Vec<CacheReading> =
            slots.iter().map(|slot| row(*slot, 7, Scope::Process)).collect();
        children.end();
        let rows = children.flag(rows.into_iter(), 0);
        rows.iter().map(|row| (row.scope, row.state)).collect()
    }

    const ALONE: (Scope, ReadingState) = (Scope::Process, ReadingState::Ok);
    const BOTH: (Scope, ReadingState) = (Scope::WithChildren, ReadingState::Ok);
    const LEFT: (Scope, ReadingState) = (Scope::Process, ReadingState::Stale);

    #[test]
    fn rows_are_of_both_from_the_childs_start_until_it_is_placed_and_stale_for_a_while_after() {
        let mut children = Children::new(STALE);
        children.saw(&[seen(1, Some(9))], Some(&roster(&[(1, 7)])), 50 * MS, |_| None);
        children.saw(&[seen(80, Some(1))], Some(&roster(&[(1, 7)])), 100 * MS, |_| None);
        let placed = roster(&[(1, 7), (80, 8)]);
        children.saw(&[seen(80, Some(1))], Some(&placed), 150 * MS, |_| None);
        children.saw(&[seen(80, Some(1))], Some(&placed), 200 * MS, |_| None);
        let found = flagged(&mut children, &[70, 80, 150, 151, 1_149, 1_150]);
        assert_eq!(found, [ALONE, BOTH, BOTH, LEFT, LEFT, ALONE]);
        assert_eq!(children.rows_with_children, 2);
    }

    #[test]
    fn traffic_of_a_child_that_is_read_after_it_has_left_is_of_both() {
        let mut children = Children::new(STALE);
        children.saw(&[seen(80, Some(1))], Some(&roster(&[(1, 7)])), 100 * MS, |_| None);
        children.end();
        let moved =
            |slot| CacheReading { mbm_total_bytes: Some(1), ..row(slot, 7, Scope::Process) };
        let rows = [moved(50), row(110, 7, Scope::Process), moved(120), moved(121)];
        let rows = children.flag(rows.into_iter(), 0);
        let found: Vec<_> = rows.iter().map(|row| (row.scope, row.state)).collect();
        assert_eq!(found, [ALONE, LEFT, BOTH, LEFT]);
    }

    #[test]
    fn a_grandchild_counts_where_its_parent_was_put_by_its_own() {
        let mut children = Children::new(STALE);
        let roster = roster(&[(1, 7)]);
        let all = [seen(82, Some(81)), seen(81, Some(80)), seen(80, Some(1))];
        children.saw(&all, Some(&roster), 100 * MS, |_| None);
        // The one between has ended.
        children.saw(&[seen(82, Some(1))], Some(&roster), 150 * MS, |_| None);
        assert_eq!(flagged(&mut children, &[140, 160]), [BOTH, LEFT]);
    }

    #[test]
    fn where_the_list_does_not_say_the_machine_is_asked_and_strangers_flag_nobody() {
        let mut children = Children::new(STALE);
        let roster = roster(&[(1, 7)]);
        children.saw(&[seen(80, None), seen(90, None)], Some(&roster), 100 * MS, |pid| {
            (pid == 80).then_some(1)
        });
        let shared = children.flag([row(85, 7, Scope::Shared)].into_iter(), 10_000 * MS);
        assert_eq!(shared[0].scope, Scope::Shared);
        assert_eq!(flagged(&mut children, &[90]), [BOTH]);
    }

    #[test]
    fn a_row_waits_until_it_is_known_who_ran_but_not_for_ever() {
        let mut children = Children::new(STALE);
        children.saw(&[], Some(&roster(&[])), 100 * MS, |_| None);
        let rows = [row(50, 7, Scope::Process), row(90, 7, Scope::Process)];
        assert_eq!(children.flag(rows.into_iter(), 100 * MS).len(), 1);
        assert_eq!(children.flag(std::iter::empty(), 1_000 * MS).len(), 0);
        assert_eq!(children.flag(std::iter::empty(), 1_100 * MS).len(), 1);
    }
}
