use super::row::{NAMES, SUMMED};
use super::sum::Slot;
use datafusion::arrow::array::{
    ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::error::ArrowError;
use sketches_ddsketch::DDSketch;
use std::sync::Arc;

/// Quantiles that are written out beside the sketch.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];
const SKETCHED: [&str; 2] = ["on_cpu", "wait"];

/// The columns of sums: those of tasks as far as they can be summed, with `rows` of them, and for time on a core in a
/// slot and for waits the quantiles, the greatest, and the sketch they come from.
pub(super) fn schema() -> SchemaRef {
    let number = |name: &str| Field::new(name, DataType::Int64, false);
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![number("slot_start_ns"), Field::new("time", time, false)];
    fields.extend([number("pid"), number("process_start_ns")]);
    fields.extend(NAMES.map(|name| Field::new(name, DataType::Utf8, true)));
    fields.extend([number("rows"), number("on_cpu_ns")]);
    fields.extend(SUMMED.map(|name| Field::new(name, DataType::Int64, true)));
    for of in SKETCHED {
        for (name, _) in QUANTILES {
            fields.push(Field::new(format!("{of}_{name}_ns"), DataType::Float64, true));
        }
        fields.push(Field::new(format!("{of}_max_ns"), DataType::Float64, true));
        fields.push(Field::new(format!("{of}_sketch"), DataType::Binary, true));
    }
    Arc::new(Schema::new(fields))
}

/// Everybody's sums of one second or minute.
pub(super) fn batch(start_ns: i64, sums: &Slot) -> Result<RecordBatch, ArrowError> {
    let all = || sums.iter();
    let numbers = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let times: TimestampMicrosecondArray = all().map(|_| Some(start_ns / 1_000)).collect();
    let mut columns: Vec<ArrayRef> = vec![
        numbers(all().map(|_| start_ns).collect()),
        Arc::new(times.with_timezone("UTC")),
        numbers(all().map(|((pid, _), _)| *pid).collect()),
        numbers(all().map(|((_, start), _)| *start).collect()),
    ];
    for at in 0..NAMES.len() {
        let names: StringArray = all().map(|(_, sum)| sum.names[at].as_deref()).collect();
        columns.push(Arc::new(names));
    }
    columns.push(numbers(all().map(|(_, sum)| sum.rows).collect()));
    columns.push(numbers(all().map(|(_, sum)| sum.on_cpu_ns).collect()));
    for at in 0..SUMMED.len() {
        let values: Int64Array = all().map(|(_, sum)| sum.values[at]).collect();
        columns.push(Arc::new(values));
    }
    let on_cpu: Vec<&DDSketch> = all().map(|(_, sum)| &sum.on_cpu).collect();
    let wait: Vec<&DDSketch> = all().map(|(_, sum)| &sum.wait).collect();
    for sketches in [on_cpu, wait] {
        for (_, at) in QUANTILES {
            let quantile = |sketch: &&DDSketch| sketch.quantile(at).ok().flatten();
            columns.push(Arc::new(sketches.iter().map(quantile).collect::<Float64Array>()));
        }
        // What no wait was ever measured of has no greatest either.
        let greatest = |sketch: &&DDSketch| sketch.max().filter(|_| sketch.count() > 0);
        columns.push(Arc::new(sketches.iter().map(greatest).collect::<Float64Array>()));
        let bytes: Vec<Option<Vec<u8>>> =
            sketches.iter().map(|one| (one.count() > 0).then(|| one.to_java_bytes())).collect();
        columns.push(Arc::new(bytes.iter().map(|one| one.as_deref()).collect::<BinaryArray>()));
    }
    RecordBatch::try_new(schema(), columns)
}
