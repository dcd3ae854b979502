//! A series with labels added.
//!
//! Labels that were written one directly after another in a 1.0 body are copied in runs, without looking inside.

use super::v1::{contents_len, label_field_len, write_contents, write_label};
use super::write::{BYTES, tag, varint};
use crate::check::is_before;
use crate::series::{Label, Series};

/// Labels that can be added to copied ones.
const MAX_ADDED: usize = 12;

/// Whether the labels of `series` came in a form that can be copied.
pub(super) fn can_copy(series: &Series<'_, '_>, added: &[Label<'_>]) -> bool {
    !series.encoded.body.is_empty() && added.len() <= MAX_ADDED
}

/// Where an added label goes.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Before this label of the series.
    at: usize,
    /// Whether it takes that label's place.
    replaces: bool,
}

/// Writes a series whose labels can be copied.
pub(super) fn series(
    out: &mut Vec<u8>,
    name_prefix: &str,
    series: &Series<'_, '_>,
    added: &[Label<'_>],
) {
    let bounds = series.encoded.bounds;
    let field_len = |at: usize| (bounds[at + 1] - bounds[at]) as usize;
    let name = &series.labels[series.name_at];
    let mut length = (bounds[series.labels.len()] - bounds[0]) as usize + contents_len(series);
    length = length - field_len(series.name_at) + label_field_len(name_prefix, name);

    let mut places = [Place::default(); MAX_ADDED];
    let mut at = 0;
    for (label, place) in added.iter().zip(&mut places) {
        while at < series.labels.len() && is_before(series.labels[at].name, label.name) {
            at += 1;
        }
        *place =
            Place { at, replaces: series.labels.get(at).is_some_and(|l| l.name == label.name) };
        if place.replaces {
            length -= field_len(at);
            at += 1;
        }
        if !label.value.is_empty() {
            length += label_field_len("", label);
        }
    }

    out.reserve(length + 8);
    tag(out, 1, BYTES);
    varint(out, length as u64);
    let mut from = 0;
    for (label, place) in added.iter().zip(&places) {
        copy(out, name_prefix, series, from, place.at);
        if !label.value.is_empty() {
            write_label(out, "", label);
        }
        from = place.at + usize::from(place.replaces);
    }
    copy(out, name_prefix, series, from, series.labels.len());
    write_contents(out, series);
}

/// Copies the labels in `from..to`; the metric's name among them gets its prefix.
#[inline]
fn copy(out: &mut Vec<u8>, name_prefix: &str, series: &Series<'_, '_>, from: usize, to: usize) {
    let (body, bounds) = (series.encoded.body, series.encoded.bounds);
    let bytes = |from: usize, to: usize| &body[bounds[from] as usize..bounds[to] as usize];
    let name_at = series.name_at;
    if (from..to).contains(&name_at) {
        out.extend_from_slice(bytes(from, name_at));
        write_label(out, name_prefix, &series.labels[name_at]);
        out.extend_from_slice(bytes(name_at + 1, to));
    } else if from < to {
        out.extend_from_slice(bytes(from, to));
    }
}

/// The labels of a series with others among them, both sorted; the others win.
pub(super) fn merge<'a>(out: &mut Vec<Label<'a>>, labels: &[Label<'a>], added: &[Label<'a>]) {
    let mut rest = labels;
    for label in added {
        let (before, from) = rest.split_at(rest.partition_point(|other| other.name < label.name));
        out.extend_from_slice(before);
        out.push(*label);
        let replaced = from.first().is_some_and(|other| other.name == label.name);
        rest = &from[usize::from(replaced)..];
    }
    out.extend_from_slice(rest);
}
