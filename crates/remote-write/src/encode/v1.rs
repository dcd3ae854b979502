//! `prometheus.WriteRequest`; the field numbers stand in the decoder's module.

use super::write::{
    BYTES, bytes_field, bytes_field_len, double_field, double_field_len, tag, varint, varint_field,
    varint_field_len,
};
use crate::check::is_metric_name;
use crate::series::{Exemplar, Label, Metadata, Sample, Series};

pub(super) fn series(
    out: &mut Vec<u8>,
    name_prefix: &str,
    labels: &[Label<'_>],
    series: &Series<'_, '_>,
) {
    let length = labels_len(name_prefix, labels) + contents_len(series);
    tag(out, 1, BYTES);
    varint(out, length as u64);
    write_labels(out, name_prefix, labels);
    write_contents(out, series);
}

/// Bytes of everything in a series but its labels.
#[inline]
pub(super) fn contents_len(series: &Series<'_, '_>) -> usize {
    let samples = series.samples.iter().map(|sample| bytes_field_len(sample_len(sample)));
    let exemplars = series.exemplars().map(|exemplar| bytes_field_len(exemplar_len(&exemplar)));
    let histograms = series.histograms.iter().map(|h| bytes_field_len(h.message.len()));
    samples.sum::<usize>() + exemplars.sum::<usize>() + histograms.sum::<usize>()
}

/// Everything in a series but its labels.
#[inline]
pub(super) fn write_contents(out: &mut Vec<u8>, series: &Series<'_, '_>) {
    for sample in series.samples {
        tag(out, 2, BYTES);
        varint(out, sample_len(sample) as u64);
        double_field(out, 1, sample.value);
        varint_field(out, 2, sample.timestamp as u64);
    }
    for exemplar in series.exemplars() {
        tag(out, 3, BYTES);
        varint(out, exemplar_len(&exemplar) as u64);
        write_labels(out, "", exemplar.labels);
        double_field(out, 2, exemplar.value);
        varint_field(out, 3, exemplar.timestamp as u64);
    }
    for histogram in series.histograms {
        bytes_field(out, 4, histogram.message);
    }
}

pub(super) fn metadata(out: &mut Vec<u8>, name_prefix: &str, metadata: &Metadata<'_>) {
    let about = &metadata.about;
    let kind = i64::from(about.kind) as u64;
    let optional_len = |text: &str| if text.is_empty() { 0 } else { bytes_field_len(text.len()) };
    let family_len = name_prefix.len() + metadata.family.len();
    let length = varint_field_len(kind)
        + bytes_field_len(family_len)
        + optional_len(about.help)
        + optional_len(about.unit);
    tag(out, 3, BYTES);
    varint(out, length as u64);
    varint_field(out, 1, kind);
    prefixed_field(out, 2, name_prefix, metadata.family);
    for (field, text) in [(4, about.help), (5, about.unit)] {
        if !text.is_empty() {
            bytes_field(out, field, text.as_bytes());
        }
    }
}

#[inline]
fn sample_len(sample: &Sample) -> usize {
    double_field_len(sample.value) + varint_field_len(sample.timestamp as u64)
}

fn exemplar_len(exemplar: &Exemplar<'_, '_>) -> usize {
    labels_len("", exemplar.labels)
        + double_field_len(exemplar.value)
        + varint_field_len(exemplar.timestamp as u64)
}

#[inline]
fn prefix_of<'p>(label: &Label<'_>, name_prefix: &'p str) -> &'p str {
    if is_metric_name(label.name) { name_prefix } else { "" }
}

fn labels_len(name_prefix: &str, labels: &[Label<'_>]) -> usize {
    let present = labels.iter().filter(|label| !label.value.is_empty());
    present.map(|label| label_field_len(prefix_of(label, name_prefix), label)).sum()
}

#[inline]
fn label_len(prefix: &str, label: &Label<'_>) -> usize {
    bytes_field_len(label.name.len()) + bytes_field_len(prefix.len() + label.value.len())
}

fn write_labels(out: &mut Vec<u8>, name_prefix: &str, labels: &[Label<'_>]) {
    for label in labels.iter().filter(|label| !label.value.is_empty()) {
        write_label(out, prefix_of(label, name_prefix), label);
    }
}

/// One label as a field of its series, its value prefixed.
#[inline]
pub(super) fn write_label(out: &mut Vec<u8>, prefix: &str, label: &Label<'_>) {
    let (name, value) = (label.name.len(), prefix.len() + label.value.len());
    if name + value < 120 {
        // All lengths are below 128 and take a byte each.
        let (name_byte, value_byte) = (name as u8, value as u8);
        out.extend_from_slice(&[0x0a, name_byte + value_byte + 4, 0x0a, name_byte]);
        out.extend_from_slice(label.name.as_bytes());
        out.extend_from_slice(&[0x12, value_byte]);
        out.extend_from_slice(prefix.as_bytes());
        out.extend_from_slice(label.value.as_bytes());
        return;
    }
    tag(out, 1, BYTES);
    varint(out, label_len(prefix, label) as u64);
    bytes_field(out, 1, label.name.as_bytes());
    prefixed_field(out, 2, prefix, label.value);
}

/// Bytes of that field.
#[inline]
pub(super) fn label_field_len(prefix: &str, label: &Label<'_>) -> usize {
    bytes_field_len(label_len(prefix, label))
}

#[inline]
fn prefixed_field(out: &mut Vec<u8>, field: u8, prefix: &str, text: &str) {
    tag(out, field, BYTES);
    varint(out, (prefix.len() + text.len()) as u64);
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(text.as_bytes());
}
