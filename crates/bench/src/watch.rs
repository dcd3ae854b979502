//! Who slows whom, live: rows of the pipeline into the observer, seconds behind what happens.

use crate::collectors::{ContainerCacheRow, ContainerRow};
use crate::roster::Roster;
use crate::scheduler::{Slowed, Vitals};
use crosstalk_collect::{Delivery, Message, Subscription, Wants};
use crosstalk_detector::{Detector, Took, topology};
use crosstalk_host::{Cpu, HostRoot};
use crosstalk_interference::{Settings, Subject, Topology};
use crosstalk_model::{Batch, ProbeReading, Row, SlotCoverage, SlotLength, StealRow, TaskRow};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How much of the past counts.
const WINDOW_SECONDS: usize = 20;
/// What it is concluded from.
pub(crate) const WANTS: Wants = Wants::Datasets(&[
    TaskRow::DATASET,
    SlotCoverage::DATASET,
    ProbeReading::DATASET,
    StealRow::DATASET,
    ContainerRow::DATASET,
    ContainerCacheRow::DATASET,
]);
/// Rows wait for each other anyway, and for the next conclusion.
const PACE: Duration = Duration::from_millis(100);
/// How often it is concluded anew.
const CONCLUDE: Duration = Duration::from_millis(500);
/// Rows of a slot may come this much after those of later ones: a core that computes is told of at its tick.
const LAG: Duration = Duration::from_millis(400);
/// Everybody who is none of the experiment's containers is one subject. As many as a build has processes would take the
/// seats of containers, and one that has just come would be noticed only when it has outdone them.
const OUTSIDERS: Subject = Subject(1 << 16);
/// Subjects that are told apart at least.
const LEAST_SEATS: usize = 16;

/// What is known now.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Losses of containers to containers, as of the last conclusion.
    pub slowed: Vec<Slowed>,
    /// How each container fares.
    pub vitals: BTreeMap<u32, Vitals>,
    /// How often it was concluded.
    pub conclusions: u64,
    /// The round that all of it is of.
    pub round: u32,
}

/// Watches on a thread of its own until the sources end.
#[derive(Debug)]
pub struct Watch {
    known: Arc<Mutex<Known>>,
    stop: Arc<AtomicBool>,
    round: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins, for so many containers; `rows` must have been subscribed before the sources started.
    pub fn start(rows: Subscription, host: &HostRoot, roster: Roster, containers: usize) -> Self {
        let known = Arc::new(Mutex::new(Known::default()));
        let topology = topology(&Cpu::read(host));
        let mut work = Work::new(topology, roster, Arc::clone(&known), containers);
        let stop = Arc::new(AtomicBool::new(false));
        let round = Arc::new(AtomicU32::new(0));
        let (is_over, now) = (Arc::clone(&stop), Arc::clone(&round));
        let thread = thread::spawn(move || work.run(&rows, &is_over, &now));
        Self { known, stop, round, thread: Some(thread) }
    }

    /// From now on another round runs: what was seen of the one before says nothing of it.
    pub fn begin(&self, round: u32) {
        self.round.store(round, Ordering::Relaxed);
    }

    /// What is known now of the round that runs, if it was concluded anew since so many conclusions.
    pub fn known_since(&self, conclusions: u64) -> Option<Known> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = known.round == self.round.load(Ordering::Relaxed);
        (is_current && known.conclusions != conclusions).then(|| known.clone())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The sources may outlive it.
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    detector: Detector,
    topology: Topology,
    seats: usize,
    /// The round that is watched.
    round: u32,
    roster: Roster,
    known: Arc<Mutex<Known>>,
    subjects: Subjects,
    /// Waits up to here are in the vitals.
    split_ns: u64,
}

fn detector(topology: &Topology, seats: usize) -> Detector {
    let settings = Settings { seats, ..Settings::live(WINDOW_SECONDS) };
    Detector::new(topology.clone(), settings, SlotLength::MILLISECOND, LAG)
}

/// The experiment's containers, by their index.
#[derive(Default)]
struct Subjects {
    vitals: BTreeMap<u32, Vitals>,
    /// Containers by the number of their cgroup.
    groups: HashMap<u64, u32>,
}

impl Work {
    fn new(
        topology: Topology,
        roster: Roster,
        known: Arc<Mutex<Known>>,
        containers: usize,
    ) -> Self {
        let seats = LEAST_SEATS.max(containers + 1);
        let (detector, subjects) = (detector(&topology, seats), Subjects::default());
        Self { detector, topology, seats, round: 0, roster, known, subjects, split_ns: 0 }
    }

    /// Forgets what it saw of another round: the window is longer than the pause between two.
    fn watch_round(&mut self, round: u32) {
        if round == self.round {
            return;
        }
        self.round = round;
        self.detector = detector(&self.topology, self.seats);
        (self.subjects, self.split_ns) = (Subjects::default(), 0);
    }

    fn run(&mut self, rows: &Subscription, stop: &AtomicBool, round: &AtomicU32) {
        let mut concluded = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let Some(messages) = rows.gather(PACE) else { return };
            self.watch_round(round.load(Ordering::Relaxed));
            self.take_all(&messages);
            if concluded.elapsed() >= CONCLUDE {
                concluded = Instant::now();
                self.detector.hand_over();
                self.conclude();
            }
        }
    }

    fn take_all(&mut self, messages: &[Message]) {
        let members = self.roster.members();
        let judged = members.iter().filter(|member| member.data.perf);
        self.subjects.groups = judged.filter_map(|m| Some((m.group_id?, m.index))).collect();
        for message in messages {
            if let Delivery::Rows(batch) = &message.delivery {
                self.take(batch);
            }
        }
    }

    fn take(&mut self, batch: &Batch) {
        if self.detector.take(batch, |row| self.subjects.of(row)) == Took::Nothing {
            for row in batch.rows::<ContainerRow>().into_iter().flatten() {
                if let Some(ns) = row.throttled_ns.filter(|ns| *ns > 0) {
                    self.detector.throttled(row.slot_start_ns, Subject(row.index), ns);
                }
            }
            for row in batch.rows::<ContainerCacheRow>().into_iter().flatten() {
                // They come a second late, and those of another round are another's.
                if row.round == self.round {
                    self.subjects.moved(row);
                }
            }
        }
    }

    /// Adds to the vitals for whom containers waited since the last time.
    fn split_waits(&mut self) {
        let mut newest_ns = self.split_ns;
        for victim in self.detector.victims() {
            let Some(vitals) = self.subjects.vitals.get_mut(&victim.victim.0) else { continue };
            for bin in victim.bins.iter().filter(|bin| bin.start_ns > self.split_ns) {
                newest_ns = newest_ns.max(bin.start_ns);
                vitals.wanted_ns += bin.on_cpu_ns + bin.wait_ns;
                for held in bin.held.iter().filter(|held| held.subject < OUTSIDERS) {
                    *vitals.waited_for.entry(held.subject.0).or_default() += f64::from(held.ns);
                }
            }
        }
        self.split_ns = newest_ns;
    }

    fn conclude(&mut self) {
        self.split_waits();
        let is_ours = |subject: &Subject| *subject < OUTSIDERS;
        let findings = self.detector.findings();
        let slowed = findings
            .verdicts
            .iter()
            .filter(|v| is_ours(&v.victim) && v.aggressors.iter().all(is_ours))
            .map(|v| Slowed {
                victim: v.victim.0,
                aggressors: v.aggressors.iter().map(|subject| subject.0).collect(),
                slowdown: v.slowdown,
                low: v.low,
                high: v.high,
                resource: v.resource,
                signal: v.signal,
                confidence: v.confidence,
            })
            .collect();
        let members = self.roster.members();
        let vitals = &mut self.subjects.vitals;
        vitals.retain(|index, _| members.iter().any(|member| member.index == *index));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.slowed = slowed;
        known.vitals = vitals.clone();
        known.conclusions += 1;
        known.round = self.round;
    }
}

impl Subjects {
    /// Adds what a container moved to and from memory, if it is one that is judged.
    fn moved(&mut self, row: &ContainerCacheRow) {
        let Some(vitals) = self.vitals.get_mut(&row.index) else { return };
        vitals.moved_ns += row.covers_ns;
        for (cache, bytes) in &row.moved_by_domain {
            *vitals.moved.entry(*cache).or_default() += bytes;
        }
    }

    /// Whose a row is; what it says of a container is added to how that one fares.
    fn of(&mut self, row: &TaskRow) -> Subject {
        let task = &row.task;
        let Some(index) = self.groups.get(&task.cgroup_id) else {
            return OUTSIDERS;
        };
        let vitals = self.vitals.entry(*index).or_default();
        vitals.at_ns = vitals.at_ns.max(row.slot_start_ns);
        vitals.on_cpu_ns += task.on_cpu_ns;
        vitals.wait_ns += task.runq_wait_ns.unwrap_or(0);
        vitals.wakeups += u64::from(task.voluntary_switches);
        vitals.cycles += task.cycles.unwrap_or(0);
        vitals.instructions += task.instructions.unwrap_or(0);
        Subject(*index)
    }
}

#[cfg(test)]
mod tests;
