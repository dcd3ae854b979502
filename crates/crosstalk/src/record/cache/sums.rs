//! What the closing table says about the cache.

use crosstalk_model::{CacheReading, CacheScope, CacheState, ProcessId};
use crosstalk_resctrl::source::SourceStatus;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Beyond this many processes, newcomers have no sums.
const MOST_PROCESSES: usize = 20_000;

/// Sums by process, of the values that are a process's own.
#[derive(Default)]
pub(in crate::record) struct CacheSums {
    rows: u64,
    by_state: BTreeMap<&'static str, u64>,
    processes: HashMap<ProcessId, Sum>,
    pub(in crate::record) status: Option<SourceStatus>,
}

#[derive(Default)]
struct Sum {
    /// Occupancy and number of readings by L3 cache.
    occupancy: BTreeMap<u32, (u64, u64)>,
    total_bytes: Option<u64>,
    local_bytes: Option<u64>,
}

impl CacheSums {
    pub(in crate::record) fn add(&mut self, rows: &[CacheReading]) {
        self.rows += rows.len() as u64;
        for row in rows {
            *self.by_state.entry(row.state.name()).or_default() += 1;
            // Values that several share, or that a former owner left, are nobody's.
            if row.scope != CacheScope::Process || row.state == CacheState::Stale {
                continue;
            }
            let full = self.processes.len() >= MOST_PROCESSES;
            if full && !self.processes.contains_key(&row.process) {
                continue;
            }
            let sum = self.processes.entry(row.process).or_default();
            if let Some(bytes) = row.llc_occupancy_bytes {
                let (held, times) = sum.occupancy.entry(row.l3_domain).or_default();
                *held += bytes;
                *times += 1;
            }
            for (sum, bytes) in [
                (&mut sum.total_bytes, row.mbm_total_bytes),
                (&mut sum.local_bytes, row.mbm_local_bytes),
            ] {
                *sum = bytes.map_or(*sum, |bytes| Some(sum.unwrap_or(0) + bytes));
            }
        }
    }

    /// The mean of what a process held, over its readings, all L3 caches together.
    pub(in crate::record) fn occupancy(&self, process: &ProcessId) -> Option<u64> {
        let means = self.processes.get(process)?.occupancy.values();
        let means: Vec<u64> = means.map(|(held, times)| held / times.max(&1)).collect();
        (!means.is_empty()).then(|| means.iter().sum())
    }

    pub(in crate::record) fn total_bytes(&self, process: &ProcessId) -> Option<u64> {
        self.processes.get(process)?.total_bytes
    }

    pub(in crate::record) fn local_bytes(&self, process: &ProcessId) -> Option<u64> {
        self.processes.get(process)?.local_bytes
    }

    /// One line under the table.
    pub(in crate::record) fn closing(&self, seconds: f64) -> Option<String> {
        let status = self.status.as_ref()?;
        let pool = &status.pool;
        let mut text = format!(
            "cache: {} rows in {} slots; {} processes measured alone, {} by container, {} shared; \
             reading cost {:.2} % of one core",
            self.rows,
            status.slots,
            pool.alone,
            pool.by_container,
            pool.shared,
            status.read_cpu_ns as f64 / 1e7 / seconds,
        );
        if status.dropped_rows > 0 {
            text += &format!("; {} rows dropped", status.dropped_rows);
        }
        if let Some(reason) = &status.ended_because {
            text += &format!("; it ended early: {reason}");
        }
        Some(text)
    }

    pub(in crate::record) fn json(&self) -> Value {
        let Some(status) = &self.status else { return Value::Null };
        json!({
            "rows": self.rows,
            "rows_by_state": self.by_state,
            "slots": status.slots,
            "missed_slots": status.missed_slots,
            "reads": status.reads,
            "read_cpu_seconds": status.read_cpu_ns as f64 / 1e9,
            "put_off_readings": status.put_off,
            "dropped_rows": status.dropped_rows,
            "dropped_lists": status.dropped_lists,
            "updates": status.updates,
            "failed_updates": status.failed_updates,
            "groups": status.pool.groups,
            "processes_alone": status.pool.alone,
            "processes_by_container": status.pool.by_container,
            "processes_shared": status.pool.shared,
            "ended_because": status.ended_because,
        })
    }
}
