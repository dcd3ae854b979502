//! Batches of a recording into what the core takes. A column that is missing or holds something else is named.

use crate::subjects::Identity;
use crate::waiting::Waiting;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_buffer::NullBuffer;
use crosstalk_interference::{Activity, Burst, Subject, spread};

/// What is read of `tasks`.
pub(crate) const TASKS: &[&str] = &[
    "slot_start_ns",
    "pid",
    "process_start_ns",
    "comm",
    "core",
    "freq_mhz",
    "cycles",
    "instructions",
    "llc_misses",
    "on_cpu_ns",
    "runq_wait_ns",
    "voluntary_switches",
];
/// What of it says where a process belongs.
pub(crate) const PLACES: &[&str] =
    &["container_id", "container_name", "pod_namespace", "pod_name", "workload"];
/// What is read of `slots`.
pub(crate) const SLOTS: &[&str] = &["slot_start_ns", LOST];
/// What of it says that rows of a slot were lost: hardly ever.
pub(crate) const LOST: &str = "lost";
/// What is read of `steal`.
pub(crate) const STEAL: &[&str] = &["slot_start_ns", "covers_ns", "core", "stolen_ns"];
/// What is read of `throttling`.
pub(crate) const THROTTLING: &[&str] = &["slot_start_ns", "cgroup_id", "throttled_ns"];
/// What of `tasks` joins it.
pub(crate) const CGROUP: &str = "cgroup_id";
/// What is read of `probe`.
pub(crate) const PROBE: &[&str] = &["slot_start_ns", "core", "write_back_ns", "latency_ns"];

pub(crate) fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, String> {
    batch.column_by_name(name).ok_or_else(|| format!("it has no column {name}"))
}

/// A column of whole numbers as it is.
pub(crate) fn int_array<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a Int64Array, String> {
    let column = column(batch, name)?;
    let kind = column.data_type();
    column
        .as_primitive_opt::<Int64Type>()
        .ok_or_else(|| format!("its column {name} holds {kind}, not whole numbers of 64 bits"))
}

fn ints<'a>(batch: &'a RecordBatch, name: &str) -> Result<Ints<'a>, String> {
    int_array(batch, name).map(Ints::of)
}

/// A column that older or smaller recordings may lack: then nothing of it was measured.
fn maybe_ints<'a>(batch: &'a RecordBatch, name: &str) -> Result<Option<Ints<'a>>, String> {
    batch.column_by_name(name).map(|_| ints(batch, name)).transpose()
}

pub(crate) fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a StringArray, String> {
    let column = column(batch, name)?;
    let kind = column.data_type();
    column.as_string_opt::<i32>().ok_or_else(|| format!("its column {name} holds {kind}, not text"))
}

/// A column of numbers, taken apart: every row is asked for every one of them.
#[derive(Clone, Copy)]
struct Ints<'a> {
    values: &'a [i64],
    /// None if every row has a value.
    nulls: Option<&'a NullBuffer>,
}

impl<'a> Ints<'a> {
    fn of(column: &'a Int64Array) -> Self {
        let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
        Self { values: column.values(), nulls }
    }

    /// A value that was measured and can be: nothing here is ever negative.
    #[inline(always)]
    fn get(self, row: usize) -> Option<u64> {
        let value = self.values[row];
        (value >= 0 && self.nulls.is_none_or(|nulls| nulls.is_valid(row))).then_some(value as u64)
    }
}

#[inline(always)]
fn maybe(column: Option<Ints<'_>>, row: usize) -> Option<u64> {
    column.and_then(|column| column.get(row))
}

/// Rows of `tasks`. A row without a slot, a process or a core is nobody's, and left out.
pub(crate) fn tasks<T: From<Activity>>(
    batch: &RecordBatch,
    mut number: impl FnMut(&Identity<'_>) -> Subject,
    mut take: impl FnMut(u64, T),
) -> Result<(), String> {
    let (slot, pid, start, core) = (
        ints(batch, "slot_start_ns")?,
        ints(batch, "pid")?,
        ints(batch, "process_start_ns")?,
        ints(batch, "core")?,
    );
    let on_cpu = ints(batch, "on_cpu_ns")?;
    let maybe_ints = |name| maybe_ints(batch, name);
    let (wait, voluntary) = (maybe_ints("runq_wait_ns")?, maybe_ints("voluntary_switches")?);
    let (cycles, instructions, misses, freq) = (
        maybe_ints("cycles")?,
        maybe_ints("instructions")?,
        maybe_ints("llc_misses")?,
        maybe_ints("freq_mhz")?,
    );
    let cgroup = maybe_ints(CGROUP)?;
    let comm = texts(batch, "comm")?;
    let places: Vec<Option<&StringArray>> =
        PLACES.iter().map(|name| texts(batch, name).ok()).collect();
    // Rows come sorted by process, so the next row mostly has the same subject.
    let mut last: Option<(i64, i64, &str, Subject)> = None;
    for row in 0..batch.num_rows() {
        let (Some(slot_ns), Some(core)) = (slot.get(row), core.get(row)) else { continue };
        let (pid, start_ns, name) = (pid.values[row], start.values[row], comm.value(row));
        // The row that stands for processes beyond the kernel's table is nobody.
        if pid <= 0 {
            continue;
        }
        let subject = match last {
            Some((p, s, n, subject)) if (p, s, n) == (pid, start_ns, name) => subject,
            _ => {
                let place =
                    |at: usize| places[at].filter(|c| c.is_valid(row)).map(|c| c.value(row));
                number(&Identity {
                    pid,
                    start_ns,
                    comm: name,
                    container_id: place(0),
                    container_name: place(1),
                    pod_namespace: place(2),
                    pod_name: place(3),
                    workload: place(4),
                    cgroup_id: maybe(cgroup, row),
                })
            }
        };
        last = Some((pid, start_ns, name, subject));
        let activity = Activity {
            wait_ns: maybe(wait, row),
            voluntary_switches: maybe(voluntary, row).map_or(0, |n| n.min(u32::MAX.into()) as u32),
            cycles: maybe(cycles, row),
            instructions: maybe(instructions, row),
            llc_misses: maybe(misses, row),
            freq_mhz: maybe(freq, row).and_then(|mhz| mhz.try_into().ok()),
            ..Activity::new(
                subject,
                core.try_into().unwrap_or(u32::MAX),
                on_cpu.get(row).unwrap_or(0),
            )
        };
        take(slot_ns, activity.into());
    }
    Ok(())
}

/// Slots of which rows were lost.
pub(crate) fn lost(batch: &RecordBatch, rows: &mut Waiting<()>) -> Result<(), String> {
    let (slot, lost) = (ints(batch, "slot_start_ns")?, ints(batch, LOST)?);
    for row in (0..batch.num_rows()).filter(|row| lost.values[*row] > 0) {
        if let Some(slot_ns) = slot.get(row) {
            rows.push(slot_ns, ());
        }
    }
    // How far reading has come is told by those of which nothing was lost as well.
    let newest = slot.values.iter().max().copied();
    rows.reach(newest.and_then(|ns| ns.try_into().ok()).unwrap_or(0));
    Ok(())
}

/// Bursts of the memory probe.
pub(crate) fn probe(batch: &RecordBatch, rows: &mut Waiting<Burst>) -> Result<(), String> {
    let (slot, core) = (ints(batch, "slot_start_ns")?, ints(batch, "core")?);
    let float = |name: &str| {
        let wrong = || format!("its column {name} holds no numbers with a point");
        column(batch, name)?.as_primitive_opt::<Float64Type>().ok_or_else(wrong)
    };
    let (write_back, latency) = (float("write_back_ns")?, float("latency_ns")?);
    // What is written back is slowed most by a stream; where lines cannot be flushed, latency has to do.
    let cost = if write_back.null_count() < batch.num_rows() { write_back } else { latency };
    for row in (0..batch.num_rows()).filter(|row| cost.is_valid(*row)) {
        if let (Some(slot_ns), Some(core)) = (slot.get(row), core.get(row)) {
            let core = core.try_into().unwrap_or(u32::MAX);
            rows.push(slot_ns, Burst { core, cost: cost.value(row) });
        }
    }
    Ok(())
}

/// Time stolen from cores, over the time each row tells of.
pub(crate) fn steal(batch: &RecordBatch, rows: &mut Waiting<(u32, u64)>) -> Result<(), String> {
    let (slot, covers) = (ints(batch, "slot_start_ns")?, ints(batch, "covers_ns")?);
    let (core, stolen) = (ints(batch, "core")?, ints(batch, "stolen_ns")?);
    for row in 0..batch.num_rows() {
        let (Some(slot_ns), Some(covers_ns)) = (slot.get(row), covers.get(row)) else {
            continue;
        };
        let (Some(core), Some(stolen_ns)) = (core.get(row), stolen.get(row)) else {
            continue;
        };
        let core = core.try_into().unwrap_or(u32::MAX);
        for (at_ns, ns) in spread(slot_ns, covers_ns, stolen_ns) {
            rows.push(at_ns, (core, ns));
        }
    }
    Ok(())
}

/// Time that cgroups were stopped for their quota.
pub(crate) fn throttling(
    batch: &RecordBatch,
    rows: &mut Waiting<(u64, u64)>,
) -> Result<(), String> {
    let slot = ints(batch, "slot_start_ns")?;
    let (cgroup, throttled) = (ints(batch, CGROUP)?, ints(batch, "throttled_ns")?);
    for row in 0..batch.num_rows() {
        if let (Some(slot_ns), Some(cgroup_id), Some(ns)) =
            (slot.get(row), cgroup.get(row), throttled.get(row))
        {
            rows.push(slot_ns, (cgroup_id, ns));
        }
    }
    Ok(())
}
