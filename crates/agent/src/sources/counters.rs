//! The eBPF counters: slots into samples of the node, and of every process, container and pod.
//!
//! Metrics: those of `aggregate`; which of them the machine can count is in the verdict.

use super::aggregate::{SUBJECT_METRICS, Sums};
use super::cutter::{Cut, Cutter};
use super::pace::Pace;
use super::{Failure, Source};
use crate::clock::{monotonic_ns, thread_cpu};
use crate::config::{Config, Mode};
use crate::metric::{Metric, Total};
use crate::recorder::Recorder;
use crate::status::{Report, SourceState, Verdict};
use crate::subjects::{Labels, SubjectKey, SubjectSample};
use crate::supervise::Stop;
use crosstalk_counters::{Collector, Error, FrequencySource, Options, Readings};
use crosstalk_host::{Cpu, HostRoot};
use crosstalk_identity::Cgroups;
use crosstalk_model::{Comm, ProcessId, SlotLength, TaskReading};
use crosstalk_resctrl::prefer_this_thread;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// What it measures of the node.
pub(super) const METRICS: &[Metric] = SUBJECT_METRICS;

const CPU_SECONDS: Total =
    Total { family: "crosstalk_node_cpu_seconds", help: "Processor time used by all processes." };
const WAIT_SECONDS: Total =
    Total { family: "crosstalk_node_runqueue_wait_seconds", help: "Time tasks waited for a core." };
const SWITCHES: Total =
    Total { family: "crosstalk_node_context_switches", help: "Context switches." };
const FAULTS: Total = Total { family: "crosstalk_node_page_faults", help: "Page faults." };
const CYCLES: Total = Total { family: "crosstalk_node_cycles", help: "CPU cycles." };
const INSTRUCTIONS: Total =
    Total { family: "crosstalk_node_instructions", help: "Retired instructions." };
const LLC_MISSES: Total =
    Total { family: "crosstalk_node_llc_misses", help: "Last-level cache misses." };
const BPF_SECONDS: Total = Total {
    family: "crosstalk_agent_bpf_run_seconds",
    help: "Time spent in the kernel programs: runs times their sampled mean time.",
};
const BPF_RUNS: Total =
    Total { family: "crosstalk_agent_bpf_runs", help: "Runs of the kernel programs." };
const LOST_ROWS: Total = Total {
    family: "crosstalk_agent_lost_rows",
    help: "Rows the kernel programs measured and the agent did not get, or got too late.",
};

pub(super) struct Counters {
    config: Config,
    host: HostRoot,
    recorder: Option<Recorder>,
}

impl Counters {
    pub(super) fn new(config: &Config, host: &HostRoot, recorder: Option<Recorder>) -> Self {
        Self { config: config.clone(), host: host.clone(), recorder }
    }

    fn open(&self) -> Result<(Collector, bool), Failure> {
        let slot = SlotLength::from_nanos(self.config.slot().nanos())
            .map_err(|error| Failure::Broken(error.to_string()))?;
        // Coarse slots are few: a ring of 1 MiB holds more than a second of them.
        let coarse = slot.nanos() >= 10_000_000;
        let options = Options {
            host: self.host.clone(),
            slot,
            ring_bytes: coarse.then_some(1 << 20),
            ..Options::default()
        };
        let collector = Collector::open(&options).map_err(|error| self.failure(&error))?;
        Ok((collector, options.runq))
    }

    /// What a machine lacks is absent, unless it was asked for by name.
    fn failure(&self, error: &Error) -> Failure {
        let text = match &self.recorder {
            Some(_) => unrecorded(&error.to_string()),
            None => error.to_string(),
        };
        match error {
            Error::Kernel { .. } => Failure::Broken(text),
            _ if self.config.sources.counters.mode == Mode::On => Failure::Broken(text),
            _ => Failure::Absent(Report::of_error(Verdict::Absent, &text)),
        }
    }
}

impl Source for Counters {
    fn run(&mut self, state: &SourceState, stop: &Stop) -> Result<(), Failure> {
        // However many ask and whoever else computes, the ring is emptied in time.
        prefer_this_thread();
        let (mut collector, waits) = self.open()?;
        let broken = |error: Error| Failure::Broken(error.to_string());
        let start_ns = collector.start().map_err(broken)?;
        state.report(report(&collector));
        let mut run = Run::new(&self.config, &self.host, start_ns, &collector, waits);
        // The ring holds seconds; fetching less often makes answers older, more often costs more.
        let fine = self.config.slot().nanos() < 10_000_000;
        let poll = Duration::from_millis(if fine { 50 } else { 100 });
        loop {
            let began = Instant::now();
            let readings = collector.poll().map_err(broken)?;
            if let Some(recorder) = &mut self.recorder {
                recorder.take(&readings, &collector, state, &mut run.cgroups);
            }
            run.take(&readings, state);
            run.cost(&collector, state);
            if stop.after(poll.saturating_sub(began.elapsed())) {
                if let Some(recorder) = self.recorder.take() {
                    recorder.finish(state, &mut run.cgroups);
                }
                return Ok(());
            }
        }
    }
}

/// An error of the form "what; the way out", with what else it means where a recording is asked for.
fn unrecorded(error: &str) -> String {
    let (what, way_out) = error.split_once("; ").unwrap_or((error, ""));
    let joint = if way_out.is_empty() { "" } else { "; " };
    format!("{what}: nothing is recorded without the counters{joint}{way_out}")
}

/// What is counted and what is not, as the collector found it.
fn report(collector: &Collector) -> Report {
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
        return Report::new(Verdict::Ok, "eBPF with hardware counters");
    }
    let found = "eBPF without hardware counters: time, waits, switches and faults only";
    let fix = "expose the PMU to this machine, or read `crosstalk doctor`";
    Report { absent, ..Report::new(Verdict::Limited, found).fix(fix) }
}

/// One process in one period of the subjects.
struct Member {
    sums: Sums,
    comm: Comm,
    cgroup_id: u64,
}

/// State from one start of the collector to its end.
struct Run {
    cutter: Cutter,
    /// Whether waits for a core are measured.
    waits: bool,
    pace: Pace,
    period_ns: u64,
    host: HostRoot,
    cores: u32,
    /// Unix minus monotonic time, as the kernel programs count.
    offset_ns: u64,
    cgroups: Cgroups,
    subject_period_ns: Option<u64>,
    /// Periods of subjects not yet closed.
    periods: BTreeMap<u64, HashMap<ProcessId, Member>>,
    subjects_from_ns: u64,
    runs: u64,
    lost: u64,
}

impl Run {
    fn new(
        config: &Config,
        host: &HostRoot,
        start_ns: u64,
        collector: &Collector,
        waits: bool,
    ) -> Self {
        let subject_ns = config.subjects.period.nanos();
        let mut pace = Pace::new(&config.sampling, config.slot().get());
        let period_ns = pace.period(&[], Duration::ZERO).as_nanos() as u64;
        Self {
            cutter: Cutter::new(config.slot().nanos(), start_ns, waits),
            waits,
            pace,
            period_ns,
            host: host.clone(),
            cores: 1,
            offset_ns: collector.clocks().realtime_minus_monotonic_ns,
            cgroups: Cgroups::new(host),
            subject_period_ns: config.subjects.enabled.then_some(subject_ns),
            periods: BTreeMap::new(),
            subjects_from_ns: start_ns.next_multiple_of(subject_ns),
            runs: 0,
            lost: 0,
        }
    }

    fn take(&mut self, readings: &Readings, state: &SourceState) {
        let spent = thread_cpu();
        readings.slots.iter().for_each(|slot| self.cutter.slot(slot));
        for task in &readings.tasks {
            self.cutter.task(task);
            self.gather(task);
        }
        let now_ns = monotonic_ns() + self.offset_ns;
        while let Some(cut) = self.cutter.cut(self.period_ns, now_ns) {
            let values = self.node(&cut, state);
            self.period_ns = self.pace.period(&values, thread_cpu() - spent).as_nanos() as u64;
        }
        self.close_subjects(self.cutter.settled_ns(now_ns), state);
    }

    fn node(&self, cut: &Cut, state: &SourceState) -> Vec<Option<f64>> {
        // What was lost whole is a gap.
        if !cut.is_known {
            return vec![None; SUBJECT_METRICS.len()];
        }
        let sums = &cut.sums;
        let values = sums.values(cut.cpu_util, cut.covers_ns);
        state.push(cut.end_ns - self.offset_ns, cut.covers_ns, &values);
        let whole = [
            (CPU_SECONDS, Some(sums.on_cpu_ns as f64 * 1e-9)),
            (WAIT_SECONDS, sums.runq_wait_ns.map(|ns| ns as f64 * 1e-9)),
            (SWITCHES, Some(sums.switches as f64)),
            (FAULTS, Some(sums.page_faults as f64)),
            (CYCLES, sums.cycles.map(|count| count as f64)),
            (INSTRUCTIONS, sums.instructions.map(|count| count as f64)),
            (LLC_MISSES, sums.llc_misses.map(|count| count as f64)),
        ];
        for (total, amount) in whole {
            if let Some(amount) = amount {
                state.add(total, amount);
            }
        }
        values
    }

    fn gather(&mut self, task: &TaskReading) {
        let Some(period_ns) = self.subject_period_ns else { return };
        // The row that stands for processes beyond the kernel's table is nobody's.
        if task.slot_start_ns < self.subjects_from_ns || task.comm == Comm::OTHER {
            return;
        }
        let period = self.periods.entry(task.slot_start_ns - task.slot_start_ns % period_ns);
        let member = period.or_default().entry(task.process).or_insert_with(|| Member {
            sums: Sums::default(),
            comm: task.comm,
            cgroup_id: task.cgroup_id,
        });
        member.sums.add(task);
        // The latest name and place: exec and containers change them.
        (member.comm, member.cgroup_id) = (task.comm, task.cgroup_id);
    }

    fn close_subjects(&mut self, settled_ns: u64, state: &SourceState) {
        let Some(period_ns) = self.subject_period_ns else { return };
        while self.subjects_from_ns + period_ns <= settled_ns {
            let members = self.periods.remove(&self.subjects_from_ns).unwrap_or_default();
            self.subjects_from_ns += period_ns;
            self.cores = (Cpu::online(&self.host).len() as u32).max(1);
            let samples = self.samples(members, period_ns);
            // Whoever was not seen on any core used none: that is measured.
            let idle = Sums::idle(self.waits).values(Some(0.0), period_ns);
            let end_ns = self.subjects_from_ns - self.offset_ns;
            state.subjects.take(end_ns, period_ns, samples, Some(&idle));
        }
    }

    fn samples(
        &mut self,
        members: HashMap<ProcessId, Member>,
        period_ns: u64,
    ) -> Vec<SubjectSample> {
        let mut groups: HashMap<SubjectKey, (Labels, Sums)> = HashMap::new();
        let mut samples = Vec::with_capacity(members.len());
        for (process, member) in members {
            let cgroup = self.cgroups.resolve(member.cgroup_id, process.pid);
            let place = &cgroup.placement;
            let labels = Labels {
                comm: None,
                container_id: place.container_id.clone(),
                pod_uid: place.pod_uid.clone(),
            };
            for key in [
                labels.container_id.clone().map(SubjectKey::Container),
                labels.pod_uid.clone().map(SubjectKey::Pod),
            ]
            .into_iter()
            .flatten()
            {
                let of_pod = Labels { container_id: None, ..labels.clone() };
                let labels = if key.kind() == crate::Kind::Pod { of_pod } else { labels.clone() };
                groups.entry(key).or_insert((labels, Sums::default())).1.merge(&member.sums);
            }
            let comm = Some(member.comm.to_str().into_owned());
            let (key, labels) = (SubjectKey::Process(process), Labels { comm, ..labels });
            samples.push(self.sample(key, labels, &member.sums, period_ns));
        }
        let groups = groups.into_iter();
        samples
            .extend(groups.map(|(key, (labels, sums))| self.sample(key, labels, &sums, period_ns)));
        samples
    }

    fn sample(
        &self,
        key: SubjectKey,
        labels: Labels,
        sums: &Sums,
        period_ns: u64,
    ) -> SubjectSample {
        let all_cores_ns = period_ns as f64 * f64::from(self.cores);
        let cpu_util = Some(sums.on_cpu_ns as f64 / all_cores_ns);
        SubjectSample { key, labels, values: sums.values(cpu_util, period_ns) }
    }

    fn cost(&mut self, collector: &Collector, state: &SourceState) {
        let totals = collector.totals();
        let runs = totals.events.saturating_sub(self.runs);
        self.runs = totals.events;
        state.add(BPF_RUNS, runs as f64);
        if let Some(ns) = collector.cost().ok().and_then(|cost| cost.ns_per_run) {
            state.add(BPF_SECONDS, runs as f64 * ns * 1e-9);
        }
        let lost = totals.lost_rows + totals.malformed + self.cutter.late_rows();
        state.add(LOST_ROWS, lost.saturating_sub(self.lost) as f64);
        self.lost = lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_counters_a_recording_asked_for_is_said_not_to_be_made() {
        let mut config = Config::default();
        for (out, told) in [("", false), ("somewhere", true)] {
            config.recording.out = out.into();
            let host = HostRoot::new("/");
            let recorder = Recorder::new(&config, &host).map(|(recorder, _)| recorder);
            let counters = Counters::new(&config, &host, recorder);
            let Failure::Absent(report) = counters.failure(&Error::NotPermitted) else {
                panic!("not absent");
            };
            assert_eq!(report.found.contains("nothing is recorded"), told, "{report:?}");
            assert!(report.fix.is_some_and(|fix| fix.contains("CAP_BPF")));
        }
    }
}
