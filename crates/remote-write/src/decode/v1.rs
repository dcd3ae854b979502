//! `prometheus.WriteRequest`.
//!
//! ```text
//! WriteRequest   1 timeseries*  3 metadata*
//! TimeSeries     1 labels*  2 samples*  3 exemplars*  4 histograms*
//! Exemplar       1 labels*  2 value  3 timestamp
//! MetricMetadata 1 type  2 metric_family_name  4 help  5 unit
//! ```

use super::series::{Scratch, histogram, plain_sample, sample};
use super::{Outcome, Receiver, Stop};
use crate::check::Rejection;
use crate::error::Error;
use crate::limits::Limits;
use crate::series::{ExemplarSlot, Label, Metadata};
use crate::wire::{Fields, Parsed};

pub(super) fn decode<'b>(
    body: &'b [u8],
    limits: &Limits,
    scratch: &mut Scratch<'b>,
    receiver: &mut impl Receiver<'b>,
) -> Result<Outcome, Stop> {
    let mut outcome = Outcome::default();
    let mut request = Fields::new(body, 0);
    while let Some((field, value)) = request.next()? {
        match field {
            1 => {
                if outcome.series + outcome.rejected == limits.max_series {
                    return Err(Stop::Refused(Error::TooManySeries { limit: limits.max_series }));
                }
                let (bytes, base) = value.bytes(0)?;
                series(bytes, base, limits, scratch)?;
                scratch.finish_series(body, limits, &mut outcome, receiver);
            }
            3 => {
                let (bytes, base) = value.bytes(0)?;
                receiver.metadata(&metadata(bytes, base)?);
            }
            _ => {}
        }
    }
    Ok(outcome)
}

fn series<'b>(
    bytes: &'b [u8],
    base: usize,
    limits: &Limits,
    scratch: &mut Scratch<'b>,
) -> Result<(), Stop> {
    scratch.start_series();
    let mut fields = Fields::new(bytes, base);
    plain_labels(&mut fields, limits, scratch);
    plain_samples(&mut fields, limits, scratch)?;
    // Whatever is left, in any order.
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => {
                let (bytes, base) = value.bytes(base)?;
                let label = label(bytes, base)?;
                scratch.copyable = false;
                scratch.label_count += 1;
                if scratch.label_count <= limits.max_labels {
                    scratch.labels.push(label);
                }
            }
            2 => {
                scratch.count_entry(limits)?;
                let (bytes, base) = value.bytes(base)?;
                scratch.samples.push(sample(bytes, base, false)?);
            }
            3 => {
                scratch.count_entry(limits)?;
                let (bytes, base) = value.bytes(base)?;
                exemplar(bytes, base, limits, scratch)?;
            }
            4 => {
                scratch.count_entry(limits)?;
                let (bytes, base) = value.bytes(base)?;
                scratch.histograms.push(histogram(bytes, base, false)?);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Takes labels for as long as they are written the plain way.
#[inline]
fn plain_labels<'b>(fields: &mut Fields<'b>, limits: &Limits, scratch: &mut Scratch<'b>) {
    scratch.copyable = true;
    let mut ahead = fields.clone();
    while scratch.labels.len() < limits.max_labels
        && let Some((0x0a, bytes, start)) = ahead.next_short()
        && let Some(label) = plain_label(bytes)
    {
        scratch.labels.push(label);
        scratch.bounds.push(start as u32);
        *fields = ahead.clone();
    }
    scratch.bounds.push(fields.offset() as u32);
    scratch.label_count = scratch.labels.len();
}

/// A label with its name first and its value second, both short and not empty; `None` for any other form.
#[inline(always)]
fn plain_label(bytes: &[u8]) -> Option<Label<'_>> {
    let [0x0a, name_length, rest @ ..] = bytes else { return None };
    let name_length = usize::from(*name_length);
    let [0x12, value_length, value @ ..] = rest.get(name_length..)? else { return None };
    if usize::from(*value_length) != value.len() || value.is_empty() || name_length == 0 {
        return None;
    }
    // Tags and lengths below 0x80 are ASCII themselves: when the whole is UTF-8, so are the two parts.
    let text = std::str::from_utf8(bytes).ok()?;
    Some(Label { name: text.get(2..2 + name_length)?, value: text.get(4 + name_length..)? })
}

/// Takes samples for as long as they are written the plain way.
#[inline]
fn plain_samples<'b>(
    fields: &mut Fields<'b>,
    limits: &Limits,
    scratch: &mut Scratch<'b>,
) -> Result<(), Stop> {
    let mut ahead = fields.clone();
    while let Some((0x12, bytes, _)) = ahead.next_short()
        && let Some(sample) = plain_sample(bytes)
    {
        scratch.count_entry(limits)?;
        scratch.samples.push(sample);
        *fields = ahead.clone();
    }
    Ok(())
}

#[inline]
fn label<'b>(bytes: &'b [u8], base: usize) -> Parsed<Label<'b>> {
    let mut label = Label { name: "", value: "" };
    let mut fields = Fields::new(bytes, base);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => label.name = value.string(base)?,
            2 => label.value = value.string(base)?,
            _ => {}
        }
    }
    Ok(label)
}

fn exemplar<'b>(
    bytes: &'b [u8],
    base: usize,
    limits: &Limits,
    scratch: &mut Scratch<'b>,
) -> Parsed<()> {
    let start = scratch.exemplar_labels.len() as u32;
    let mut slot = ExemplarSlot { labels: start..start, value: 0.0, timestamp: 0 };
    let mut count = 0;
    let mut fields = Fields::new(bytes, base);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => {
                let (bytes, base) = value.bytes(base)?;
                let label = label(bytes, base)?;
                count += 1;
                if count <= limits.max_labels {
                    scratch.exemplar_labels.push(label);
                }
            }
            2 => slot.value = f64::from_bits(value.fixed64(base)?),
            3 => slot.timestamp = value.varint(base)? as i64,
            _ => {}
        }
    }
    if count > limits.max_labels {
        scratch.reject(Rejection::TooManyLabels { count, limit: limits.max_labels });
    }
    slot.labels.end = scratch.exemplar_labels.len() as u32;
    scratch.exemplars.push(slot);
    Ok(())
}

fn metadata<'b>(bytes: &'b [u8], base: usize) -> Parsed<Metadata<'b>> {
    let mut metadata = Metadata::default();
    let mut fields = Fields::new(bytes, base);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => metadata.about.kind = value.varint(base)? as i32,
            2 => metadata.family = value.string(base)?,
            4 => metadata.about.help = value.string(base)?,
            5 => metadata.about.unit = value.string(base)?,
            _ => {}
        }
    }
    Ok(metadata)
}
