//! `prometheus.WriteRequest`.
//!
//! ```text
//! WriteRequest   1 timeseries*  3 metadata*
//! TimeSeries     1 labels*  2 samples*  3 exemplars*  4 histograms*
//! Exemplar       1 labels*  2 value  3 timestamp
//! MetricMetadata 1 type  2 metric_family_name  4 help  5 unit
//! ```

use super::series::{Scratch, histogram, sample};
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
                scratch.finish_series(limits, &mut outcome, receiver);
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
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => {
                let (bytes, base) = value.bytes(base)?;
                let label = label(bytes, base)?;
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
