//! Cache references, branches and first-level cache of every container: what a slot has no room for.
//!
//! Data set: container_counters.

use crate::roster::{Member, Roster};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_counters::{FamilyCounter, FamilyEvent};
use crosstalk_host::{Capability, HostRoot, ProcStat, Verdict, monotonic_ns, thread_group};
use crosstalk_model::{Row, SlotLength};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

static ABOUT: About = About {
    name: "container-counters",
    datasets: &[CountersRow::DATASET],
    metrics: &[],
    subjects: &[],
};

const EVENTS: usize = FamilyEvent::HARDWARE.len();
/// Threads of one container that can be followed from the time they are first seen; what they start is followed too.
const MOST_THREADS: usize = 512;

/// What a container did in a stretch of time, by the processor's counters: a row of the `container_counters` data set.
#[derive(Clone, Debug, PartialEq)]
pub struct CountersRow {
    /// Start of the slot in which it was read, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// The time before it that the row tells of.
    pub covers_ns: u64,
    /// The round.
    pub round: u32,
    /// The container's index.
    pub index: u32,
    /// Its name.
    pub container: Arc<str>,
    /// How often each of [`FamilyEvent::HARDWARE`] happened, in their order.
    pub counts: [Option<u64>; EVENTS],
}

crosstalk_model::dataset! {
    CountersRow: "container_counters",
    "one row per container and sample: what the processor counted since the one before",
    by |row| (row.index, row.slot_start_ns),
    covers_ns [int] "ns" "the time the row tells of, up to its reading" = |row| row.covers_ns;
    round [int] "" "number of the round" = |row| row.round;
    index [int] "" "index of the container" = |row| row.index;
    container [text] "" "name of the container" = |row| &row.container;
    cache_references [int?] "" "last-level-cache references, by the kernel's generic event" = |row| row.counts[0];
    cache_misses [int?] "" "misses of these" = |row| row.counts[1];
    branches [int?] "" "branches" = |row| row.counts[2];
    branch_misses [int?] "" "branches foretold wrongly" = |row| row.counts[3];
    l1d_loads [int?] "" "loads from the first-level data cache" = |row| row.counts[4];
    l1d_load_misses [int?] "" "those it did not have" = |row| row.counts[5];
    llc_loads [int?] "" "loads from the last-level cache" = |row| row.counts[6];
    llc_load_misses [int?] "" "those it did not have" = |row| row.counts[7];
}

pub(super) struct CountersSource {
    roster: Roster,
    host: HostRoot,
    period: Duration,
}

/// A container as it was last read.
struct Known {
    at_ns: u64,
    open: Vec<Option<FamilyCounter>>,
    counts: [Option<u64>; EVENTS],
    /// Processes that are followed.
    inside: BTreeSet<u32>,
    threads: usize,
}

impl Known {
    fn open(member: &Member) -> Self {
        let inside = member.group.processes();
        let threads: Vec<u32> = member.group.threads().into_iter().collect();
        let mut known = Self {
            at_ns: monotonic_ns(),
            open: Vec::new(),
            counts: [None; EVENTS],
            inside,
            threads: threads.len(),
        };
        // A sum over some of the threads would be taken for one over all: better none.
        if threads.len() <= MOST_THREADS {
            let all = FamilyEvent::HARDWARE.iter();
            known.open = all.map(|event| FamilyCounter::open(*event, &threads).ok()).collect();
        }
        known.counts = known.read();
        known
    }

    /// Follows commands that an engine was asked to run inside: they are no children of who is followed already.
    fn follow_newcomers(&mut self, member: &Member, host: &HostRoot) {
        // Only in a container of its own do orphans stay below its first process, and so among the known.
        if member.id.is_none() || self.open.is_empty() {
            return;
        }
        let present = member.group.processes();
        let new: Vec<u32> = present.difference(&self.inside).copied().collect();
        if new.is_empty() {
            return;
        }
        let parent = |pid: u32| ProcStat::of_process(host, pid).and_then(|stat| stat.parent());
        let strangers = strangers(&new, parent, &self.inside);
        let is_theirs =
            |tid: &u32| thread_group(host, *tid).is_some_and(|p| strangers.contains(&p));
        let threads: Vec<u32> = member.group.threads().into_iter().filter(is_theirs).collect();
        self.threads += threads.len();
        if self.threads > MOST_THREADS {
            return self.open.clear();
        }
        for (event, counter) in FamilyEvent::HARDWARE.iter().zip(&mut self.open) {
            // One that can no longer be followed whole is not told at all.
            if counter.as_mut().is_some_and(|open| open.follow(*event, &threads).is_err()) {
                *counter = None;
            }
        }
        self.inside = present;
    }

    fn read(&self) -> [Option<u64>; EVENTS] {
        std::array::from_fn(|at| self.open.get(at)?.as_ref()?.read())
    }
}

/// Of processes that are new, those whose parent is neither known nor new: whoever started them is outside.
fn strangers(new: &[u32], parent: impl Fn(u32) -> Option<u32>, inside: &BTreeSet<u32>) -> Vec<u32> {
    let came_from_inside = |pid: u32| inside.contains(&pid) || new.contains(&pid);
    new.iter().copied().filter(|pid| parent(*pid).is_some_and(|p| !came_from_inside(p))).collect()
}

impl CountersSource {
    pub(super) fn new(roster: Roster, host: &HostRoot, period: Duration) -> Self {
        Self { roster, host: host.clone(), period }
    }

    fn sample(
        &self,
        member: &Member,
        known: &mut HashMap<(u32, u32), Known>,
        out: &Outlet,
    ) -> Option<CountersRow> {
        let key = (member.round, member.index);
        let Some(before) = known.get_mut(&key) else {
            known.insert(key, Known::open(member));
            return None;
        };
        before.follow_newcomers(member, &self.host);
        let (at_ns, now) = (monotonic_ns(), before.read());
        // A sum that was scaled up may come down a little again.
        let grown = |at: usize| Some(now[at]?.saturating_sub(before.counts[at]?));
        let row = CountersRow {
            slot_start_ns: SlotLength::MILLISECOND.floor(out.clock().unix_ns(at_ns)),
            covers_ns: at_ns.saturating_sub(before.at_ns),
            round: member.round,
            index: member.index,
            container: Arc::clone(&member.name),
            counts: std::array::from_fn(grown),
        };
        (before.at_ns, before.counts) = (at_ns, now);
        Some(row)
    }
}

impl Source for CountersSource {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        let own = [std::process::id()];
        let tried = FamilyEvent::HARDWARE.map(|event| FamilyCounter::open(event, &own).map(drop));
        let missing: Vec<&std::io::Error> =
            tried.iter().filter_map(|tried| tried.as_ref().err()).collect();
        if let (Some(error), true) = (missing.first(), missing.len() == EVENTS) {
            let found = format!("no counters of the processor here ({error})");
            return Err(out.capability(Verdict::Absent, found));
        }
        match missing.len() {
            0 => out.report(Verdict::Ok, "counters of the experiment's containers"),
            count => {
                let found = format!("{count} of {EVENTS} events are not known to this processor");
                out.report(Verdict::Limited, &found);
            }
        }
        let mut known = HashMap::new();
        let mut next = Instant::now();
        loop {
            let mut members = self.roster.members();
            members.retain(|member| member.data.perf);
            known.retain(|key, _| members.iter().any(|m| (m.round, m.index) == *key));
            let rows = members.iter().filter_map(|m| self.sample(m, &mut known, out)).collect();
            out.deliver(rows);
            next = (next + self.period).max(Instant::now());
            if out.pause(next.saturating_duration_since(Instant::now())) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_came_from_outside_is_told_from_what_the_container_started() {
        let parents = HashMap::from([(20, 10), (30, 999), (31, 30), (40, 20)]);
        let parent = |pid: u32| parents.get(&pid).copied();
        // 30 was started by an engine, and started 31 itself; nothing is known of 50, which has ended.
        let found = strangers(&[20, 30, 31, 40, 50], parent, &BTreeSet::from([10]));
        assert_eq!(found, [30]);
    }
}
