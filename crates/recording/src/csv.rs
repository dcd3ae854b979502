//! Tables as CSV text (RFC 4180), an absent value being an empty field.
//!
//! Written by hand because it is the recorder's hot path: a generic writer formats every value
//! through a trait object and costs several times as much a row.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Schema};
use jiff::Timestamp;
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
    let mut columns: Vec<Text<'_>> = batch.columns().iter().map(|c| Text::of(c)).collect();
    let mut number = itoa::Buffer::new();
    for row in 0..batch.num_rows() {
        for (i, column) in columns.iter_mut().enumerate() {
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
    Int(&'a arrow_array::Int64Array),
    Time(&'a arrow_array::TimestampMicrosecondArray, Second),
    Float(&'a arrow_array::Float64Array),
    Flag(&'a arrow_array::BooleanArray),
    Utf8(&'a arrow_array::StringArray),
}

impl<'a> Text<'a> {
    fn of(column: &'a dyn Array) -> Self {
        match column.data_type() {
            DataType::Int64 => Self::Int(column.as_primitive::<Int64Type>()),
            DataType::Timestamp(..) => {
                Self::Time(column.as_primitive::<TimestampMicrosecondType>(), Second::default())
            }
            DataType::Float64 => Self::Float(column.as_primitive::<Float64Type>()),
            DataType::Boolean => Self::Flag(column.as_boolean()),
            DataType::Utf8 => Self::Utf8(column.as_string()),
            other => unreachable!("no data set has a column of type {other}"),
        }
    }

    fn append(&mut self, row: usize, number: &mut itoa::Buffer, out: &mut Vec<u8>) {
        match self {
            Self::Int(c) if c.is_valid(row) => {
                out.extend_from_slice(number.format(c.value(row)).as_bytes());
            }
            Self::Time(c, second) if c.is_valid(row) => second.append(c.value(row), out),
            // The shortest text that reads back as the same number.
            Self::Float(c) if c.is_valid(row) => {
                let _ = write!(out, "{}", c.value(row));
            }
            Self::Flag(c) if c.is_valid(row) => {
                out.extend_from_slice(if c.value(row) { b"true" } else { b"false" });
            }
            Self::Utf8(c) if c.is_valid(row) => quoted(c.value(row), out),
            _ => {}
        }
    }
}

/// The text of the second that the last time was in: a thousand rows in a row share it.
#[derive(Default)]
struct Second {
    number: i64,
    text: Vec<u8>,
}

impl Second {
    /// `2026-11-15T21:59:59.123Z`, with microseconds where a slot is no whole millisecond.
    fn append(&mut self, micros: i64, out: &mut Vec<u8>) {
        let (second, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
        if self.text.is_empty() || second != self.number {
            let time = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
            self.number = second;
            self.text.clear();
            let _ = write!(self.text, "{}", time.strftime("%Y-%m-%dT%H:%M:%S."));
        }
        out.extend_from_slice(&self.text);
        let (digits, fraction) =
            if fraction % 1_000 == 0 { (3, fraction / 1_000) } else { (6, fraction) };
        let start = out.len();
        out.resize(start + digits, b'0');
        let mut rest = fraction;
        for digit in out[start..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.push(b'Z');
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
    use crate::table::tests::{batch, probed, task};

    #[test]
    fn an_absent_value_is_an_empty_field_and_a_name_with_commas_is_quoted() {
        let batch = batch(&[task(1, 2)]);
        let mut out = Vec::new();
        header(&batch.schema(), &mut out);
        rows(&batch, &mut out);
        let text = String::from_utf8(out).unwrap();
        let mut lines = text.lines();
        assert!(lines.next().unwrap().starts_with("slot_start_ns,time,pid,process_start_ns,comm,"));
        assert_eq!(
            lines.next().unwrap(),
            "1700000000001000000,2023-11-14T22:13:20.001Z,2,1600000000000000000,\"a,\"\"b\"\"\",0,\
             ,,,,,7919,1,3,1,0,0,42,,,,,,,"
        );
    }

    #[test]
    fn a_measured_number_reads_back_as_itself() {
        let mut out = Vec::new();
        rows(&batch(&[probed(Some(0.1 + 0.2)), probed(None)]), &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "1700000000000000000,2023-11-14T22:13:20.000Z,1700000000000000000,1,0,0.30000000000000004,17000000000,\
             3.25,,quiet,0.875,,\n\
             1700000000000000000,2023-11-14T22:13:20.000Z,1700000000000000000,,0,,,,,quiet,0.875,,\n"
        );
    }

    #[test]
    fn a_time_between_milliseconds_keeps_its_microseconds() {
        let mut out = Vec::new();
        let mut second = Second::default();
        second.append(1_700_000_000_000_100, &mut out);
        second.append(-1, &mut out);
        assert_eq!(out, b"2023-11-14T22:13:20.000100Z1969-12-31T23:59:59.999999Z");
    }
}
