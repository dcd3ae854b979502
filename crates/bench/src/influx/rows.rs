//! Rows into lines, under the names that people have in their dashboards.

use super::Line;
use crate::collectors::{ContainerCacheRow, ContainerRow, CountersRow, ProgressRow};
use crate::experiment::ContainerData;
use crate::roster::Roster;
use crate::store::{Outcome, RunRecord};
use crosstalk_collect::{Delivery, Wants};
use crosstalk_model::{Row, TaskRow};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

const MEASUREMENT: &str = "benchmark_metrics";
const META: &str = "benchmark_meta";
/// What lines are made of.
pub(crate) const WANTS: Wants = Wants::Datasets(&[
    ContainerRow::DATASET,
    ContainerCacheRow::DATASET,
    CountersRow::DATASET,
    ProgressRow::DATASET,
    TaskRow::DATASET,
]);
/// Sums are told when no more rows will come to them.
const LAG_NS: u64 = 1_000_000_000;

/// What a container did in a period, as the pipeline's sources saw it.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    on_cpu_ns: u64,
    wait_ns: Option<u64>,
    switches: u64,
    migrations: Option<u64>,
    faults: u64,
    cycles: Option<u64>,
    instructions: Option<u64>,
    misses: Option<u64>,
}

fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0) + more);
    }
}

#[derive(Debug)]
pub(super) struct Rows {
    /// Tags of each container, by index.
    tags: BTreeMap<u32, Vec<(&'static str, String)>>,
    roster: Roster,
    /// What engines call containers, and what is collected of them, by index.
    known: BTreeMap<u32, (Option<Arc<str>>, ContainerData)>,
    /// Whose limits came with a sample since batches were last made.
    sampled: BTreeSet<u32>,
    /// Containers by their cgroup's number. Rows come late, and their container may have ended.
    groups: HashMap<u64, u32>,
    period_ns: u64,
    sums: BTreeMap<(u64, u32), Sum>,
    newest_ns: u64,
    lines: Vec<String>,
}

impl Rows {
    pub(super) fn new(record: &RunRecord, roster: Roster, period: Duration) -> Self {
        let tags = record.containers.iter().map(|container| {
            let tags = vec![
                ("benchmark_id", record.id.clone()),
                ("container_name", container.name.clone()),
                ("container_index", container.index.to_string()),
                ("container_image", container.image.clone().unwrap_or_default()),
                ("used_scheduler", record.scheduler.clone()),
            ];
            (container.index, tags)
        });
        Self {
            tags: tags.collect(),
            roster,
            known: BTreeMap::new(),
            sampled: BTreeSet::new(),
            groups: HashMap::new(),
            period_ns: (period.as_nanos() as u64).max(1),
            sums: BTreeMap::new(),
            newest_ns: 0,
            lines: Vec::new(),
        }
    }

    /// What is known of the run and its machine beforehand.
    pub(super) fn meta(&self, record: &RunRecord, config: &str) -> String {
        let machine = &record.machine;
        let mut line = meta_line(record);
        line.text("name", &record.name)
            .text("description", &record.description)
            .text("host", machine.host.as_deref().unwrap_or_default())
            .text("cpu", machine.cpu.as_deref().unwrap_or_default())
            .text("kernel", machine.kernel.as_deref().unwrap_or_default())
            .text("version", &record.version)
            .text("engine_version", record.engine.as_deref().unwrap_or_default())
            .text("config", config)
            .int("containers", Some(record.containers.len() as u64))
            .int("cpus", Some(machine.cpus as u64));
        line.at(record.began_ns).unwrap_or_default()
    }

    pub(super) fn waiting(&self) -> usize {
        self.lines.len()
    }

    /// Asks who is there, for whatever is taken next.
    pub(super) fn know(&mut self) {
        let members = self.roster.members();
        let wanted = members.iter().filter(|member| member.data.perf);
        self.groups.extend(wanted.filter_map(|m| Some((m.group_id?, m.index))));
        self.known.extend(members.into_iter().map(|m| (m.index, (m.id, m.data))));
    }

    pub(super) fn take(&mut self, delivery: &Delivery) {
        let Delivery::Rows(batch) = delivery else { return };
        if let Some(rows) = batch.rows::<ContainerRow>() {
            rows.iter().for_each(|row| self.take_container(row));
        } else if let Some(rows) = batch.rows::<ProgressRow>() {
            for row in rows {
                let mut line = self.line(row.index, "progress");
                self.lines
                    .extend(line.float("progress_done", Some(row.done)).at(row.slot_start_ns));
            }
        } else if let Some(rows) = batch.rows::<TaskRow>() {
            self.take_tasks(rows);
        } else if let Some(rows) = batch.rows::<ContainerCacheRow>() {
            rows.iter().for_each(|row| self.take_cache(row));
        } else if let Some(rows) = batch.rows::<CountersRow>() {
            rows.iter().for_each(|row| self.take_counters(row));
        }
    }

    /// What is collected of a container.
    fn wants(&self, index: u32) -> ContainerData {
        self.known.get(&index).map(|known| known.1).unwrap_or_default()
    }

    fn line(&self, index: u32, collector: &str) -> Line {
        let own = self.tags.get(&index).map(Vec::as_slice).unwrap_or_default();
        let mut tags: Vec<(&str, &str)> = own.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let id = self.known.get(&index).and_then(|known| known.0.as_deref());
        tags.extend(id.map(|id| ("container_id", id)));
        tags.push(("collector", collector));
        Line::new(MEASUREMENT, &tags)
    }

    fn take_container(&mut self, row: &ContainerRow) {
        let cores = row.cpu_ns.map(|ns| ns as f64 / row.covers_ns.max(1) as f64);
        let mut line = self.line(row.index, "docker");
        line.int("docker_cpu_usage_ns", row.cpu_ns)
            .float("docker_cpu_cores", cores)
            .int("docker_cpu_throttled_ns", row.throttled_ns)
            .int("docker_memory_usage_bytes", row.memory_bytes)
            .int("docker_network_rx_bytes", row.network_received_bytes)
            .int("docker_network_tx_bytes", row.network_sent_bytes)
            .int("docker_disk_read_bytes", row.block_read_bytes)
            .int("docker_disk_write_bytes", row.block_written_bytes);
        self.lines.extend(line.at(row.slot_start_ns));
        self.sampled.insert(row.index);
        if self.wants(row.index).rdt {
            let (cache, bandwidth) =
                (row.cache_allocation.as_deref(), row.bandwidth_allocation.as_deref());
            self.tell_allocation(row.index, cache, bandwidth, row.slot_start_ns);
        }
    }

    fn tell_allocation(
        &mut self,
        index: u32,
        cache: Option<&str>,
        bandwidth: Option<&str>,
        at_ns: u64,
    ) {
        let mut line = self.line(index, "rdt");
        line.maybe_text("rdt_cache_allocation", cache).maybe_text("rdt_mb_allocation", bandwidth);
        self.lines.extend(line.at(at_ns));
    }

    /// What those are limited to who are not sampled.
    fn tell_allocations(&mut self, now_ns: u64) {
        let sampled = std::mem::take(&mut self.sampled);
        for member in self.roster.members() {
            if member.data.rdt
                && !sampled.contains(&member.index)
                && let Some(given) = member.allocation.get()
            {
                let (cache, bandwidth) = (given.cache.as_deref(), given.bandwidth.as_deref());
                self.tell_allocation(member.index, cache, bandwidth, now_ns);
            }
        }
    }

    fn take_counters(&mut self, row: &CountersRow) {
        let [references, misses, branches, branch_misses, l1, l1_misses, llc, llc_misses] =
            row.counts;
        let rate = |part: Option<u64>, whole: Option<u64>| {
            let (part, whole) = (part? as f64, whole.filter(|whole| *whole > 0)? as f64);
            Some(part / whole)
        };
        let mut line = self.line(row.index, "perf");
        line.int("perf_cache_references", references)
            .float("perf_cache_miss_rate", rate(misses, references))
            .int("perf_branches", branches)
            .int("perf_branch_misses", branch_misses)
            .float("perf_branch_miss_rate", rate(branch_misses, branches))
            .int("perf_l1_dcache_loads", l1)
            .int("perf_l1_dcache_load_misses", l1_misses)
            .int("perf_llc_loads", llc)
            .int("perf_llc_load_misses", llc_misses);
        self.lines.extend(line.at(row.slot_start_ns));
    }

    fn take_tasks(&mut self, rows: &[TaskRow]) {
        for row in rows {
            self.newest_ns = self.newest_ns.max(row.slot_start_ns);
            let Some(index) = self.groups.get(&row.task.cgroup_id) else { continue };
            let bucket = row.slot_start_ns / self.period_ns;
            let sum = self.sums.entry((bucket, *index)).or_default();
            sum.on_cpu_ns += row.task.on_cpu_ns;
            sum.switches += u64::from(row.task.switches);
            sum.faults += u64::from(row.task.page_faults);
            add(&mut sum.wait_ns, row.task.runq_wait_ns);
            add(&mut sum.migrations, row.task.migrations.map(u64::from));
            add(&mut sum.cycles, row.task.cycles);
            add(&mut sum.instructions, row.task.instructions);
            add(&mut sum.misses, row.task.llc_misses);
        }
    }

    fn take_cache(&mut self, row: &ContainerCacheRow) {
        let in_a_second = |bytes: Option<u64>| {
            let bytes = u128::from(bytes?) * 1_000_000_000 / u128::from(row.covers_ns.max(1));
            u64::try_from(bytes).ok()
        };
        let (total, local) = (row.mbm_total_bytes, row.mbm_local_bytes);
        let remote = total.zip(local).and_then(|(total, local)| total.checked_sub(local));
        let mut line = self.line(row.index, "rdt");
        line.int("rdt_llc_occupancy", row.llc_occupancy_bytes)
            .int("rdt_total_memory_bandwidth", in_a_second(total))
            .int("rdt_local_memory_bandwidth", in_a_second(local))
            .int("rdt_remote_memory_bandwidth", in_a_second(remote));
        self.lines.extend(line.at(row.slot_start_ns));
    }

    fn tell(&mut self, before: u64) {
        while let Some(entry) = self.sums.first_entry()
            && entry.key().0 < before
        {
            let ((bucket, index), sum) = entry.remove_entry();
            let at_ns = bucket * self.period_ns;
            let ipc = sum.instructions.zip(sum.cycles).map(|(i, c)| i as f64 / c as f64);
            let mut line = self.line(index, "perf");
            line.int("perf_on_cpu_ns", (sum.on_cpu_ns > 0).then_some(sum.on_cpu_ns))
                .int("perf_runq_wait_ns", sum.wait_ns)
                .int("perf_context_switches", Some(sum.switches))
                .int("perf_cpu_migrations", sum.migrations)
                .int("perf_page_faults", Some(sum.faults))
                .int("perf_cycles", sum.cycles)
                .int("perf_instructions", sum.instructions)
                .int("perf_cache_misses", sum.misses)
                .float("perf_instructions_per_cycle", ipc);
            self.lines.extend(line.at(at_ns));
        }
    }

    /// Lines that will not change any more.
    pub(super) fn ready(&mut self, now_ns: u64) -> Vec<String> {
        self.tell_allocations(now_ns);
        self.tell(self.newest_ns.saturating_sub(LAG_NS) / self.period_ns);
        std::mem::take(&mut self.lines)
    }

    /// All lines there are.
    pub(super) fn all(&mut self) -> Vec<String> {
        self.tell(u64::MAX);
        std::mem::take(&mut self.lines)
    }
}

fn meta_line(record: &RunRecord) -> Line {
    let tags =
        [("benchmark_id", record.id.as_str()), ("used_scheduler", record.scheduler.as_str())];
    Line::new(META, &tags)
}

/// What a run came to. It has the time and the tags of what was known beforehand, so that both are one point.
pub(super) fn totals(record: &RunRecord) -> String {
    let seconds = record
        .rounds
        .iter()
        .filter_map(|round| Some(round.end_ns?.saturating_sub(round.zero_ns) as f64 / 1e9));
    let lost: u64 = record.lost.iter().map(|(_, _, rows)| rows).sum();
    let mut line = meta_line(record);
    line.int("total_rounds", Some(record.rounds.len() as u64))
        .float("total_seconds", Some(seconds.sum()))
        .int("total_rows_lost", Some(lost))
        .int("total_sources_absent", Some(record.absent.len() as u64))
        .maybe_text("outcome", record.outcome.as_ref().map(Outcome::name));
    line.at(record.began_ns).unwrap_or_default()
}
