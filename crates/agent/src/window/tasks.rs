//! Tasks and slots into samples of the node and of every process, container and pod.

use super::cutter::{Cut, Cutter};
use super::source::SourceWindow;
use super::sums::Sums;
use crosstalk_collect::{SubjectPeriod, SubjectSample};
use crosstalk_host::{Cpu, HostRoot, monotonic_ns, thread};
use crosstalk_model::{Placement, SlotCoverage, SubjectKey, SubjectKind, TaskRow, Total};
use crosstalk_sources::{Pace, Settings};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// How often it is looked how many cores there are.
const LOOK: Duration = Duration::from_secs(1);

pub(super) struct Tasks {
    /// The node, at the pace it is sampled.
    node: Cutter,
    pace: Pace,
    period_ns: u64,
    /// Processes, containers and pods, at theirs.
    subjects: Option<(Cutter, u64)>,
    waits: bool,
    /// Unix minus monotonic time.
    offset_ns: u64,
    host: HostRoot,
    online: Vec<u32>,
    looked: Option<Instant>,
}

impl Tasks {
    pub(super) fn new(settings: &Settings, offset_ns: u64) -> Self {
        let (slot_ns, waits) = (settings.slot.nanos(), settings.counters.runq);
        let mut pace = Pace::new(&settings.sampling, Duration::from_nanos(slot_ns));
        let period_ns = pace.period(&[], Duration::ZERO).as_nanos() as u64;
        let subjects =
            |period: Duration| (Cutter::new(slot_ns, waits, true), period.as_nanos() as u64);
        Self {
            node: Cutter::new(slot_ns, waits, false),
            pace,
            period_ns,
            subjects: settings.subjects.map(subjects),
            waits,
            offset_ns,
            host: settings.host.clone(),
            online: Vec::new(),
            looked: None,
        }
    }

    pub(super) fn tasks(&mut self, rows: &[TaskRow]) {
        for row in rows {
            self.node.task(row);
            if let Some((subjects, _)) = &mut self.subjects {
                subjects.task(row);
            }
        }
    }

    pub(super) fn slots(&mut self, slots: &[SlotCoverage]) {
        // The node's periods begin anywhere; those of subjects where every source's do.
        for slot in slots {
            self.node.slot(slot, 1);
            if let Some((subjects, period_ns)) = &mut self.subjects {
                subjects.slot(slot, *period_ns);
            }
        }
    }

    /// Rows that came too late for their period.
    pub(super) fn take_late_rows(&mut self) -> u64 {
        let _ = self.subjects.as_mut().map(|(subjects, _)| subjects.take_late_rows());
        self.node.take_late_rows()
    }

    /// Cuts every period that is settled.
    pub(super) fn cut(&mut self, source: &SourceWindow) {
        let spent = thread::cpu_time();
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK) {
            self.looked = Some(Instant::now());
            self.online = Cpu::online(&self.host);
        }
        let now_ns = monotonic_ns() + self.offset_ns;
        while let Some(cut) = self.node.cut(self.period_ns, &self.online, now_ns) {
            let values = self.sample(&cut, source);
            let cost = thread::cpu_time().saturating_sub(spent);
            self.period_ns = self.pace.period(&values, cost).as_nanos() as u64;
        }
        let Some((mut subjects, period_ns)) = self.subjects.take() else { return };
        while let Some(cut) = subjects.cut(period_ns, &self.online, now_ns) {
            // Of time that was not measured nobody is known to have rested.
            if cut.measured_ns > 0 {
                source.subjects.take(&self.period(cut));
            }
        }
        self.subjects = Some((subjects, period_ns));
    }

    fn sample(&self, cut: &Cut, source: &SourceWindow) -> Vec<Option<f64>> {
        let sums = &cut.sums;
        let values = sums.values(cut.cpu_util, cut.measured_ns);
        if cut.measured_ns == 0 {
            return vec![None; values.len()];
        }
        source.push(cut.end_ns - self.offset_ns, cut.measured_ns, &values);
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let whole = [
            (CPU_SECONDS, Some(seconds(sums.on_cpu_ns))),
            (WAIT_SECONDS, sums.runq_wait_ns.map(seconds)),
            (SWITCHES, Some(sums.switches as f64)),
            (FAULTS, Some(sums.page_faults as f64)),
            (CYCLES, sums.cycles.map(|count| count as f64)),
            (INSTRUCTIONS, sums.instructions.map(|count| count as f64)),
            (LLC_MISSES, sums.llc_misses.map(|count| count as f64)),
        ];
        for (total, amount) in whole {
            if let Some(amount) = amount {
                source.add(total, amount);
            }
        }
        values
    }

    /// One period of everybody.
    fn period(&self, cut: Cut) -> SubjectPeriod {
        let (measured_ns, core_ns) = (cut.measured_ns, cut.core_ns as f64);
        // Who was not seen on any core used none, if all of every core was seen: that is measured.
        let unseen = cut.whole.then(|| Sums::idle(self.waits).values(Some(0.0), measured_ns));
        let values = |sums: &Sums| {
            sums.values(Some((sums.on_cpu_ns as f64 / core_ns).min(1.0)), measured_ns)
        };
        let mut groups: HashMap<SubjectKey, (Arc<Placement>, Sums)> = HashMap::new();
        let mut samples = Vec::with_capacity(cut.processes.len());
        for (process, member) in cut.processes {
            for key in groups_of(&member.place) {
                let place = || place_of(&key, &member.place);
                let group = groups.entry(key.clone());
                group.or_insert_with(|| (place(), Sums::default())).1.merge(&member.sums);
            }
            samples.push(SubjectSample {
                key: SubjectKey::Process(process),
                comm: Some(member.comm.to_str().into_owned()),
                place: member.place,
                values: values(&member.sums),
            });
        }
        samples.extend(groups.into_iter().map(|(key, (place, sums))| SubjectSample {
            key,
            comm: None,
            place,
            values: values(&sums),
        }));
        SubjectPeriod {
            end_ns: cut.end_ns - self.offset_ns,
            covers_ns: measured_ns,
            samples,
            unseen,
        }
    }
}

fn groups_of(place: &Placement) -> impl Iterator<Item = SubjectKey> {
    let container = place.container_id.clone().map(SubjectKey::Container);
    container.into_iter().chain(place.pod_uid.clone().map(SubjectKey::Pod))
}

/// A pod is more than the container that was met first.
fn place_of(key: &SubjectKey, place: &Arc<Placement>) -> Arc<Placement> {
    if key.kind() != SubjectKind::Pod {
        return Arc::clone(place);
    }
    let mut pod = Placement::clone(place);
    (pod.container_id, pod.container_name, pod.container_image) = (None, None, None);
    Arc::new(pod)
}

#[cfg(test)]
mod tests {
    use super::super::SubjectTable;
    use super::super::sums::tests::task;
    use super::*;
    use crosstalk_model::Comm;
    use crosstalk_sources::COUNTERS_METRICS;

    const SLOT: u64 = 1_000_000;

    /// Two cores and two slots: somebody runs on core 1 in the first and is not seen in the second, which goes as
    /// `second` says. How many samples that one has.
    fn samples_after(second: impl Fn(&mut Cutter)) -> u64 {
        let period = Duration::from_nanos(SLOT);
        let settings = Settings { subjects: Some(period), ..Settings::default() };
        let tasks = Tasks::new(&settings, 0);
        let mut cutter = Cutter::new(SLOT, true, true);
        let table = SubjectTable::new(COUNTERS_METRICS, Duration::from_secs(1), period, 8);
        cutter.task(&TaskRow::new(task(SLOT, 1, SLOT), Arc::default()));
        cutter.slot(&slot(SLOT, 0), SLOT);
        cutter.slot(&slot(SLOT, 1), SLOT);
        second(&mut cutter);
        while let Some(cut) = cutter.cut(SLOT, &[0, 1], 3 * SLOT) {
            table.take(&tasks.period(cut));
        }
        let known = table.of(SubjectKind::Process);
        known[0].series.reader().counters().accepted
    }

    fn slot(slot_start_ns: u64, core: u32) -> SlotCoverage {
        SlotCoverage { idle_ns: Some(0), ..SlotCoverage::lost(slot_start_ns, core, 0) }
    }

    #[test]
    fn who_was_not_seen_rested_only_where_every_core_was_measured_and_no_rows_were_merged() {
        let both = |cutter: &mut Cutter| {
            cutter.slot(&slot(2 * SLOT, 0), SLOT);
            cutter.slot(&slot(2 * SLOT, 1), SLOT);
        };
        assert_eq!(samples_after(both), 2, "rest was measured");
        let lossy = |cutter: &mut Cutter| {
            cutter.slot(&slot(2 * SLOT, 0), SLOT);
            cutter.slot(&SlotCoverage { lost: 1, ..slot(2 * SLOT, 1) }, SLOT);
        };
        assert_eq!(samples_after(lossy), 1, "it may have run where rows were lost");
        let merged = |cutter: &mut Cutter| {
            let mut row = TaskRow::new(task(2 * SLOT, 1, SLOT), Arc::default());
            row.task.comm = Comm::OTHER;
            cutter.task(&row);
            both(cutter);
        };
        assert_eq!(samples_after(merged), 1, "it may be among the others");
    }
}
