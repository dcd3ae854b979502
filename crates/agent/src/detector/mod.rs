//! The consumer that explains: who slowed whom in the last minute, looked at every few seconds.
//!
//! It is the core of `crosstalk analyze` (`crosstalk-interference`) over the rows that sources deliver, on a thread of its
//! own and in memory that does not grow.

mod subjects;
mod told;
mod totals;

pub(crate) use told::{Told, Verdicts};

use crate::config::SubjectName;
use crate::log::say;
use crosstalk_collect::{Delivery, Message, Overview, Subscription};
use crosstalk_host::{Cpu, HostRoot, thread};
use crosstalk_interference::{
    Activity, Assembly, Burst, CorePlace, Observer, Settings as Core, Topology, spread,
};
use crosstalk_model::{ProbeReading, Row, SlotCoverage, SlotLength, StealRow, TaskRow};
use crosstalk_sources::ThrottlingRow;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use subjects::Subjects;

/// Batches that may wait: seconds of all sources.
pub(crate) const WAITING: usize = 1024;
/// How far back verdicts reach.
pub(crate) const REACH: Duration = Duration::from_secs(60);
/// Time between looks, at least: a verdict needs some seconds more to change.
const LOOK: Duration = Duration::from_secs(5);
/// Share of one core that looks may cost; on a machine with many subjects they get rarer.
const SHARE: f64 = 0.0008;
/// How long rows wait for those of other sources.
const HORIZON: Duration = Duration::from_secs(2);
/// How often it is looked whether it is time, when nothing comes.
const IDLE: Duration = Duration::from_millis(200);
/// Rows wait for each other anyway: waking for every batch of every source would cost more than what is done with it.
const PACE: Duration = Duration::from_millis(100);

/// Starts to watch; ends when the last source has. What is found is in the answer.
pub(crate) fn start(
    queue: Subscription,
    host: &HostRoot,
    slot: SlotLength,
    kind: SubjectName,
    overview: &Overview,
) -> io::Result<(Arc<Verdicts>, JoinHandle<()>)> {
    let verdicts = Arc::new(Verdicts::new(kind));
    let mut detector = Detector {
        slot,
        assembly: Assembly::new(slot.nanos(), HORIZON.as_nanos() as u64),
        observer: Observer::new(topology(&Cpu::read(host)), Core::live(REACH.as_secs() as usize)),
        subjects: Subjects::new(kind),
        verdicts: Arc::clone(&verdicts),
        overview: overview.clone(),
        late: 0,
        next_look: Instant::now() + LOOK,
    };
    let thread = Builder::new().name("detector".to_owned()).spawn(move || detector.run(&queue))?;
    Ok((verdicts, thread))
}

struct Detector {
    slot: SlotLength,
    assembly: Assembly,
    observer: Observer,
    subjects: Subjects,
    verdicts: Arc<Verdicts>,
    overview: Overview,
    late: u64,
    next_look: Instant,
}

impl Detector {
    fn run(&mut self, queue: &Subscription) {
        let mut wait = IDLE;
        loop {
            match queue.recv(wait) {
                Ok(message) => {
                    self.take(&message);
                    wait = Duration::ZERO;
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= self.next_look {
                self.look();
            }
            #[allow(clippy::disallowed_methods)] // a pace is meant
            std::thread::sleep(PACE);
            wait = IDLE;
        }
    }

    fn take(&mut self, message: &Message) {
        let Delivery::Rows(batch) = &message.delivery else { return };
        if let Some(rows) = batch.rows::<TaskRow>() {
            for row in rows.iter().filter(|row| row.task.process.pid != 0) {
                let subject = self.subjects.of(row);
                self.assembly.activity(row.slot_start_ns, activity(row, subject));
            }
        } else if let Some(slots) = batch.rows::<SlotCoverage>() {
            for slot in slots.iter().filter(|slot| slot.lost > 0) {
                self.assembly.lost(slot.slot_start_ns);
            }
            // Tasks come before their slots: what is whole by now has them.
            self.assembly.hand_over(&mut self.observer);
        } else if let Some(readings) = batch.rows::<ProbeReading>() {
            for reading in readings {
                // What is written back is slowed most by a stream; where lines cannot be flushed, latency has to do.
                let cost = reading.write_back_ns.or(reading.latency_ns);
                if let (Some(core), Some(cost)) = (reading.core, cost) {
                    self.assembly.burst(reading.slot_start_ns, Burst { core, cost });
                }
            }
        } else if let Some(rows) = batch.rows::<StealRow>() {
            for row in rows {
                for (at_ns, ns) in spread(row.slot_start_ns, row.covers_ns, row.stolen_ns) {
                    self.assembly.stolen(self.slot.floor(at_ns), row.core, ns);
                }
            }
        } else if let Some(rows) = batch.rows::<ThrottlingRow>() {
            for row in rows {
                for &subject in self.subjects.in_cgroup(row.cgroup_id) {
                    let ns = row.throttled.throttled_ns;
                    self.assembly.throttled(row.slot_start_ns, subject, ns);
                }
            }
        }
    }

    fn look(&mut self) {
        let spent = thread::cpu_time();
        let mut findings = self.observer.findings();
        // What the agent itself lost is nobody's concern; what others lost to it is.
        findings.verdicts.retain(|verdict| !self.subjects.is_own(verdict.victim));
        findings.cannot_tell.retain(|unsaid| !self.subjects.is_own(unsaid.victim));
        for news in self.verdicts.publish(&findings, |subject| self.subjects.name(subject)) {
            say(format_args!("{news}"));
        }
        self.subjects.forget_old();
        let late = self.assembly.late() + self.observer.late();
        self.overview.losses().add(TaskRow::DATASET.name, "detector", late - self.late);
        self.late = late;
        let cost = thread::cpu_time() - spent;
        self.next_look = Instant::now() + LOOK.max(cost.div_f64(SHARE));
    }
}

fn activity(row: &TaskRow, subject: crosstalk_interference::Subject) -> Activity {
    let task = &row.task;
    Activity {
        wait_ns: task.runq_wait_ns,
        voluntary_switches: task.voluntary_switches,
        cycles: task.cycles,
        instructions: task.instructions,
        llc_misses: task.llc_misses,
        freq_mhz: task.freq_mhz,
        ..Activity::new(subject, task.core, task.on_cpu_ns)
    }
}

/// Which cores share what, by logical CPU; one that is offline shares nothing.
fn topology(cpu: &Cpu) -> Topology {
    let alone = |id: u32| CorePlace { physical: u32::MAX - id, cache: u32::MAX, memory: u32::MAX };
    let mut places: Vec<CorePlace> = (0..cpu.possible).map(alone).collect();
    for core in &cpu.cores {
        let package = core.package.unwrap_or(0);
        let place = CorePlace {
            physical: core.core_id.map_or(u32::MAX - core.id, |core_id| package << 16 | core_id),
            cache: core.l3_id.unwrap_or(package),
            memory: core.numa_node.unwrap_or(0),
        };
        if let Some(known) = places.get_mut(core.id as usize) {
            *known = place;
        }
    }
    Topology::new(places)
}
