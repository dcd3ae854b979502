//! Readings into Arrow tables, column by column in the order of the data set.

use crate::schema::arrow_schema;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use crosstalk_model::{CacheReading, Dataset, Placement, ProbeReading, SlotCoverage, TaskReading};
use std::sync::Arc;

/// Builds a `tasks` table; `place` says where a reading's process runs.
pub fn tasks_batch<'a>(
    rows: &'a [TaskReading],
    place: impl Fn(&TaskReading) -> &'a Placement,
) -> RecordBatch {
    let text = |of: fn(&Placement) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.iter().map(|r| of(place(r))).collect::<StringArray>())
    };
    let comm = rows.iter().map(|r| Some(r.comm.to_str())).collect::<StringArray>();
    let multiplexed = rows.iter().map(|r| r.multiplexed).collect::<BooleanArray>();
    table(
        Dataset::Tasks,
        vec![
            u64s(rows, |r| r.slot_start_ns),
            u32s(rows, |r| r.process.pid),
            u64s(rows, |r| r.process.start_ns),
            Arc::new(comm),
            u32s(rows, |r| r.core),
            maybe_u32s(rows, |r| r.freq_mhz),
            maybe_u64s(rows, |r| r.cycles),
            maybe_u64s(rows, |r| r.instructions),
            maybe_u64s(rows, |r| r.llc_misses),
            u64s(rows, |r| r.on_cpu_ns),
            maybe_u64s(rows, |r| r.runq_wait_ns),
            u32s(rows, |r| r.switches),
            u32s(rows, |r| r.voluntary_switches),
            u32s(rows, |r| r.page_faults),
            u64s(rows, |r| r.cgroup_id),
            text(|p| p.container_id.as_deref()),
            text(|p| p.pod_uid.as_deref()),
            text(|p| p.pod_namespace.as_deref()),
            text(|p| p.pod_name.as_deref()),
            maybe_u32s(rows, |r| r.migrations),
            Arc::new(multiplexed),
        ],
    )
}

/// Builds a `slots` table.
pub fn slots_batch(rows: &[SlotCoverage]) -> RecordBatch {
    table(
        Dataset::Slots,
        vec![
            u64s(rows, |r| r.slot_start_ns),
            u32s(rows, |r| r.core),
            maybe_u64s(rows, |r| r.idle_ns),
            u32s(rows, |r| r.events),
            u32s(rows, |r| r.lost),
            maybe_u64s(rows, |r| r.tick_late_ns),
        ],
    )
}

/// Builds a `cache` table.
pub fn cache_batch(rows: &[CacheReading]) -> RecordBatch {
    let texts = |of: fn(&CacheReading) -> &'static str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(of)))
    };
    let comm = rows.iter().map(|r| Some(r.comm.to_str())).collect::<StringArray>();
    table(
        Dataset::Cache,
        vec![
            u64s(rows, |r| r.slot_start_ns),
            u64s(rows, |r| r.read_at_ns),
            u32s(rows, |r| r.process.pid),
            u64s(rows, |r| r.process.start_ns),
            Arc::new(comm),
            u32s(rows, |r| r.l3_domain),
            maybe_u64s(rows, |r| r.llc_occupancy_bytes),
            maybe_u64s(rows, |r| r.mbm_total_bytes),
            maybe_u64s(rows, |r| r.mbm_local_bytes),
            texts(|r| r.scope.name()),
            texts(|r| r.state.name()),
            u32s(rows, |r| r.group_id),
        ],
    )
}

/// Builds a `probe` table.
pub fn probe_batch(rows: &[ProbeReading]) -> RecordBatch {
    let state = StringArray::from_iter_values(rows.iter().map(|r| r.state.name()));
    let blind = rows.iter().map(|r| r.blind.map(|blind| blind.name())).collect::<StringArray>();
    table(
        Dataset::Probe,
        vec![
            u64s(rows, |r| r.slot_start_ns),
            maybe_u32s(rows, |r| r.core),
            u32s(rows, |r| r.l3_domain),
            maybe_f64s(rows, |r| r.latency_ns),
            maybe_f64s(rows, |r| r.bandwidth_bytes_per_s),
            maybe_f64s(rows, |r| r.write_back_ns),
            maybe_f64s(rows, |r| r.inflation),
            Arc::new(state),
            maybe_f64s(rows, |r| r.confidence),
            Arc::new(blind),
        ],
    )
}

fn table(dataset: Dataset, columns: Vec<ArrayRef>) -> RecordBatch {
    RecordBatch::try_new(arrow_schema(dataset), columns)
        .expect("the columns above are those of the data set, which a test checks")
}

fn u64s<R>(rows: &[R], of: impl Fn(&R) -> u64) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(rows.iter().map(of)))
}

fn u32s<R>(rows: &[R], of: impl Fn(&R) -> u32) -> ArrayRef {
    Arc::new(UInt32Array::from_iter_values(rows.iter().map(of)))
}

fn maybe_u64s<R>(rows: &[R], of: impl Fn(&R) -> Option<u64>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<UInt64Array>())
}

fn maybe_u32s<R>(rows: &[R], of: impl Fn(&R) -> Option<u32>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<UInt32Array>())
}

fn maybe_f64s<R>(rows: &[R], of: impl Fn(&R) -> Option<f64>) -> ArrayRef {
    // A number that is none was not measured.
    Arc::new(rows.iter().map(|r| of(r).filter(|value| value.is_finite())).collect::<Float64Array>())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crosstalk_model::{CacheScope, CacheState, Comm, ProbeState, ProcessId};

    /// A reading as a machine without a PMU gives it.
    pub(crate) fn reading(slot: u64, pid: u32) -> TaskReading {
        TaskReading {
            slot_start_ns: 1_700_000_000_000_000_000 + slot * 1_000_000,
            process: ProcessId { pid, start_ns: 1_600_000_000_000_000_000 },
            comm: Comm::from_bytes(*b"a,\"b\"\0\0\0\0\0\0\0\0\0\0\0"),
            core: pid % 2,
            freq_mhz: None,
            cycles: None,
            instructions: None,
            llc_misses: None,
            on_cpu_ns: slot * 7919 % 1_000_000,
            runq_wait_ns: Some(slot),
            switches: 3,
            voluntary_switches: 1,
            page_faults: 0,
            migrations: Some(0),
            multiplexed: None,
            cgroup_id: 42,
        }
    }

    /// A burst before the quiet level is known.
    pub(crate) fn probed(latency_ns: Option<f64>) -> ProbeReading {
        ProbeReading {
            slot_start_ns: 1_700_000_000_000_000_000,
            core: latency_ns.map(|_| 1),
            l3_domain: 0,
            latency_ns,
            bandwidth_bytes_per_s: latency_ns.map(|_| 17e9),
            write_back_ns: latency_ns.map(|_| 3.25),
            inflation: None,
            state: ProbeState::Quiet,
            confidence: Some(0.875),
            blind: None,
        }
    }

    #[test]
    fn tables_have_the_columns_of_their_data_set_and_absent_stays_absent() {
        let place = Placement::default();
        let batch = tasks_batch(&[reading(1, 2)], |_| &place);
        assert_eq!(batch.num_columns(), Dataset::Tasks.columns().len());
        let cycles = batch.column_by_name("cycles").unwrap();
        assert_eq!(cycles.null_count(), 1);
        let slots = slots_batch(&[SlotCoverage {
            slot_start_ns: 0,
            core: 0,
            idle_ns: None,
            events: 1,
            lost: 9,
            tick_late_ns: None,
        }]);
        assert_eq!(slots.column_by_name("idle_ns").unwrap().null_count(), 1);
        let cache = cache_batch(&[CacheReading {
            slot_start_ns: 0,
            read_at_ns: 1,
            process: ProcessId { pid: 1, start_ns: 0 },
            comm: Comm::from_text("web"),
            l3_domain: 0,
            llc_occupancy_bytes: Some(64),
            mbm_total_bytes: None,
            mbm_local_bytes: None,
            scope: CacheScope::Process,
            state: CacheState::Unassigned,
            group_id: 3,
        }]);
        assert_eq!(cache.column_by_name("llc_occupancy_bytes").unwrap().null_count(), 0);
        assert_eq!(cache.column_by_name("mbm_total_bytes").unwrap().null_count(), 1);
        let probe = probe_batch(&[probed(Some(97.25)), probed(None), probed(Some(f64::NAN))]);
        assert_eq!(probe.num_columns(), Dataset::Probe.columns().len());
        assert_eq!(probe.column_by_name("latency_ns").unwrap().null_count(), 2);
    }
}
