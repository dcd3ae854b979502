//! One `io.prometheus.write.v2.TimeSeries`; the field numbers stand in the decoder's module.

use super::symbols::Symbols;
use super::write::{
    BYTES, bytes_field, double_field, double_field_len, tag, varint, varint_field,
    varint_field_len, varint_len,
};
use crate::series::{Label, Sample, Series};

pub(super) fn series(
    out: &mut Vec<u8>,
    symbols: &mut Symbols,
    name_prefix: &str,
    labels: &[Label<'_>],
    series: &Series<'_, '_>,
) {
    references(out, symbols, name_prefix, labels);
    for sample in series.samples {
        tag(out, 2, BYTES);
        varint(out, sample_len(sample) as u64);
        double_field(out, 1, sample.value);
        varint_field(out, 2, sample.timestamp as u64);
        varint_field(out, 3, sample.start_timestamp as u64);
    }
    for histogram in series.histograms {
        bytes_field(out, 3, histogram.message);
    }
    for exemplar in series.exemplars() {
        let mut length = references_len(symbols, "", exemplar.labels);
        length += double_field_len(exemplar.value) + varint_field_len(exemplar.timestamp as u64);
        tag(out, 4, BYTES);
        varint(out, length as u64);
        references(out, symbols, "", exemplar.labels);
        double_field(out, 2, exemplar.value);
        varint_field(out, 3, exemplar.timestamp as u64);
    }
    let about = &series.metadata;
    if !about.is_empty() {
        let kind = i64::from(about.kind) as u64;
        let help = u64::from(symbols.intern("", about.help).0);
        let unit = u64::from(symbols.intern("", about.unit).0);
        let length = varint_field_len(kind) + varint_field_len(help) + varint_field_len(unit);
        tag(out, 5, BYTES);
        varint(out, length as u64);
        varint_field(out, 1, kind);
        varint_field(out, 3, help);
        varint_field(out, 4, unit);
    }
}

#[inline]
fn sample_len(sample: &Sample) -> usize {
    double_field_len(sample.value)
        + varint_field_len(sample.timestamp as u64)
        + varint_field_len(sample.start_timestamp as u64)
}

/// Calls `each` with the references of every label that has a value.
fn each_reference(
    symbols: &mut Symbols,
    name_prefix: &str,
    labels: &[Label<'_>],
    mut each: impl FnMut(u32),
) {
    for label in labels.iter().filter(|label| !label.value.is_empty()) {
        let prefix = if label.name == "__name__" { name_prefix } else { "" };
        each(symbols.intern("", label.name).0);
        each(symbols.intern(prefix, label.value).0);
    }
}

/// Bytes of the packed references without their tag and length.
fn packed_len(symbols: &mut Symbols, name_prefix: &str, labels: &[Label<'_>]) -> usize {
    let mut length = 0;
    each_reference(symbols, name_prefix, labels, |number| length += varint_len(u64::from(number)));
    length
}

fn references_len(symbols: &mut Symbols, name_prefix: &str, labels: &[Label<'_>]) -> usize {
    match packed_len(symbols, name_prefix, labels) {
        0 => 0,
        length => 1 + varint_len(length as u64) + length,
    }
}

fn references(out: &mut Vec<u8>, symbols: &mut Symbols, name_prefix: &str, labels: &[Label<'_>]) {
    let length = packed_len(symbols, name_prefix, labels);
    if length == 0 {
        return;
    }
    tag(out, 1, BYTES);
    varint(out, length as u64);
    each_reference(symbols, name_prefix, labels, |number| varint(out, u64::from(number)));
}
