//! Rows of the pipeline into the core that says who slows whom, live: what the agent and the benchmark driver share.
//!
//! A [`Detector`] takes batches as sources deliver them, each data set in its own time, and whoever asks gets what the last
//! seconds show. Who counts as one (a process, a container, a pod) is said by the caller, row by row.

use crosstalk_host::Cpu;
use crosstalk_interference::{
    Activity, Assembly, Burst, CoreIds, Findings, Observer, Settings, Subject, Topology,
    VictimBins, spread,
};
use crosstalk_model::{Batch, ProbeReading, SlotCoverage, SlotLength, StealRow, TaskRow};
use std::time::Duration;

/// What a batch was of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// Who ran.
    Tasks,
    /// Slots that are over: tasks come before their slots, so what is whole by now has them.
    Slots,
    /// What else happened: the probe's bursts, stolen time.
    Aside,
    /// Nothing that verdicts are made of.
    Nothing,
}

/// Rows in, verdicts out, in memory that does not grow.
///
/// ```
/// use crosstalk_detector::{Detector, Took};
/// use crosstalk_interference::{Settings, Subject, Topology};
/// use crosstalk_model::{Batch, SlotLength, StealRow};
/// use std::time::Duration;
///
/// let topology = Topology::one_cache(2);
/// let mut detector =
///     Detector::new(topology, Settings::live(30), SlotLength::MILLISECOND, Duration::from_secs(1));
/// let stolen = StealRow { slot_start_ns: 5_000_000, core: 0, covers_ns: 1_000_000, stolen_ns: 9 };
/// assert_eq!(detector.take(&Batch::new(vec![stolen]), |_| Subject(0)), Took::Aside);
/// assert!(detector.findings().verdicts.is_empty());
/// ```
#[derive(Debug)]
pub struct Detector {
    slot: SlotLength,
    assembly: Assembly,
    observer: Observer,
}

impl Detector {
    /// Nothing seen yet. Rows of a slot may come `horizon` after those of later ones.
    pub fn new(
        topology: Topology,
        settings: Settings,
        slot: SlotLength,
        horizon: Duration,
    ) -> Self {
        let assembly = Assembly::new(slot.nanos(), horizon.as_nanos() as u64);
        Self { slot, assembly, observer: Observer::new(topology, settings) }
    }

    /// Takes a batch. `subject` says whose each row is.
    pub fn take(&mut self, batch: &Batch, mut subject: impl FnMut(&TaskRow) -> Subject) -> Took {
        if let Some(rows) = batch.rows::<TaskRow>() {
            // Process 0 stands for those there was no room for.
            for row in rows.iter().filter(|row| row.task.process.pid != 0) {
                let subject = subject(row);
                self.assembly.activity(row.slot_start_ns, activity(row, subject));
            }
            Took::Tasks
        } else if let Some(slots) = batch.rows::<SlotCoverage>() {
            for slot in slots.iter().filter(|slot| slot.lost > 0) {
                self.assembly.lost(slot.slot_start_ns);
            }
            Took::Slots
        } else if let Some(readings) = batch.rows::<ProbeReading>() {
            for reading in readings {
                // What is written back is slowed most by a stream; where lines cannot be flushed, latency has to do.
                let cost = reading.write_back_ns.or(reading.latency_ns);
                if let (Some(core), Some(cost)) = (reading.core, cost) {
                    self.assembly.burst(reading.slot_start_ns, Burst { core, cost });
                }
            }
            Took::Aside
        } else if let Some(rows) = batch.rows::<StealRow>() {
            for row in rows {
                for (at_ns, ns) in spread(row.slot_start_ns, row.covers_ns, row.stolen_ns) {
                    self.assembly.stolen(self.slot.floor(at_ns), row.core, ns);
                }
            }
            Took::Aside
        } else {
            Took::Nothing
        }
    }

    /// Somebody was stopped for its own quota.
    pub fn throttled(&mut self, slot_ns: u64, subject: Subject, ns: u64) {
        self.assembly.throttled(slot_ns, subject, ns);
    }

    /// Looks at every slot that is whole by now.
    pub fn hand_over(&mut self) {
        self.assembly.hand_over(&mut self.observer);
    }

    /// Who slowed whom in what is remembered.
    pub fn findings(&self) -> Findings {
        self.observer.findings()
    }

    /// The statistics behind, by victim.
    pub fn victims(&self) -> Vec<VictimBins<'_>> {
        self.observer.victims()
    }

    /// Rows and slots that came too late to count.
    pub const fn late(&self) -> u64 {
        self.assembly.late() + self.observer.late()
    }
}

/// What a row says of whoever it is about.
fn activity(row: &TaskRow, subject: Subject) -> Activity {
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

/// Which cores of a machine share what.
pub fn topology(cpu: &Cpu) -> Topology {
    Topology::of_cores(cpu.cores.iter().map(|core| CoreIds {
        id: core.id,
        package: core.package,
        core: core.core_id,
        cache: core.l3_id,
        memory: core.numa_node,
    }))
}
