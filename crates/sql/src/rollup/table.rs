use super::kind::Kind;
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

/// The columns of sums: those of the data set as far as they can be summed, with `rows` of them, and of what is sketched
/// the quantiles, the greatest, and the sketch they come from.
pub(super) fn schema(kind: &Kind) -> SchemaRef {
    let number = |name: &str| Field::new(name, DataType::Int64, false);
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let mut fields = vec![number("slot_start_ns"), Field::new("time", time, false)];
    fields.extend(kind.keys.iter().map(|name| number(name)));
    fields.extend(kind.names.iter().map(|name| Field::new(*name, DataType::Utf8, true)));
    fields.push(number("rows"));
    fields.extend(kind.summed.iter().map(|name| Field::new(*name, DataType::Int64, true)));
    for of in kind.sketched {
        let (name, unit) = (of.name, of.unit);
        for (quantile, _) in QUANTILES {
            let column = format!("{name}_{quantile}_{unit}");
            fields.push(Field::new(column, DataType::Float64, true));
        }
        fields.push(Field::new(format!("{name}_max_{unit}"), DataType::Float64, true));
        fields.push(Field::new(format!("{name}_sketch"), DataType::Binary, true));
    }
    Arc::new(Schema::new(fields))
}

/// Everybody's sums of one second or minute.
pub(super) fn batch(kind: &Kind, start_ns: i64, sums: &Slot) -> Result<RecordBatch, ArrowError> {
    let all = || sums.iter();
    let numbers = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let times: TimestampMicrosecondArray = all().map(|_| Some(start_ns / 1_000)).collect();
    let mut columns: Vec<ArrayRef> =
        vec![numbers(all().map(|_| start_ns).collect()), Arc::new(times.with_timezone("UTC"))];
    for at in 0..kind.keys.len() {
        columns.push(numbers(all().map(|(keys, _)| keys[at]).collect()));
    }
    for at in 0..kind.names.len() {
        let names: StringArray = all().map(|(_, sum)| sum.names[at].as_deref()).collect();
        columns.push(Arc::new(names));
    }
    columns.push(numbers(all().map(|(_, sum)| sum.rows).collect()));
    for at in 0..kind.summed.len() {
        let values: Int64Array = all().map(|(_, sum)| sum.values[at]).collect();
        columns.push(Arc::new(values));
    }
    for at in 0..kind.sketched.len() {
        let sketches: Vec<&DDSketch> = all().map(|(_, sum)| &sum.sketches[at]).collect();
        for (_, at) in QUANTILES {
            let quantile = |sketch: &&DDSketch| sketch.quantile(at).ok().flatten();
            columns.push(Arc::new(sketches.iter().map(quantile).collect::<Float64Array>()));
        }
        // What nothing was ever measured of has no greatest either.
        let greatest = |sketch: &&DDSketch| sketch.max().filter(|_| sketch.count() > 0);
        columns.push(Arc::new(sketches.iter().map(greatest).collect::<Float64Array>()));
        let bytes: Vec<Option<Vec<u8>>> =
            sketches.iter().map(|one| (one.count() > 0).then(|| one.to_java_bytes())).collect();
        columns.push(Arc::new(bytes.iter().map(|one| one.as_deref()).collect::<BinaryArray>()));
    }
    RecordBatch::try_new(schema(kind), columns)
}
