//! Reads the groups of a [`Roster`] slot by slot, within a share of one processor.
//!
//! Files stay open and every value is one pread. In a slot only those are read whose processes ran or whose value can
//! still change. Where that is more than the budget allows, traffic is read at every fourth look, and where even that is
//! too much they take turns; every row says when it was really read.
//!
//! ```no_run
//! use crosstalk_resctrl::pool::{Pool, PoolConfig, Subject, SubjectKey};
//! use crosstalk_resctrl::sampler::{Sampler, SamplerConfig, unix_now_ns};
//! # let processes: Vec<Subject> = Vec::new();
//! # let ran: Vec<SubjectKey> = Vec::new();
//! let resctrl = crosstalk_resctrl::Resctrl::open("/sys/fs/resctrl")?;
//! let mut pool = Pool::start(resctrl, PoolConfig::default())?;
//! pool.update(&processes, unix_now_ns())?;
//! let mut sampler = Sampler::new(SamplerConfig::default());
//! let (mut rows, now) = (Vec::new(), unix_now_ns());
//! sampler.sample(&pool.roster(), now - now % 1_000_000, &ran, &unix_now_ns, &mut rows);
//! pool.stop()?;
//! # Ok::<(), crosstalk_resctrl::Error>(())
//! ```

mod budget;
mod files;
mod reading;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

pub use files::read_value;
pub use reading::{CacheReading, ReadingState};

use crate::pool::{MeasuredGroup, Roster, Scope, SubjectKey};
use budget::Budget;
use files::{Haste, Look, OpenDomain};

/// How a sampler behaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplerConfig {
    /// Length of a slot.
    pub slot_ns: u64,
    /// The share of one processor that reading may take, 0 to 1.
    pub cpu_share: f64,
}

impl Default for SamplerConfig {
    fn default() -> Self {
        Self { slot_ns: 1_000_000, cpu_share: 0.05 }
    }
}

/// What one slot came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotReport {
    /// Group and domain pairs that should have been read.
    pub due: usize,
    /// Those that were read; the others have their turn in the next slots.
    pub read: usize,
    /// preads made.
    pub reads: usize,
    /// CPU time of the calling thread.
    pub cpu_ns: u64,
    /// The start of the last slot that has a row. Later than the slot asked for where reading took longer than a slot.
    pub last_slot_ns: u64,
    /// Groups that were gone when they were read: it is time for a [`Pool::update`](crate::pool::Pool::update).
    pub gone: usize,
}

/// The reader of a roster's groups.
#[derive(Debug)]
pub struct Sampler {
    slot_ns: u64,
    budget: Budget,
    open: BTreeMap<Place, OpenDomain>,
    synced: Option<u64>,
    /// Where the next turn starts, among those that ran and among the others.
    turns: [Place; 2],
    /// How many were due when that was last found out.
    last_due: usize,
}

/// A group and a domain.
type Place = (u32, u32);

/// What is to be read in a slot, in the order of turns.
#[derive(Debug, Default)]
struct Turn {
    due: Vec<Due>,
    /// preads it takes where nobody is in haste.
    full_reads: usize,
}

#[derive(Debug)]
struct Due {
    place: Place,
    /// Where its processes stand in the list of those that ran.
    runners: Range<usize>,
}

/// Those that ran come first, but this part of the reads is for values that only fade.
const KEPT_FOR_IDLE: usize = 8;

/// Unix time in nanoseconds, the default clock of a sampler.
#[must_use]
pub fn unix_now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

impl Sampler {
    /// A sampler that knows no group yet.
    #[must_use]
    pub fn new(config: SamplerConfig) -> Self {
        let slot_ns = config.slot_ns.max(1);
        let budget = Budget::new(slot_ns, config.cpu_share);
        Self {
            slot_ns,
            budget,
            open: BTreeMap::new(),
            synced: None,
            turns: [(0, 0); 2],
            last_due: 0,
        }
    }

    /// Reads one slot and appends its rows. `ran` lists the processes that were on a processor in it; `clock` gives
    /// Unix nanoseconds, for example [`unix_now_ns`].
    pub fn sample(
        &mut self,
        roster: &Roster,
        slot_start_ns: u64,
        ran: &[SubjectKey],
        clock: &impl Fn() -> u64,
        rows: &mut Vec<CacheReading>,
    ) -> SlotReport {
        if !self.budget.begin(slot_start_ns) {
            let due = self.last_due;
            return SlotReport { due, last_slot_ns: slot_start_ns, ..SlotReport::default() };
        }
        let started = thread_cpu_ns();
        if self.synced != Some(roster.version()) {
            self.follow(roster);
        }
        let mut active: Vec<(u32, SubjectKey)> =
            ran.iter().filter_map(|key| Some((roster.group_of(*key)?, *key))).collect();
        active.sort_unstable();
        active.dedup();
        let turns = self.due(roster, &active);
        let mut report = SlotReport {
            due: turns.iter().map(|turn| turn.due.len()).sum(),
            last_slot_ns: slot_start_ns,
            ..SlotReport::default()
        };
        self.last_due = report.due;
        let planning_ns = thread_cpu_ns().saturating_sub(started);
        let mut allowance = self.budget.reads(planning_ns);
        for (number, Turn { due, full_reads }) in turns.into_iter().enumerate() {
            let ran = number == 0;
            let others = if ran { report.due - due.len() } else { 0 };
            let kept = (allowance / KEPT_FOR_IDLE).min(others);
            let haste = if full_reads + kept > allowance { Haste::Short } else { Haste::None };
            for Due { place, runners } in due {
                let Some(open) = self.open.get_mut(&place) else { continue };
                let cost = open.cost(ran, haste);
                if cost + kept > allowance {
                    break;
                }
                allowance -= cost;
                self.turns[number] = (place.0, place.1.saturating_add(1));
                let look = open.look(ran, haste, clock);
                report.read += 1;
                report.reads += look.reads;
                report.gone += usize::from(look.gone);
                // A read that was held up tells of the last slot that had ended by then.
                let ended = look.read_at_ns / self.slot_ns * self.slot_ns;
                let slot_ns = slot_start_ns.max(ended.saturating_sub(self.slot_ns));
                report.last_slot_ns = report.last_slot_ns.max(slot_ns);
                if let Some(view) = roster.group(place.0) {
                    push_rows(view, slot_ns, place.1, &look, &active[runners], rows);
                }
            }
        }
        report.cpu_ns = thread_cpu_ns().saturating_sub(started);
        let reading_ns = report.cpu_ns.saturating_sub(planning_ns);
        self.budget.spent(planning_ns, report.reads, reading_ns);
        report
    }

    /// Takes up new groups and lets go of those that are no longer in use.
    fn follow(&mut self, roster: &Roster) {
        let is_current = |open: &OpenDomain| {
            roster.group(open.group).is_some_and(|view| view.generation == open.generation)
        };
        self.open.retain(|_, open| is_current(open));
        for view in roster.groups() {
            for files in &view.files {
                self.open
                    .entry((view.id, files.domain))
                    .or_insert_with(|| OpenDomain::new(view, files));
            }
        }
        self.synced = Some(roster.version());
    }

    /// What should be read of those that ran, and of the others: whoever was left out in the last slot comes first.
    fn due(&self, roster: &Roster, active: &[(u32, SubjectKey)]) -> [Turn; 2] {
        let mut turns = [Turn::default(), Turn::default()];
        let mut from = 0;
        // Both are in the order of groups.
        for (place, open) in &self.open {
            let group = place.0;
            from += active[from..].iter().take_while(|(id, _)| *id < group).count();
            let ran = active[from..].iter().take_while(|(id, _)| *id == group).count();
            // A value many share is told for those that ran; with none there is nobody to tell it for.
            let alone = || roster.group(group).is_some_and(|view| view.scope == Scope::Process);
            if ran > 0 || (open.can_change() && alone()) {
                let turn = &mut turns[usize::from(ran == 0)];
                turn.full_reads += open.cost(ran > 0, Haste::None);
                turn.due.push(Due { place: *place, runners: from..from + ran });
            }
        }
        for (turn, start) in turns.iter_mut().zip(self.turns) {
            let first = turn.due.partition_point(|due| due.place < start);
            turn.due.rotate_left(first);
        }
        turns
    }
}

fn push_rows(
    view: &MeasuredGroup,
    slot_start_ns: u64,
    l3_domain: u32,
    look: &Look,
    runners: &[(u32, SubjectKey)],
    rows: &mut Vec<CacheReading>,
) {
    let alone = view.scope == Scope::Process;
    let tell = |key: &SubjectKey| alone || runners.binary_search(&(view.id, *key)).is_ok();
    let state = if view.stale { look.state.max(ReadingState::Stale) } else { look.state };
    for (key, comm) in view.members.iter().filter(|(key, _)| tell(key)) {
        rows.push(CacheReading {
            slot_start_ns,
            read_at_ns: look.read_at_ns,
            pid: key.pid,
            process_start_ns: key.process_start_ns,
            comm: comm.clone(),
            l3_domain,
            llc_occupancy_bytes: look.occupancy,
            mbm_total_bytes: look.total,
            mbm_local_bytes: look.local,
            scope: view.scope,
            state,
            group: view.id,
        });
    }
}
