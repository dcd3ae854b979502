use datafusion::arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::Int64Type;

/// Columns that are summed as they are.
pub(super) const SUMMED: [&str; 8] = [
    "runq_wait_ns",
    "switches",
    "voluntary_switches",
    "migrations",
    "page_faults",
    "cycles",
    "instructions",
    "llc_misses",
];
/// The wait among them.
pub(super) const WAIT: usize = 0;
/// Columns that say who it is.
pub(super) const NAMES: [&str; 6] =
    ["comm", "container_id", "container_name", "pod_namespace", "pod_name", "workload"];
const OWN: [&str; 4] = ["slot_start_ns", "pid", "process_start_ns", "on_cpu_ns"];

/// Everything that is read.
pub(super) fn columns() -> impl Iterator<Item = &'static str> {
    OWN.into_iter().chain(SUMMED).chain(NAMES)
}

/// One process on one core in one slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) slot_ns: i64,
    pub(super) pid: i64,
    pub(super) process_start_ns: i64,
    pub(super) on_cpu_ns: i64,
    /// In the order of [`SUMMED`], absent where not measured.
    pub(super) values: [Option<i64>; SUMMED.len()],
    /// In the order of [`NAMES`].
    pub(super) names: [Option<&'a str>; NAMES.len()],
}

/// The rows of a batch of tasks.
pub(super) struct Rows<'a> {
    own: [&'a Int64Array; 4],
    values: [Option<&'a Int64Array>; SUMMED.len()],
    names: [Option<&'a StringArray>; NAMES.len()],
    rows: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn of(batch: &'a RecordBatch) -> Result<Self, String> {
        let numbers = |name: &str| {
            batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<Int64Type>())
        };
        let mut own = Vec::new();
        for name in OWN {
            own.push(numbers(name).ok_or_else(|| format!("it has no column {name}"))?);
        }
        let texts = |name: &str| {
            batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>())
        };
        Ok(Self {
            own: [own[0], own[1], own[2], own[3]],
            values: SUMMED.map(numbers),
            names: NAMES.map(texts),
            rows: batch.num_rows(),
        })
    }

    pub(super) fn each(&self, mut take: impl FnMut(&Row<'a>)) {
        for row in 0..self.rows {
            let [slot, pid, start, on_cpu] = self.own.map(|column| column.value(row));
            take(&Row {
                slot_ns: slot,
                pid,
                process_start_ns: start,
                on_cpu_ns: on_cpu,
                values: self.values.map(|c| c.filter(|c| c.is_valid(row)).map(|c| c.value(row))),
                names: self.names.map(|c| c.filter(|c| c.is_valid(row)).map(|c| c.value(row))),
            });
        }
    }
}
