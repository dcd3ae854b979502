//! The eBPF counters: what every process did on every core in every slot, and where it runs.
//!
//! Data sets: tasks, slots.

use crate::places::Places;
use crate::{Mode, Settings, Wired};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_counters::{Collector, Error, FrequencySource, Options, Readings, Totals};
use crosstalk_host::{Capability, CgroupHierarchy, Verdict, thread};
use crosstalk_model::metric::{
    CPU_UTIL, FREQ_MHZ, IPC, LLC_MPKI, PAGE_FAULTS, RUNQ_WAIT, SWITCHES,
};
use crosstalk_model::{Metric, Row, SlotCoverage, TaskRow, Total};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What its rows tell of the node and of every subject, once summed up.
pub const METRICS: &[Metric] =
    &[CPU_UTIL, IPC, FREQ_MHZ, LLC_MPKI, RUNQ_WAIT, SWITCHES, PAGE_FAULTS];

static ABOUT: About = About {
    name: "counters",
    datasets: &[TaskRow::DATASET, SlotCoverage::DATASET],
    metrics: METRICS,
    subjects: METRICS,
};

const BPF_SECONDS: Total = Total {
    family: "crosstalk_agent_bpf_run_seconds",
    help: "Time spent in the kernel programs: runs times their sampled mean time.",
};
const BPF_RUNS: Total =
    Total { family: "crosstalk_agent_bpf_runs", help: "Runs of the kernel programs." };
const LOST_ROWS: Total = Total {
    family: "crosstalk_agent_lost_rows",
    help: "Rows the kernel programs measured and the agent did not get.",
};

/// Asking the kernel what its programs cost takes as long as fetching what they measured on a quiet machine.
const TELL_COST: Duration = Duration::from_secs(1);

pub(crate) fn wire(settings: Settings) -> Wired {
    let fastest = Duration::from_nanos(settings.slot.nanos()).max(settings.sampling.shortest());
    Wired::new(&ABOUT, settings.counters.mode, fastest, |_| Counters { settings })
}

struct Counters {
    settings: Settings,
}

impl Counters {
    fn open(&self, out: &Outlet) -> Result<Collector, Capability> {
        let Settings { host, slot, counters, .. } = &self.settings;
        let options = Options {
            host: host.clone(),
            slot: *slot,
            clock: out.clock().clone(),
            tick: counters.tick,
            events: counters.events.clone(),
            runq: counters.runq,
            ring_bytes: counters.ring_bytes,
        };
        // What a machine lacks is absent, unless it was asked for by name.
        Collector::open(&options).map_err(|error| {
            let broke = matches!(error, Error::Kernel { .. }) || counters.mode == Mode::On;
            let verdict = if broke { Verdict::Failing } else { Verdict::Absent };
            Capability::of_error(ABOUT.name, verdict, &error)
        })
    }
}

impl Source for Counters {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        // Whoever else computes, the ring is emptied in time.
        thread::prefer();
        let broke = |error: Error| Capability::of_error(ABOUT.name, Verdict::Failing, &error);
        let mut collector = self.open(out)?;
        let settings = &self.settings;
        out.describe("counters", collector.counters());
        out.describe("tick", collector.tick());
        out.describe("freq_source", collector.frequency_source());
        out.describe("cgroup_hierarchy", CgroupHierarchy::find(&settings.host));
        collector.start().map_err(broke)?;
        let (capability, absent) = standing(&collector, out);
        out.stand(capability, absent);
        let mut run = Run {
            places: Places::new(&settings.host, &settings.inventory),
            reported: Totals::default(),
            reported_at: Instant::now(),
        };
        run.tell_cost(&collector, out);
        loop {
            let began = Instant::now();
            let readings = collector.poll().map_err(broke)?;
            run.deliver(readings, settings, out);
            if run.reported_at.elapsed() >= TELL_COST {
                run.tell_cost(&collector, out);
            }
            if out.pause(self.settings.fetch_every().saturating_sub(began.elapsed())) {
                run.deliver(collector.finish().map_err(broke)?, settings, out);
                run.tell_cost(&collector, out);
                return Ok(());
            }
        }
    }
}

/// What is counted and what is not, as the collector found it.
fn standing(collector: &Collector, out: &Outlet) -> (Capability, Vec<(&'static str, String)>) {
    let mut absent = Vec::new();
    let missing = |column: &str| {
        let status = collector.counters().iter().find(|status| status.column == column)?;
        status.absent_because.clone()
    };
    let mut need = |metric: &'static str, columns: &[&str]| {
        let why = columns.iter().find_map(|column| missing(column));
        absent.extend(why.map(|why| (metric, why)));
    };
    need("ipc", &["cycles", "instructions"]);
    need("llc_mpki", &["llc_misses", "instructions"]);
    if collector.frequency_source() == FrequencySource::None {
        absent.push(("freq_mhz", "no cycle counter and no cpufreq driver".to_owned()));
    }
    if absent.is_empty() {
        return (out.capability(Verdict::Ok, "eBPF with hardware counters"), absent);
    }
    let found = "eBPF without hardware counters: time, waits, switches and faults only";
    let fix = "expose the PMU to this machine, or read `crosstalk doctor`";
    (out.capability(Verdict::Limited, found).fix(fix), absent)
}

/// State from one start of the collector to its end.
struct Run {
    places: Places,
    /// What was already told, and when.
    reported: Totals,
    reported_at: Instant,
}

impl Run {
    fn deliver(&mut self, readings: Readings, settings: &Settings, out: &Outlet) {
        self.places.refresh();
        let mut rows = Vec::with_capacity(readings.tasks.len());
        for task in readings.tasks {
            let place = self.places.of(task.cgroup_id, task.process.pid);
            if settings.filter.keeps(task.process, place.path.as_deref()) {
                rows.push(TaskRow::new(task, Arc::clone(&place.placement)));
            }
        }
        // Slots last: who reads both has the tasks of a slot when it learns that the slot is whole.
        out.deliver_whole(rows, readings.slots);
    }

    fn tell_cost(&mut self, collector: &Collector, out: &Outlet) {
        self.reported_at = Instant::now();
        let (now, before) = (collector.totals(), self.reported);
        self.reported = now;
        let runs = now.events.saturating_sub(before.events);
        out.add(BPF_RUNS, runs as f64);
        let ns_per_run = collector.cost().ok().and_then(|cost| cost.ns_per_run);
        if let Some(ns) = ns_per_run {
            out.add(BPF_SECONDS, runs as f64 * ns * 1e-9);
        }
        let lost = |totals: &Totals| totals.lost_rows + totals.malformed;
        let lost = lost(&now).saturating_sub(lost(&before));
        out.add(LOST_ROWS, lost as f64);
        out.lost(TaskRow::DATASET.name, "kernel ring", lost);
        out.describe(
            "kernel_programs",
            json!({
                "produced_rows": now.produced_rows,
                "delivered_rows": now.delivered_rows,
                "lost_rows": now.lost_rows,
                "unplaced_lost_rows": now.unplaced_lost_rows,
                "after_end_rows": now.after_end_rows,
                "events": now.events,
                "merged_rows": now.merged_rows,
                "storage_failures": now.storage_failures,
                "unseen_switches": now.unseen_switches,
                "clock_step_ns": now.clock_step_ns,
                "ns_per_run": ns_per_run,
            }),
        );
    }
}
