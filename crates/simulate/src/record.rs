//! Nodes into recordings, one after the other, in memory that does not grow.

use crate::labels::Labels;
use crate::{Error, Machine, Node, Random, SLOT_NS, Scenario};
use crosstalk_model::{ProbeReading, Row, SlotCoverage, StealRow, Table, TaskRow};
use crosstalk_recording::{
    FinishedFile, Format, Layout, Metadata, Recording, RecordingOptions, Run,
};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Slots that are written at once, as the real recorder does.
const FLUSH_SLOTS: u64 = 500;
/// A line of labels speaks of this much time.
const WINDOW_SLOTS: u64 = 10_000;
/// A file is closed at this size or age, so that finishing it takes little memory.
const ROTATE_BYTES: u64 = 256 << 20;
const ROTATE_AFTER: Duration = Duration::from_secs(600);

/// What to write.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder; it must hold no recording.
    pub out: PathBuf,
    /// Machines.
    pub nodes: u32,
    /// How much of their time.
    pub duration: Duration,
    /// What fixes everything that is random.
    pub seed: u64,
    /// The first slot, Unix nanoseconds.
    pub start_ns: u64,
    /// CSV or Parquet.
    pub format: Format,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Rows so far.
    pub rows: u64,
    /// Share of all that is to be simulated.
    pub share: f64,
}

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The files, oldest first.
    pub files: Vec<FinishedFile>,
    /// Rows of tasks.
    pub task_rows: u64,
    /// Rows of all data sets.
    pub rows: u64,
    /// Lines of labels.
    pub labels: u64,
}

/// Simulates every node and writes what it measures, with the labels beside it.
///
/// # Errors
/// The folder holds a recording already, or something cannot be written.
pub fn record(
    scenario: &Scenario,
    options: &Options,
    mut progress: impl FnMut(Progress),
) -> Result<Written, Error> {
    let mut written = Written::default();
    let mut seeds = Random::new(options.seed);
    for number in 0..options.nodes {
        let node = Node::new(scenario, seeds.bits(), options.start_ns);
        let name = format!("sim-{number:04}");
        let done = f64::from(number);
        let mut progress = |rows, share: f64| {
            progress(Progress { rows, share: (done + share) / f64::from(options.nodes.max(1)) });
        };
        one(node, &name, number > 0, scenario, options, &mut written, &mut progress)?;
    }
    Ok(written)
}

fn one(
    mut node: Node,
    name: &str,
    append: bool,
    scenario: &Scenario,
    options: &Options,
    written: &mut Written,
    progress: &mut dyn FnMut(u64, f64),
) -> Result<(), Error> {
    let to = RecordingOptions {
        out: options.out.clone(),
        append,
        format: options.format,
        layout: Layout::Flat,
        rotate_bytes: ROTATE_BYTES,
        rotate_after: ROTATE_AFTER,
    };
    let run = Run::new(name, options.start_ns);
    let (mut recording, _) = Recording::create(to, run, about(scenario, options))?;
    let datasets =
        [TaskRow::DATASET, SlotCoverage::DATASET, ProbeReading::DATASET, StealRow::DATASET];
    for dataset in datasets {
        recording.open(dataset, options.start_ns)?;
    }
    let mut labels = Labels::create(&options.out, name, options.start_ns)?;
    let slots = (options.duration.as_nanos() as u64).div_ceil(SLOT_NS);
    let at = |slot: u64| options.start_ns + slot * SLOT_NS;
    let (mut tasks, mut cores, mut probe) = (Vec::new(), Vec::new(), Vec::new());
    let mut steal = Steal::new(scenario.machine.cores);
    let mut window_from = 0;
    for slot in 1..=slots {
        let measured = node.step();
        cores.extend_from_slice(&measured.slots);
        probe.extend_from_slice(&measured.probe);
        steal.take(&measured.stolen, at(slot - 1));
        let readings = measured.tasks.len();
        tasks.extend(measured.tasks.iter().copied());
        written.task_rows += readings as u64;
        if slot.is_multiple_of(FLUSH_SLOTS) || slot == slots {
            let rows: Vec<TaskRow> = tasks
                .drain(..)
                .map(|(at, reading)| TaskRow::new(reading, node.place(at).clone()))
                .collect();
            written.rows += (rows.len() + cores.len() + probe.len() + steal.rows.len()) as u64;
            recording.write(Table::of(rows.iter().collect()))?;
            recording.write(Table::of(cores.iter().collect()))?;
            recording.write(Table::of(probe.iter().collect()))?;
            recording.write(Table::of(steal.rows.iter().collect()))?;
            steal.rows.clear();
            cores.clear();
            probe.clear();
            progress(written.rows, slot as f64 / slots as f64);
        }
        if slot.is_multiple_of(WINDOW_SLOTS) || slot == slots {
            labels.window(&mut node, (at(window_from), at(slot)))?;
            window_from = slot;
        }
    }
    written.files.extend(recording.finish()?);
    written.labels += labels.finish(&node, at(slots))?;
    Ok(())
}

/// What is stolen, read as rarely as the real source does.
struct Steal {
    /// By core, since the last reading.
    sums: Vec<u64>,
    slots: u64,
    rows: Vec<StealRow>,
}

impl Steal {
    const EVERY_SLOTS: u64 = 20;

    fn new(cores: u32) -> Self {
        Self { sums: vec![0; cores as usize], slots: 0, rows: Vec::new() }
    }

    fn take(&mut self, stolen: &[(u32, u64)], slot_start_ns: u64) {
        for &(core, ns) in stolen {
            self.sums[core as usize] += ns;
        }
        self.slots += 1;
        if self.slots < Self::EVERY_SLOTS {
            return;
        }
        let covers_ns = self.slots * SLOT_NS;
        self.slots = 0;
        for (core, sum) in self.sums.iter_mut().enumerate() {
            let (core, stolen_ns) = (core as u32, std::mem::take(sum));
            self.rows.push(StealRow { slot_start_ns, covers_ns, core, stolen_ns });
        }
    }
}

fn about(scenario: &Scenario, options: &Options) -> Metadata {
    Metadata::default()
        .with("crosstalk_version", env!("CARGO_PKG_VERSION"))
        .with("simulated", json!({ "seed": options.seed, "scenario": scenario }))
        .with("slot_ns", SLOT_NS)
        .with("topology", topology(&scenario.machine))
}

/// Which cores share what, as recordings of real machines say it.
fn topology(machine: &Machine) -> Value {
    let cores = (0..machine.cores).map(|id| {
        json!({
            "id": id,
            "package": id / machine.cores_per_memory.max(1),
            "core_id": id / machine.threads_per_core.max(1),
            "l3_id": id / machine.cores_per_cache.max(1),
            "numa_node": id / machine.cores_per_memory.max(1),
        })
    });
    json!({ "model": "simulated", "virtualized": false, "cores": cores.collect::<Vec<_>>() })
}
