//! Tables of the model as Arrow tables; numbers that are all there are not even copied.

use crate::schema::arrow_schema;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use crosstalk_model::{Kind, Table, Texts, Values};
use std::sync::Arc;

/// The table of a data set, ready to be written.
///
/// # Errors
/// The table does not have the columns of its data set.
pub fn record_batch(table: Table) -> Result<RecordBatch, ArrowError> {
    let kinds = table.dataset.columns.iter().map(|column| column.kind);
    let columns: Result<Vec<ArrayRef>, ArrowError> =
        kinds.zip(table.columns).map(|(kind, values)| array(kind, values)).collect();
    RecordBatch::try_new(arrow_schema(table.dataset), columns?)
}

fn array(kind: Kind, values: Values) -> Result<ArrayRef, ArrowError> {
    Ok(match values {
        Values::Ints(nanos) if kind == Kind::Time => {
            let micros: Vec<i64> = nanos.into_iter().map(|ns| ns.div_euclid(1_000)).collect();
            Arc::new(TimestampMicrosecondArray::from(micros).with_timezone("UTC"))
        }
        Values::Ints(values) => Arc::new(Int64Array::from(values)),
        Values::MaybeInts(values) => Arc::new(Int64Array::from(values)),
        Values::Floats(values) => Arc::new(Float64Array::from(values)),
        Values::Flags(values) => Arc::new(BooleanArray::from(values)),
        Values::Texts(texts) => Arc::new(strings(texts)?),
    })
}

fn strings(Texts { text, ends, present }: Texts) -> Result<StringArray, ArrowError> {
    let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
    let nulls = present.contains(&false).then(|| NullBuffer::from(present));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    StringArray::try_new(offsets, text.into_bytes().into(), nulls)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use arrow_array::Array;
    use crosstalk_model::{
        Comm, Placement, ProbeReading, ProbeState, ProcessId, Row, SlotCoverage, TaskReading,
        TaskRow,
    };

    pub(crate) fn batch<R: Row>(rows: &[R]) -> RecordBatch {
        record_batch(Table::of(rows.iter().collect())).unwrap()
    }

    /// A row as a machine without a PMU gives it.
    pub(crate) fn task(slot: u64, pid: u32) -> TaskRow {
        let task = TaskReading {
            slot_start_ns: 1_700_000_000_000_000_000 + slot * 1_000_000,
            process: ProcessId { pid, start_ns: 1_600_000_000_000_000_000 },
            parent: None,
            comm: Comm::from_text("a,\"b\""),
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
        };
        TaskRow::new(task, Arc::new(Placement::default()))
    }

    /// A burst before the quiet level is known.
    pub(crate) fn probed(latency_ns: Option<f64>) -> ProbeReading {
        ProbeReading {
            slot_start_ns: 1_700_000_000_000_000_000,
            read_at_ns: 1_700_000_000_000_000_000,
            core: latency_ns.map(|_| 1),
            l3_domain: 0,
            latency_ns,
            bandwidth_bytes_per_s: latency_ns.map(|_| 17e9),
            write_back_ns: latency_ns.map(|_| 3.25),
            inflation: None,
            state: ProbeState::Quiet,
            confidence: Some(0.875),
            blind: None,
            alone: None,
        }
    }

    #[test]
    fn absent_stays_absent_and_rows_are_in_the_data_sets_order() {
        let tasks = batch(&[task(2, 7), task(1, 7), task(9, 4)]);
        assert_eq!(tasks.column_by_name("cycles").unwrap().null_count(), 3);
        let pids = tasks.column_by_name("pid").unwrap();
        let pids = pids.as_any().downcast_ref::<Int64Array>().unwrap();
        assert_eq!(pids.values(), &[4, 7, 7]);
        let slots = batch(&[SlotCoverage::lost(0, 0, 9)]);
        assert_eq!(slots.column_by_name("idle_ns").unwrap().null_count(), 1);
        let probe = batch(&[probed(Some(97.25)), probed(None), probed(Some(f64::NAN))]);
        assert_eq!(probe.column_by_name("latency_ns").unwrap().null_count(), 2);
    }

    #[test]
    fn the_time_of_a_row_is_its_slot() {
        let tasks = batch(&[task(1, 7)]);
        let times = tasks.column_by_name("time").unwrap();
        let times = times.as_any().downcast_ref::<TimestampMicrosecondArray>().unwrap();
        assert_eq!(times.value(0), 1_700_000_000_001_000);
        assert_eq!(times.timezone(), Some("UTC"));
    }
}
