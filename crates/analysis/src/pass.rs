//! One run, read once in slot order.

use crate::ordered::Ordered;
use crate::report::{Evidence, RunReport, Told, Unsaid};
use crate::subjects::{Identity, Subjects};
use crate::{Look, Question, SubjectKind};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, Int64Array, RecordBatch, StringArray};
use crosstalk_interference::{
    Activity, Burst, CorePlace, Findings, Observer, Settings, Slot, Subject, Topology,
};
use crosstalk_recording::{Metadata, Reader, Scan};
use serde_json::Value;
use std::cell::RefCell;

const TASKS: &[&str] = &[
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
const PLACES: &[&str] =
    &["container_id", "container_name", "pod_namespace", "pod_name", "workload"];

pub(crate) fn run(
    reader: &Reader,
    (node, run): (&str, &str),
    question: &Question,
    progress: &mut dyn FnMut(u64),
    look: Look<'_>,
) -> RunReport {
    let scan = |dataset: &str, columns: &[&str]| -> Scan<'_> {
        let ours = reader.scan(dataset).files(|file| file.node == node && file.run == run);
        let chosen = ours.columns(columns.iter().copied());
        question.time.clone().map_or(chosen.clone(), |time| chosen.between(time))
    };
    let by_name = question.subject != SubjectKind::Process;
    let columns = if by_name { [TASKS, PLACES].concat() } else { TASKS.to_vec() };
    let tasks = scan("tasks", &columns);
    let about = tasks.chosen().iter().find_map(|file| file.metadata().ok()).unwrap_or_default();
    let subjects = RefCell::new(Subjects::new(question.subject));
    let number = |who: &Identity<'_>| subjects.borrow_mut().number(who);
    let mut tasks = Ordered::new(tasks.pieces(), |batch, take| decode_tasks(batch, number, take));
    let slots = scan("slots", &["slot_start_ns", "lost"]);
    let mut lost = Ordered::new(slots.pieces(), decode_lost);
    let bursts = scan("probe", &["slot_start_ns", "core", "write_back_ns", "latency_ns"]);
    let mut probe = Ordered::new(bursts.pieces(), decode_probe);

    let mut report =
        RunReport { node: node.to_owned(), run: run.to_owned(), ..RunReport::default() };
    let length_ns = about.get("slot_ns").and_then(Value::as_u64).unwrap_or(1_000_000);
    let mut observer = Observer::new(topology(&about), Settings::recording());
    let mut told = 0;
    while let Some((start_ns, entries)) = tasks.next_until(u64::MAX) {
        let mut is_lossy = false;
        while let Some((slot_ns, _)) = lost.next_until(start_ns) {
            report.lossy_slots += 1;
            is_lossy |= slot_ns == start_ns;
        }
        let mut bursts: Vec<Burst> = Vec::new();
        while let Some((_, some)) = probe.next_until(start_ns) {
            bursts.extend(some);
        }
        observer.push(&Slot {
            start_ns,
            length_ns,
            lost: is_lossy,
            entries: &entries,
            bursts: &bursts,
            ..Slot::default()
        });
        if report.from_ns == 0 {
            report.from_ns = start_ns;
        }
        report.to_ns = start_ns + length_ns;
        progress(tasks.rows - told);
        told = tasks.rows;
    }
    (report.rows, report.late_rows) = (tasks.rows, tasks.late_rows);
    report.unread = [&*tasks.unread, &lost.unread, &probe.unread].concat();
    look(&observer, &|subject| subjects.borrow().name(subject).to_owned());
    conclude(&mut report, observer.findings(), &subjects.borrow());
    report
}

fn conclude(report: &mut RunReport, findings: Findings, subjects: &Subjects) {
    let name = |subject: &Subject| subjects.name(*subject).to_owned();
    report.verdicts = findings
        .verdicts
        .iter()
        .map(|v| Told {
            node: report.node.clone(),
            victim: name(&v.victim),
            aggressor: v.aggressors.iter().map(name).collect::<Vec<_>>().join(" + "),
            from_ns: v.from_ns,
            to_ns: v.to_ns,
            slowdown: v.slowdown,
            low: v.low,
            high: v.high,
            lost_seconds: v.lost_seconds,
            resource: v.resource.name(),
            signal: v.signal.name(),
            confidence: v.confidence,
            evidence: Evidence {
                bins: v.evidence.bins,
                exposure: v.evidence.exposure,
                effect_per_core: v.evidence.effect_per_core,
                t: v.evidence.t,
            },
        })
        .collect();
    report.cannot_tell = findings
        .cannot_tell
        .iter()
        .map(|c| Unsaid {
            victim: name(&c.victim),
            neighbours: c.neighbours.iter().map(name).collect(),
            because: c.because.words(),
        })
        .collect();
}

/// Which cores share what, as the recording says; where it does not, all share a cache.
fn topology(about: &Metadata) -> Topology {
    let cores = about.get("topology").and_then(|cpu| cpu.get("cores")?.as_array());
    let number = |core: &Value, key: &str| core[key].as_u64().unwrap_or(0) as u32;
    let mut places = Vec::new();
    for core in cores.into_iter().flatten() {
        let id = number(core, "id") as usize;
        let package = number(core, "package");
        let physical = match core["core_id"].as_u64() {
            Some(core_id) => package << 16 | core_id as u32,
            None => u32::MAX - id as u32,
        };
        let place = CorePlace {
            physical,
            cache: core["l3_id"].as_u64().map_or(package, |l3| l3 as u32),
            memory: number(core, "numa_node"),
        };
        // Cores that are offline have no place; nobody runs there.
        let alone = CorePlace { physical: u32::MAX / 2, cache: u32::MAX, memory: u32::MAX };
        if id < 4_096 {
            places.resize(places.len().max(id + 1), alone);
            places[id] = place;
        }
    }
    if places.is_empty() { Topology::one_cache(1_024) } else { Topology::new(places) }
}

fn ints<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a Int64Array> {
    batch.column_by_name(name)?.as_primitive_opt::<Int64Type>()
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a StringArray> {
    batch.column_by_name(name)?.as_string_opt::<i32>()
}

fn value(column: &Int64Array, row: usize) -> Option<u64> {
    column.is_valid(row).then(|| column.value(row).unsigned_abs())
}

fn decode_tasks(
    batch: &RecordBatch,
    number: impl Fn(&Identity<'_>) -> Subject,
    take: &mut dyn FnMut(u64, Activity),
) -> Option<()> {
    let int = |name: &str| ints(batch, name);
    let (slot, pid, start, core) =
        (int("slot_start_ns")?, int("pid")?, int("process_start_ns")?, int("core")?);
    let (on_cpu, wait, voluntary) =
        (int("on_cpu_ns")?, int("runq_wait_ns")?, int("voluntary_switches")?);
    let (cycles, instructions, misses, freq) =
        (int("cycles")?, int("instructions")?, int("llc_misses")?, int("freq_mhz")?);
    let comm = texts(batch, "comm")?;
    let places: Vec<Option<&StringArray>> = PLACES.iter().map(|name| texts(batch, name)).collect();
    // Rows come sorted by process, so the next row mostly has the same subject.
    let mut last: Option<(i64, i64, &str, Subject)> = None;
    for row in 0..batch.num_rows() {
        // The row that stands for processes beyond the kernel's table is nobody.
        if pid.value(row) == 0 {
            continue;
        }
        let (pid, start_ns, name) = (pid.value(row), start.value(row), comm.value(row));
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
                })
            }
        };
        last = Some((pid, start_ns, name, subject));
        let core = u32::try_from(core.value(row)).unwrap_or(u32::MAX);
        let activity = Activity {
            wait_ns: value(wait, row),
            voluntary_switches: u32::try_from(voluntary.value(row)).unwrap_or(0),
            cycles: value(cycles, row),
            instructions: value(instructions, row),
            llc_misses: value(misses, row),
            freq_mhz: value(freq, row).map(|mhz| mhz as u32),
            ..Activity::new(subject, core, on_cpu.value(row).unsigned_abs())
        };
        take(slot.value(row).unsigned_abs(), activity);
    }
    Some(())
}

fn decode_lost(batch: &RecordBatch, take: &mut dyn FnMut(u64, ())) -> Option<()> {
    let (slot, lost) = (ints(batch, "slot_start_ns")?, ints(batch, "lost")?);
    for row in (0..batch.num_rows()).filter(|row| lost.value(*row) > 0) {
        take(slot.value(row).unsigned_abs(), ());
    }
    Some(())
}

fn decode_probe(batch: &RecordBatch, take: &mut dyn FnMut(u64, Burst)) -> Option<()> {
    let (slot, core) = (ints(batch, "slot_start_ns")?, ints(batch, "core")?);
    let float = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<Float64Type>();
    let (write_back, latency) = (float("write_back_ns")?, float("latency_ns")?);
    // What is written back is slowed most by a stream; where lines cannot be flushed, latency has to do.
    let cost = if write_back.null_count() < batch.num_rows() { write_back } else { latency };
    for row in (0..batch.num_rows()).filter(|row| core.is_valid(*row) && cost.is_valid(*row)) {
        let core = u32::try_from(core.value(row)).unwrap_or(u32::MAX);
        take(slot.value(row).unsigned_abs(), Burst { core, cost: cost.value(row) });
    }
    Some(())
}
