//! `prometheus.WriteRequest`.
//!
//! ```text
//! WriteRequest   1 timeseries*  3 metadata*
//! TimeSeries     1 labels*  2 samples*  3 exemplars*  4 histograms*
//! Exemplar       1 labels*  2 value  3 timestamp
//! MetricMetadata 1 type  2 metric_family_name  4 help  5 unit
//! ```

use super::series::{Scratch, histogram, plain_sample, sample};
use super::{Outcome, RawSeries, Receiver, Stop};
use crate::check::Rejection;
use crate::error::Error;
use crate::limits::Limits;
use crate::series::{ExemplarSlot, Label, Metadata, Sample};
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
                if let Some(raw) = raw(bytes)
                    && receiver.raw(&raw)
                {
                    scratch.count_entries(raw.count, limits)?;
                    outcome.series += 1;
                    outcome.written.samples += raw.count;
                    continue;
                }
                series(bytes, base, limits, scratch)?;
                scratch.finish_series(body, limits, &mut outcome, receiver);
            }
            3 => {
                let (bytes, base) = value.bytes(0)?;
                receiver.metadata(&metadata(bytes, base)?);
            }
            // Symbols and series of 2.0, which keeps clear of our fields so that the two can be told apart.
            4 | 5 => return Err(Stop::OtherProtocol(field)),
            _ => {}
        }
    }
    Ok(outcome)
}

/// A series without looking inside its labels, if it is of the plain kind.
#[inline]
fn raw(bytes: &[u8]) -> Option<RawSeries<'_>> {
    let mut at = 0;
    while let [0x0a, length, ..] = bytes[at..]
        && length < 0x80
    {
        at = (at + 2 + usize::from(length)).min(bytes.len());
    }
    let (labels, samples) = bytes.split_at(at);
    let mut fields = Fields::new(samples, 0);
    let mut last: Option<Sample> = None;
    let (mut count, mut first_timestamp, mut negative) = (0, 0, false);
    while let Some((0x12, bytes, _)) = fields.next_short() {
        let sample = plain_sample(bytes)?;
        match last {
            // A moment may be repeated with its value; anything else that is not in order is told off elsewhere.
            Some(last) if sample.timestamp <= last.timestamp && sample != last => return None,
            Some(_) => {}
            None => first_timestamp = sample.timestamp,
        }
        negative |= sample.value < 0.0;
        count += 1;
        last = Some(sample);
    }
    let last_timestamp = last?.timestamp;
    (fields.offset() == samples.len()).then_some(RawSeries {
        labels,
        samples,
        count,
        first_timestamp,
        last_timestamp,
        negative,
    })
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
    let mut ahead = fields.clone();
    let mut after = ahead.clone();
    while scratch.bounds.len() < limits.max_labels
        && let Some((0x0a, bytes, start)) = after.next_short()
        && is_plain_label(bytes)
    {
        scratch.bounds.push(start as u32);
        ahead = after.clone();
    }
    let run = fields.up_to(&ahead);
    scratch.bounds.push(ahead.offset() as u32);
    // Tags and lengths below 0x80 are ASCII themselves, so the labels can be checked in one go: when the whole run is
    // UTF-8, so is every part. When it is not, the slow way finds the place.
    let Ok(text) = std::str::from_utf8(run) else {
        scratch.bounds.clear();
        return;
    };
    let first = scratch.bounds[0];
    for bounds in scratch.bounds.windows(2) {
        let field = text.get((bounds[0] - first) as usize..(bounds[1] - first) as usize);
        let label = field.and_then(parts);
        scratch.labels.extend(label);
    }
    scratch.copyable = true;
    scratch.label_count = scratch.labels.len();
    *fields = ahead;
}

/// Whether a label has its name first and its value second, both short and not empty.
#[inline(always)]
fn is_plain_label(bytes: &[u8]) -> bool {
    let [0x0a, name_length, rest @ ..] = bytes else { return false };
    let Some([0x12, value_length, value @ ..]) = rest.get(usize::from(*name_length)..) else {
        return false;
    };
    usize::from(*value_length) == value.len() && !value.is_empty() && *name_length > 0
}

/// Name and value of such a label, from its whole field: a tag and a length before each of the three.
#[inline(always)]
fn parts(field: &str) -> Option<Label<'_>> {
    let name_end = 4 + usize::from(*field.as_bytes().get(3)?);
    Some(Label { name: field.get(4..name_end)?, value: field.get(name_end + 2..)? })
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
