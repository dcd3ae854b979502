//! Who was busy: the closing table and its JSON.

use super::Args;
use super::cache::CacheSums;
use super::probe::ProbeSums;
use crate::quantity::{size, thousands, time};
use crate::table::{Align, render};
use crosstalk_counters::{Collector, Cost, OwnUsage, Totals};
use crosstalk_identity::Cgroup;
use crosstalk_model::{Comm, ProcessId, SlotCoverage, TaskReading};
use crosstalk_recording::FinishedFile;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Sums by process. Beyond this many, newcomers share one line.
const MOST_PROCESSES: usize = 20_000;

#[derive(Default)]
pub(super) struct Summary {
    pub(super) rows: u64,
    pub(super) slots: u64,
    pub(super) lost: u64,
    lossy_slots: u64,
    processes: HashMap<ProcessId, Process>,
    pub(super) cache: CacheSums,
    pub(super) probe: ProbeSums,
}

#[derive(Clone)]
struct Process {
    comm: Comm,
    container: Option<Arc<str>>,
    on_cpu_ns: u64,
    runq_wait_ns: Option<u64>,
    switches: u64,
    page_faults: u64,
    cycles: Option<u64>,
    instructions: Option<u64>,
    llc_misses: Option<u64>,
}

impl Summary {
    pub(super) fn add(
        &mut self,
        tasks: &[TaskReading],
        slots: &[SlotCoverage],
        places: &HashMap<u64, Arc<Cgroup>>,
    ) {
        self.rows += tasks.len() as u64;
        self.slots += slots.len() as u64;
        for slot in slots.iter().filter(|slot| slot.lost > 0) {
            self.lossy_slots += 1;
            self.lost += u64::from(slot.lost);
        }
        for task in tasks {
            let full = self.processes.len() >= MOST_PROCESSES;
            let other = ProcessId { pid: 0, start_ns: 0 };
            let known = !full || self.processes.contains_key(&task.process);
            let (id, comm) = if known { (task.process, task.comm) } else { (other, Comm::OTHER) };
            let sum = self.processes.entry(id).or_insert_with(|| Process::new(comm));
            sum.add(task);
            // The name it had last: a process is born with its parent's.
            sum.comm = comm;
            if sum.container.is_none() {
                sum.container = places[&task.cgroup_id].placement.container_id.clone();
            }
        }
    }

    fn busiest(&self, top: usize) -> Vec<(&ProcessId, &Process)> {
        let mut all: Vec<_> = self.processes.iter().collect();
        all.sort_unstable_by_key(|(id, p)| (std::cmp::Reverse(p.on_cpu_ns), **id));
        all.truncate(top);
        all
    }
}

impl Process {
    fn new(comm: Comm) -> Self {
        Self {
            comm,
            container: None,
            on_cpu_ns: 0,
            runq_wait_ns: None,
            switches: 0,
            page_faults: 0,
            cycles: None,
            instructions: None,
            llc_misses: None,
        }
    }

    fn add(&mut self, task: &TaskReading) {
        self.on_cpu_ns += task.on_cpu_ns;
        self.switches += u64::from(task.switches);
        self.page_faults += u64::from(task.page_faults);
        add(&mut self.runq_wait_ns, task.runq_wait_ns);
        add(&mut self.cycles, task.cycles);
        add(&mut self.instructions, task.instructions);
        add(&mut self.llc_misses, task.llc_misses);
    }
}

/// Absent plus a value is the value; absent plus absent stays absent.
fn add(sum: &mut Option<u64>, value: Option<u64>) {
    if let Some(value) = value {
        *sum = Some(sum.unwrap_or(0) + value);
    }
}

/// Everything the recording has to say when it is over.
pub(super) struct Report {
    summary: Summary,
    files: Vec<FinishedFile>,
    took: Duration,
    totals: Totals,
    cost: Cost,
    own: OwnUsage,
}

impl Report {
    pub(super) fn new(
        summary: Summary,
        files: Vec<FinishedFile>,
        collector: &Collector,
        took: Duration,
        before: OwnUsage,
    ) -> Self {
        Self {
            summary,
            files,
            took,
            totals: collector.totals(),
            cost: collector.cost().unwrap_or_default(),
            own: OwnUsage::now().since(before),
        }
    }

    pub(super) fn print(&self, args: &Args) {
        if args.json {
            println!("{:#}", self.json(args.top));
        } else if !args.quiet {
            print!("{}", self.text(args.top));
        }
    }

    /// Time spent in the kernel programs, from the sampled mean.
    fn bpf_ns(&self) -> Option<f64> {
        self.cost.ns_per_run.map(|ns| ns * self.totals.events as f64)
    }

    fn text(&self, top: usize) -> String {
        let seconds = self.took.as_secs_f64();
        let counted = self.summary.processes.values().any(|p| p.cycles.is_some());
        let mut header = vec![
            ("process", Align::Left),
            ("pid", Align::Right),
            ("cpu", Align::Right),
            ("on cpu", Align::Right),
            ("waited", Align::Right),
            ("switches/s", Align::Right),
            ("faults", Align::Right),
        ];
        if counted {
            header.extend([("ipc", Align::Right), ("llc misses", Align::Right)]);
        }
        let cache = self.summary.cache.status.as_ref().map(|_| &self.summary.cache);
        if cache.is_some() {
            header.extend([("llc held", Align::Right), ("memory/s", Align::Right)]);
        }
        header.push(("container", Align::Left));
        let rows: Vec<Vec<String>> = self
            .summary
            .busiest(top)
            .into_iter()
            .map(|(id, p)| {
                let absent = || "-".to_owned();
                let mut row = vec![
                    printable(&p.comm.to_str()),
                    id.pid.to_string(),
                    format!("{:.1} %", p.on_cpu_ns as f64 / 1e7 / seconds),
                    time(p.on_cpu_ns),
                    p.runq_wait_ns.map_or_else(absent, time),
                    thousands((p.switches as f64 / seconds).round() as u64),
                    thousands(p.page_faults),
                ];
                if counted {
                    row.push(ipc(p).map_or_else(absent, |ipc| format!("{ipc:.2}")));
                    row.push(p.llc_misses.map_or_else(absent, thousands));
                }
                if let Some(cache) = cache {
                    row.push(cache.occupancy(id).map_or_else(absent, size));
                    let per_second = |bytes: u64| size((bytes as f64 / seconds) as u64);
                    row.push(cache.total_bytes(id).map_or_else(absent, per_second));
                }
                let short = |id: &Arc<str>| id.chars().take(12).collect();
                row.push(p.container.as_ref().map_or_else(absent, short));
                row
            })
            .collect();
        let mut text = render(&header, &rows);
        let others = self.summary.processes.len().saturating_sub(rows.len());
        if others > 0 {
            text += &format!("... and {others} more\n");
        }
        text += &format!("\n{}\n", self.closing(seconds));
        if self.totals.clock_step_ns != 0 {
            let step = time(self.totals.clock_step_ns.unsigned_abs());
            text += &format!(
                "the clock was set by {step} meanwhile; slots keep the time of the start\n"
            );
        }
        let (cache, probe) = (&self.summary.cache, &self.summary.probe);
        for line in [cache.closing(seconds), probe.closing(seconds)].into_iter().flatten() {
            text += &format!("{line}\n");
        }
        for file in &self.files {
            let name = file.path.display();
            text += &format!("  {name}  {} rows, {}\n", thousands(file.rows), size(file.bytes));
        }
        text
    }

    fn closing(&self, seconds: f64) -> String {
        let s = &self.summary;
        let lost = if s.lost == 0 {
            "nothing lost".to_owned()
        } else {
            format!("{} rows lost in {} slots (see slots)", thousands(s.lost), s.lossy_slots)
        };
        let bpf = self.bpf_ns().map_or_else(String::new, |ns| {
            format!(", {:.2} % of one core in the kernel programs", ns / 1e7 / seconds)
        });
        format!(
            "{} rows of {} processes in {seconds:.1} s, {lost}; cost {:.2} % of one core here{bpf}",
            thousands(s.rows),
            thousands(s.processes.len() as u64),
            self.own.cpu.as_secs_f64() * 100.0 / seconds,
        )
    }

    fn json(&self, top: usize) -> Value {
        let busiest: Vec<Value> = self
            .summary
            .busiest(top)
            .into_iter()
            .map(|(id, p)| {
                json!({
                    "comm": p.comm.to_str(),
                    "pid": id.pid,
                    "process_start_ns": id.start_ns,
                    "container_id": p.container,
                    "on_cpu_ns": p.on_cpu_ns,
                    "runq_wait_ns": p.runq_wait_ns,
                    "switches": p.switches,
                    "page_faults": p.page_faults,
                    "cycles": p.cycles,
                    "instructions": p.instructions,
                    "llc_misses": p.llc_misses,
                    "llc_occupancy_bytes": self.summary.cache.occupancy(id),
                    "mbm_total_bytes": self.summary.cache.total_bytes(id),
                    "mbm_local_bytes": self.summary.cache.local_bytes(id),
                })
            })
            .collect();
        let files: Vec<Value> = self
            .files
            .iter()
            .map(|f| {
                json!({
                    "dataset": f.dataset.name(),
                    "path": f.path,
                    "rows": f.rows,
                    "bytes": f.bytes,
                })
            })
            .collect();
        json!({
            "seconds": self.took.as_secs_f64(),
            "rows": self.summary.rows,
            "slots": self.summary.slots,
            "lost_rows": self.summary.lost,
            "lossy_slots": self.summary.lossy_slots,
            "processes": self.summary.processes.len(),
            "busiest": busiest,
            "files": files,
            "cache": self.summary.cache.json(),
            "probe": self.summary.probe.json(),
            "kernel": {
                "produced_rows": self.totals.produced_rows,
                "delivered_rows": self.totals.delivered_rows,
                "lost_rows": self.totals.lost_rows,
                "after_end_rows": self.totals.after_end_rows,
                "events": self.totals.events,
                "merged_rows": self.totals.merged_rows,
                "storage_failures": self.totals.storage_failures,
                "unseen_switches": self.totals.unseen_switches,
                "clock_step_ns": self.totals.clock_step_ns,
                "ns_per_run": self.cost.ns_per_run,
            },
            "own": {
                "cpu_seconds": self.own.cpu.as_secs_f64(),
                "max_rss_bytes": self.own.max_rss_bytes,
            },
        })
    }
}

fn ipc(p: &Process) -> Option<f64> {
    match (p.instructions, p.cycles) {
        (Some(instructions), Some(cycles)) if cycles > 0 => {
            Some(instructions as f64 / cycles as f64)
        }
        _ => None,
    }
}

/// A process may name itself with control characters; a terminal must not obey them.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
