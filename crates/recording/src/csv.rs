//! Tables as CSV text (RFC 4180), an absent value being an empty field.
//!
//! Written by hand because it is the recorder's hot path: a generic writer formats every value
//! through a trait object and costs several times as much a row.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use std::io::Write;

/// Appends the header line.
pub(crate) fn header(schema: &Schema, out: &mut Vec<u8>) {
    for (i, field) in schema.fields().iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(field.name().as_bytes());
    }
    out.push(b'\n');
}

/// Appends one line a row.
pub(crate) fn rows(batch: &RecordBatch, out: &mut Vec<u8>) {
    let columns: Vec<Text<'_>> = batch.columns().iter().map(|c| Text::of(c)).collect();
    let mut number = itoa::Buffer::new();
    for row in 0..batch.num_rows() {
        for (i, column) in columns.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            column.append(row, &mut number, out);
        }
        out.push(b'\n');
    }
}

/// A column whose type is known once instead of at every value.
enum Text<'a> {
    U64(&'a arrow_array::UInt64Array),
    U32(&'a arrow_array::UInt32Array),
    F64(&'a arrow_array::Float64Array),
    Bool(&'a arrow_array::BooleanArray),
    Utf8(&'a arrow_array::StringArray),
}

impl<'a> Text<'a> {
    fn of(column: &'a dyn Array) -> Self {
        match column.data_type() {
            DataType::UInt64 => Self::U64(column.as_primitive::<UInt64Type>()),
            DataType::UInt32 => Self::U32(column.as_primitive::<UInt32Type>()),
            DataType::Float64 => Self::F64(column.as_primitive::<Float64Type>()),
            DataType::Boolean => Self::Bool(column.as_boolean()),
            DataType::Utf8 => Self::Utf8(column.as_string()),
            other => unreachable!("no data set has a column of type {other}"),
        }
    }

    fn append(&self, row: usize, number: &mut itoa::Buffer, out: &mut Vec<u8>) {
        match self {
            Self::U64(c) if c.is_valid(row) => {
                out.extend_from_slice(number.format(c.value(row)).as_bytes());
            }
            Self::U32(c) if c.is_valid(row) => {
                out.extend_from_slice(number.format(c.value(row)).as_bytes());
            }
            // The shortest text that reads back as the same number.
            Self::F64(c) if c.is_valid(row) => {
                let _ = write!(out, "{}", c.value(row));
            }
            Self::Bool(c) if c.is_valid(row) => {
                out.extend_from_slice(if c.value(row) { b"true" } else { b"false" });
            }
            Self::Utf8(c) if c.is_valid(row) => quoted(c.value(row), out),
            _ => {}
        }
    }
}

fn quoted(text: &str, out: &mut Vec<u8>) {
    let plain = !text.is_empty() && !text.bytes().any(|b| matches!(b, b',' | b'"' | b'\n' | b'\r'));
    if plain {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::{probed, reading};
    use crate::table::{probe_batch, tasks_batch};
    use crosstalk_model::Placement;

    #[test]
    fn an_absent_value_is_an_empty_field_and_a_name_with_commas_is_quoted() {
        let place = Placement::default();
        let batch = tasks_batch(&[reading(1, 2)], |_| &place);
        let mut out = Vec::new();
        header(&batch.schema(), &mut out);
        rows(&batch, &mut out);
        let text = String::from_utf8(out).unwrap();
        let mut lines = text.lines();
        assert!(lines.next().unwrap().starts_with("slot_start_ns,pid,process_start_ns,comm,core,"));
        assert_eq!(
            lines.next().unwrap(),
            "1700000000001000000,2,1600000000000000000,\"a,\"\"b\"\"\",0,,,,,7919,1,3,1,0,42,,,,,0,"
        );
    }

    #[test]
    fn a_measured_number_reads_back_as_itself() {
        let mut out = Vec::new();
        rows(&probe_batch(&[probed(Some(0.1 + 0.2)), probed(None)]), &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "1700000000000000000,1,0,0.30000000000000004,17000000000,3.25,,quiet,0.875,\n\
             1700000000000000000,,0,,,,,quiet,0.875,\n"
        );
    }
}
