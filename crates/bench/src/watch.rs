//! Who slows whom, live: rows of the pipeline into the observer, seconds behind what happens.

use crate::collectors::ContainerRow;
use crate::roster::Roster;
use crate::scheduler::{Slowed, Vitals};
use crosstalk_collect::{Delivery, Subscription};
use crosstalk_host::{Cpu, HostRoot};
use crosstalk_interference::{
    Activity, Assembly, Burst, CorePlace, Observer, Settings, Subject, Topology,
};
use crosstalk_model::{ProbeReading, ProcessId, SlotCoverage, SlotLength, StealRow, TaskRow};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How much of the past counts.
const WINDOW_SECONDS: usize = 20;
/// How often it is concluded anew.
const CONCLUDE: Duration = Duration::from_millis(500);
/// Rows of a slot may come this much after those of later ones: a core that computes is told of at its tick.
const LAG_NS: u64 = 400_000_000;
/// Numbers of subjects that are none of the experiment's containers begin here.
const OUTSIDERS: u32 = 1 << 16;
const MOST_OUTSIDERS: usize = 50_000;
/// What is known now.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Losses of containers to containers, as of the last conclusion.
    pub slowed: Vec<Slowed>,
    /// How each container fares.
    pub vitals: BTreeMap<u32, Vitals>,
    /// How often it was concluded.
    pub conclusions: u64,
}

/// Watches on a thread of its own until the sources end.
#[derive(Debug)]
pub struct Watch {
    known: Arc<Mutex<Known>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins; `rows` must have been subscribed before the sources started.
    pub fn start(rows: Subscription, host: &HostRoot, roster: Roster) -> Self {
        let known = Arc::new(Mutex::new(Known::default()));
        let mut work = Work::new(host, roster, Arc::clone(&known));
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = thread::spawn(move || work.run(&rows, &is_over));
        Self { known, stop, thread: Some(thread) }
    }

    /// What is known now.
    pub fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
    observer: Observer,
    roster: Roster,
    known: Arc<Mutex<Known>>,
    assembly: Assembly,
    outsiders: HashMap<ProcessId, u32>,
    vitals: BTreeMap<u32, Vitals>,
    /// Containers by the number of their cgroup.
    groups: HashMap<u64, u32>,
}

impl Work {
    fn new(host: &HostRoot, roster: Roster, known: Arc<Mutex<Known>>) -> Self {
        let settings = Settings::live(WINDOW_SECONDS);
        Self {
            observer: Observer::new(topology(&Cpu::read(host)), settings),
            roster,
            known,
            assembly: Assembly::new(SlotLength::MILLISECOND.nanos(), LAG_NS),
            outsiders: HashMap::new(),
            vitals: BTreeMap::new(),
            groups: HashMap::new(),
        }
    }

    fn run(&mut self, rows: &Subscription, stop: &AtomicBool) {
        let mut concluded = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            match rows.recv(CONCLUDE.saturating_sub(concluded.elapsed())) {
                Ok(message) => {
                    if let Delivery::Rows(batch) = message.delivery {
                        self.take(&batch);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if concluded.elapsed() >= CONCLUDE {
                concluded = Instant::now();
                self.assembly.hand_over(&mut self.observer);
                self.conclude();
            }
        }
    }

    fn take(&mut self, batch: &crosstalk_model::Batch) {
        if let Some(tasks) = batch.rows::<TaskRow>() {
            let members = self.roster.members();
            self.groups = members.iter().filter_map(|m| Some((m.group_id?, m.index))).collect();
            tasks.iter().for_each(|row| self.take_task(row));
        } else if let Some(slots) = batch.rows::<SlotCoverage>() {
            for slot in slots.iter().filter(|slot| slot.lost > 0) {
                self.assembly.lost(slot.slot_start_ns);
            }
        } else if let Some(bursts) = batch.rows::<ProbeReading>() {
            for burst in bursts {
                let cost = burst.write_back_ns.or(burst.latency_ns);
                if let (Some(core), Some(cost)) = (burst.core, cost) {
                    self.assembly.burst(burst.slot_start_ns, Burst { core, cost });
                }
            }
        } else if let Some(stolen) = batch.rows::<StealRow>() {
            for row in stolen {
                self.assembly.stolen(row.slot_start_ns, row.core, row.stolen_ns);
            }
        } else if let Some(containers) = batch.rows::<ContainerRow>() {
            for row in containers {
                if let Some(ns) = row.throttled_ns.filter(|ns| *ns > 0) {
                    self.assembly.throttled(row.slot_start_ns, Subject(row.index), ns);
                }
            }
        }
    }

    fn take_task(&mut self, row: &TaskRow) {
        let task = &row.task;
        if task.process.pid == 0 {
            return;
        }
        let subject = match self.groups.get(&task.cgroup_id) {
            Some(index) => {
                let vitals = self.vitals.entry(*index).or_default();
                vitals.at_ns = vitals.at_ns.max(row.slot_start_ns);
                vitals.on_cpu_ns += task.on_cpu_ns;
                vitals.wait_ns += task.runq_wait_ns.unwrap_or(0);
                vitals.wakeups += u64::from(task.voluntary_switches);
                vitals.cycles += task.cycles.unwrap_or(0);
                vitals.instructions += task.instructions.unwrap_or(0);
                Subject(*index)
            }
            None => self.outsider(task.process),
        };
        let activity = Activity {
            wait_ns: task.runq_wait_ns,
            voluntary_switches: task.voluntary_switches,
            cycles: task.cycles,
            instructions: task.instructions,
            llc_misses: task.llc_misses,
            freq_mhz: task.freq_mhz,
            ..Activity::new(subject, task.core, task.on_cpu_ns)
        };
        self.assembly.activity(row.slot_start_ns, activity);
    }

    fn outsider(&mut self, process: ProcessId) -> Subject {
        let next = self.outsiders.len();
        if next >= MOST_OUTSIDERS && !self.outsiders.contains_key(&process) {
            return Subject(OUTSIDERS + MOST_OUTSIDERS as u32);
        }
        Subject(*self.outsiders.entry(process).or_insert(OUTSIDERS + next as u32))
    }

    fn conclude(&mut self) {
        let is_ours = |subject: &Subject| subject.0 < OUTSIDERS;
        let findings = self.observer.findings();
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
        self.vitals.retain(|index, _| members.iter().any(|member| member.index == *index));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.slowed = slowed;
        known.vitals = self.vitals.clone();
        known.conclusions += 1;
    }
}

/// Which cores share what on this machine.
fn topology(cpu: &Cpu) -> Topology {
    let alone = CorePlace { physical: u32::MAX / 2, cache: u32::MAX, memory: u32::MAX };
    let mut places = Vec::new();
    for core in &cpu.cores {
        let package = core.package.unwrap_or(0);
        let place = CorePlace {
            physical: core.core_id.map_or(u32::MAX - core.id, |id| package << 16 | id),
            cache: core.l3_id.unwrap_or(package),
            memory: core.numa_node.unwrap_or(0),
        };
        let at = core.id as usize;
        places.resize(places.len().max(at + 1), alone);
        places[at] = place;
    }
    if places.is_empty() { Topology::one_cache(1_024) } else { Topology::new(places) }
}
