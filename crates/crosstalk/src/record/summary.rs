//! Who was busy: sums over a recording, read back from its files.

use anyhow::Result;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, Int64Array, RecordBatch, StringArray};
use crosstalk_model::ProcessId;
use crosstalk_recording::{Error, Reader, Scan};
use std::collections::{BTreeMap, HashMap};

/// Sums by process. Beyond this many, newcomers share one line.
const MOST_PROCESSES: usize = 20_000;

/// Sums of one run.
#[derive(Default)]
pub(super) struct Summary {
    pub(super) rows: u64,
    pub(super) slots: u64,
    pub(super) lost: u64,
    pub(super) lossy_slots: u64,
    pub(super) processes: HashMap<ProcessId, Process>,
    pub(super) cache_rows: u64,
    pub(super) cache_states: BTreeMap<String, u64>,
    pub(super) probe_rows: u64,
    pub(super) probe_judged: u64,
    pub(super) probe_contended: u64,
    /// Bursts by why memory's state was unknown.
    pub(super) probe_blind: BTreeMap<String, u64>,
    /// Files that could not be read back, with the reason.
    pub(super) unread: Vec<String>,
}

/// Sums of one process.
#[derive(Default)]
pub(super) struct Process {
    pub(super) comm: String,
    pub(super) container: Option<String>,
    pub(super) on_cpu_ns: u64,
    pub(super) runq_wait_ns: Option<u64>,
    pub(super) switches: u64,
    pub(super) page_faults: u64,
    pub(super) cycles: Option<u64>,
    pub(super) instructions: Option<u64>,
    pub(super) llc_misses: Option<u64>,
    /// Occupancy and number of readings by L3 cache.
    occupancy: BTreeMap<i64, (u64, u64)>,
    pub(super) mbm_total_bytes: Option<u64>,
    pub(super) mbm_local_bytes: Option<u64>,
}

impl Process {
    /// The mean of what it held, over its readings, all L3 caches together.
    pub(super) fn held_bytes(&self) -> Option<u64> {
        let means = self.occupancy.values().map(|(held, times)| held / times.max(&1));
        (!self.occupancy.is_empty()).then(|| means.sum())
    }

    pub(super) fn ipc(&self) -> Option<f64> {
        let (instructions, cycles) = self.instructions.zip(self.cycles)?;
        (cycles > 0).then(|| instructions as f64 / cycles as f64)
    }
}

impl Summary {
    /// Reads the files of `run`.
    pub(super) fn read(reader: &Reader, run: &str) -> Result<Self, Error> {
        let mut sums = Self::default();
        let scan = |dataset: &str, columns: &[&str]| {
            reader.scan(dataset).columns(columns.iter().copied()).files(|file| file.run == run)
        };
        sums.each(&scan("tasks", TASKS), Self::tasks);
        sums.each(&scan("slots", &["lost"]), Self::slots);
        sums.each(&scan("cache", CACHE), Self::cache);
        sums.each(&scan("probe", &["state", "blind"]), Self::probe);
        Ok(sums)
    }

    fn each(&mut self, scan: &Scan<'_>, add: fn(&mut Self, &RecordBatch) -> Option<()>) {
        for piece in scan.pieces() {
            match piece {
                Ok(piece) => {
                    if add(self, &piece.batch).is_none() {
                        self.unread.push(format!("{}: a column is missing", piece.file.path));
                    }
                }
                Err(error) => self.unread.push(error.to_string()),
            }
        }
    }

    /// The sums of a process. Rows come sorted by process, so the next row mostly has the same.
    fn process(&mut self, id: ProcessId) -> &mut Process {
        let other = ProcessId { pid: 0, start_ns: 0 };
        let full = self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&id);
        self.processes.entry(if full { other } else { id }).or_default()
    }

    fn tasks(&mut self, batch: &RecordBatch) -> Option<()> {
        let int = |name: &str| ints(batch, name);
        let (pid, start, on_cpu) = (int("pid")?, int("process_start_ns")?, int("on_cpu_ns")?);
        let (wait, switches, faults) =
            (int("runq_wait_ns")?, int("switches")?, int("page_faults")?);
        let (cycles, instructions, misses) =
            (int("cycles")?, int("instructions")?, int("llc_misses")?);
        let (comm, id, name) =
            (texts(batch, "comm")?, texts(batch, "container_id")?, texts(batch, "container_name")?);
        self.rows += batch.num_rows() as u64;
        for row in 0..batch.num_rows() {
            let process = self.process(process_id(pid, start, row));
            process.on_cpu_ns += on_cpu.value(row).unsigned_abs();
            process.switches += switches.value(row).unsigned_abs();
            process.page_faults += faults.value(row).unsigned_abs();
            add(&mut process.runq_wait_ns, wait, row);
            add(&mut process.cycles, cycles, row);
            add(&mut process.instructions, instructions, row);
            add(&mut process.llc_misses, misses, row);
            // The name it had last: a process is born with its parent's.
            if process.comm != comm.value(row) {
                comm.value(row).clone_into(&mut process.comm);
            }
            if process.container.is_none() {
                let named = [name, id].into_iter().find(|column| column.is_valid(row));
                process.container = named.map(|column| column.value(row).to_owned());
            }
        }
        Some(())
    }

    fn slots(&mut self, batch: &RecordBatch) -> Option<()> {
        let lost = ints(batch, "lost")?;
        self.slots += batch.num_rows() as u64;
        for rows in lost.values().iter().filter(|rows| **rows > 0) {
            self.lossy_slots += 1;
            self.lost += rows.unsigned_abs();
        }
        Some(())
    }

    fn cache(&mut self, batch: &RecordBatch) -> Option<()> {
        let int = |name: &str| ints(batch, name);
        let (pid, start, domain) = (int("pid")?, int("process_start_ns")?, int("l3_domain")?);
        let (held, total, local) =
            (int("llc_occupancy_bytes")?, int("mbm_total_bytes")?, int("mbm_local_bytes")?);
        let (scope, state) = (texts(batch, "scope")?, texts(batch, "state")?);
        self.cache_rows += batch.num_rows() as u64;
        for row in 0..batch.num_rows() {
            *self.cache_states.entry(state.value(row).to_owned()).or_default() += 1;
            // Values that several share, or that a former owner left, are nobody's.
            if scope.value(row) != "process" || state.value(row) == "stale" {
                continue;
            }
            let process = self.process(process_id(pid, start, row));
            if held.is_valid(row) {
                let (sum, times) = process.occupancy.entry(domain.value(row)).or_default();
                *sum += held.value(row).unsigned_abs();
                *times += 1;
            }
            add(&mut process.mbm_total_bytes, total, row);
            add(&mut process.mbm_local_bytes, local, row);
        }
        Some(())
    }

    fn probe(&mut self, batch: &RecordBatch) -> Option<()> {
        let (states, blind) = (texts(batch, "state")?, texts(batch, "blind")?);
        self.probe_rows += batch.num_rows() as u64;
        for state in states.iter().flatten() {
            self.probe_judged += u64::from(state != "unknown");
            self.probe_contended += u64::from(state == "contended");
        }
        for why in blind.iter().flatten() {
            *self.probe_blind.entry(why.to_owned()).or_default() += 1;
        }
        Some(())
    }

    pub(super) fn busiest(&self, top: usize) -> Vec<(&ProcessId, &Process)> {
        let mut all: Vec<_> = self.processes.iter().filter(|(_, p)| p.on_cpu_ns > 0).collect();
        all.sort_unstable_by_key(|(id, p)| (std::cmp::Reverse(p.on_cpu_ns), **id));
        all.truncate(top);
        all
    }
}

const TASKS: &[&str] = &[
    "pid",
    "process_start_ns",
    "comm",
    "cycles",
    "instructions",
    "llc_misses",
    "on_cpu_ns",
    "runq_wait_ns",
    "switches",
    "page_faults",
    "container_id",
    "container_name",
];
const CACHE: &[&str] = &[
    "pid",
    "process_start_ns",
    "l3_domain",
    "llc_occupancy_bytes",
    "mbm_total_bytes",
    "mbm_local_bytes",
    "scope",
    "state",
];

fn ints<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a Int64Array> {
    batch.column_by_name(name)?.as_primitive_opt::<Int64Type>()
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a StringArray> {
    batch.column_by_name(name)?.as_string_opt::<i32>()
}

fn process_id(pid: &Int64Array, start: &Int64Array, row: usize) -> ProcessId {
    let pid = u32::try_from(pid.value(row)).unwrap_or_default();
    ProcessId { pid, start_ns: start.value(row).unsigned_abs() }
}

/// Absent plus a value is the value; absent plus absent stays absent.
fn add(sum: &mut Option<u64>, values: &Int64Array, row: usize) {
    if values.is_valid(row) {
        *sum = Some(sum.unwrap_or(0) + values.value(row).unsigned_abs());
    }
}
