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

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crosstalk_host::thread;

pub use files::read_value;
pub use reading::{CacheReading, ReadingState};

use crate::pool::{Roster, Scope, SubjectKey};
use budget::Budget;
use files::{Haste, OpenDomain, Place, Turn};

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
    /// In the order of groups and domains. One piece of memory: a slot begins with cold caches.
    open: Vec<OpenDomain>,
    known: Known,
    /// Where the next turn starts, among those that ran and among the others.
    next: [Place; 2],
    /// Reads that those at rest have not had yet.
    owed: f64,
    /// How many were due when that was last found out.
    last_due: usize,
}

/// What the plan for a slot was made from; it holds until one of the two changes.
#[derive(Debug, Default)]
struct Known {
    edition: Option<u64>,
    ran: Vec<SubjectKey>,
    /// Those that ran with their groups, in the order of groups.
    runners: Vec<(u32, SubjectKey)>,
}

/// Those that ran come first, but this part of the reads is for values that only fade.
const KEPT_FOR_RESTED: f64 = 8.0;
/// What those that rest can be owed at most, where that is more than half of a slot: two looks.
const MOST_OWED: usize = 6;

/// Unix time in nanoseconds, the default clock of a sampler.
#[must_use]
pub fn unix_now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of the calling thread.
fn thread_cpu_ns() -> u64 {
    thread::cpu_time().as_nanos() as u64
}

impl Sampler {
    /// A sampler that knows no group yet.
    #[must_use]
    pub fn new(config: SamplerConfig) -> Self {
        let slot_ns = config.slot_ns.max(1);
        let budget = Budget::new(slot_ns, config.cpu_share);
        let (open, known) = (Vec::new(), Known::default());
        Self { slot_ns, budget, open, known, next: [(0, 0); 2], owed: 0.0, last_due: 0 }
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
        self.follow(roster, ran);
        let due = [Turn::Ran, Turn::Rested].map(|turn| (turn, self.due(turn)));
        let mut report = SlotReport {
            due: due.iter().map(|(_, due)| due.places).sum(),
            last_slot_ns: slot_start_ns,
            ..SlotReport::default()
        };
        self.last_due = report.due;
        let planning_ns = thread_cpu_ns().saturating_sub(started);
        let mut allowance = self.budget.reads(planning_ns);
        rows.reserve(report.due.min(allowance));
        self.owe(due[1].1, allowance);
        for (turn, due) in due {
            let kept = match turn {
                Turn::Ran => self.owed as usize,
                // A reserve: what the next slot costs more than this one is not taken from those that run.
                Turn::Rested => allowance.saturating_sub(self.owed as usize) / 2,
            };
            let before = report.reads;
            let haste = if due.full_reads + kept > allowance { Haste::Short } else { Haste::None };
            for at in self.in_turn(turn) {
                let open = &mut self.open[at];
                if !open.is_due(turn) {
                    continue;
                }
                let cost = open.cost(turn, haste);
                if cost + kept > allowance {
                    break;
                }
                allowance -= cost;
                let (group, domain) = open.place;
                self.next[turn as usize] = (group, domain.saturating_add(1));
                let look = open.look(turn, haste, clock);
                report.read += 1;
                report.reads += look.reads;
                report.gone += usize::from(look.gone);
                // A read that was held up tells of the last slot that had ended by then.
                let ended = look.read_at_ns / self.slot_ns * self.slot_ns;
                let slot_ns = slot_start_ns.max(ended.saturating_sub(self.slot_ns));
                report.last_slot_ns = report.last_slot_ns.max(slot_ns);
                let state =
                    if open.stale { look.state.max(ReadingState::Stale) } else { look.state };
                let row = |key: SubjectKey, comm: &Arc<str>, scope| CacheReading {
                    slot_start_ns: slot_ns,
                    read_at_ns: look.read_at_ns,
                    pid: key.pid,
                    process_start_ns: key.process_start_ns,
                    comm: Arc::clone(comm),
                    l3_domain: domain,
                    llc_occupancy_bytes: look.occupancy,
                    mbm_total_bytes: look.total,
                    mbm_local_bytes: look.local,
                    scope,
                    state,
                    group,
                };
                if let Some((key, comm)) = &open.owner {
                    rows.push(row(*key, comm, Scope::Process));
                } else if let Some(view) = roster.group(group) {
                    let runners = &self.known.runners[open.runners.clone()];
                    let ran = |key: &SubjectKey| runners.binary_search(&(group, *key)).is_ok();
                    let running = view.members.iter().filter(|(key, _)| ran(key));
                    rows.extend(running.map(|(key, comm)| row(*key, comm, view.scope)));
                }
            }
            if turn == Turn::Rested {
                self.owed = (self.owed - (report.reads - before) as f64).max(0.0);
            }
        }
        report.cpu_ns = thread_cpu_ns().saturating_sub(started);
        let reading_ns = report.cpu_ns.saturating_sub(planning_ns);
        self.budget.spent(planning_ns, report.reads, reading_ns);
        report
    }

    /// Takes up what is new about groups and about who ran.
    fn follow(&mut self, roster: &Roster, ran: &[SubjectKey]) {
        let is_new = self.known.edition != Some(roster.edition());
        if is_new {
            self.follow_groups(roster);
            self.known.edition = Some(roster.edition());
        }
        if is_new || self.known.ran != ran {
            self.follow_runners(roster, ran);
        }
    }

    /// Takes up new groups and lets go of those that are no longer in use.
    fn follow_groups(&mut self, roster: &Roster) {
        let current = |open: &OpenDomain| {
            roster.group(open.place.0).filter(|view| view.generation == open.generation)
        };
        self.open.retain(|open| current(open).is_some());
        // Newcomers go to the end, behind what is in order.
        let known = self.open.len();
        for view in roster.groups() {
            for files in &view.files {
                let place = (view.id, files.domain);
                if self.open[..known].binary_search_by_key(&place, |open| open.place).is_err() {
                    self.open.push(OpenDomain::new(view, files));
                }
            }
        }
        self.open.sort_unstable_by_key(|open| open.place);
        for open in &mut self.open {
            let Some(view) = roster.group(open.place.0) else { continue };
            open.stale = view.stale;
            open.owner = match (view.scope, &view.members[..]) {
                (Scope::Process, [owner]) => Some(owner.clone()),
                _ => None,
            };
        }
    }

    fn follow_runners(&mut self, roster: &Roster, ran: &[SubjectKey]) {
        self.known.ran = ran.to_vec();
        let with_group = ran.iter().filter_map(|key| Some((roster.group_of(*key)?, *key)));
        self.known.runners = with_group.collect();
        let runners = &mut self.known.runners;
        runners.sort_unstable();
        runners.dedup();
        for open in &mut self.open {
            let group = open.place.0;
            let from = runners.partition_point(|(id, _)| *id < group);
            let to = runners.partition_point(|(id, _)| *id <= group);
            open.runners = from..to;
        }
    }

    fn due(&self, turn: Turn) -> Due {
        let mut due = Due { places: 0, full_reads: 0 };
        for open in self.open.iter().filter(|open| open.is_due(turn)) {
            due.places += 1;
            due.full_reads += open.cost(turn, Haste::None);
        }
        due
    }

    /// Those that rest are owed a part of the reads, slot by slot until it is enough for a look: where few reads fit into
    /// a slot, those that run would elsewise take them all.
    fn owe(&mut self, rested: Due, allowance: usize) {
        let more = allowance as f64 / KEPT_FOR_RESTED;
        let most = rested.full_reads.min(MOST_OWED.max(allowance / 2)) as f64;
        self.owed = (self.owed + more).min(most).min(allowance as f64);
    }

    /// Everybody once: whoever was left out in the last slot comes first.
    fn in_turn(&self, turn: Turn) -> impl Iterator<Item = usize> + use<> {
        let next = self.next[turn as usize];
        let first = self.open.partition_point(|open| open.place < next);
        (first..self.open.len()).chain(0..first)
    }
}

/// What a turn would take if nobody were in haste.
#[derive(Debug, Clone, Copy)]
struct Due {
    places: usize,
    full_reads: usize,
}
