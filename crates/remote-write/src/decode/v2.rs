//! `io.prometheus.write.v2.Request`.
//!
//! ```text
//! Request    4 symbols*  5 timeseries*
//! TimeSeries 1 labels_refs*  2 samples*  3 histograms*  4 exemplars*  5 metadata
//! Exemplar   1 labels_refs*  2 value  3 timestamp
//! Metadata   1 type  3 help_ref  4 unit_ref
//! ```
//!
//! Fields may come in any order, so the symbols are gathered in a walk of their own before any series is read.

use super::series::{Scratch, histogram, sample};
use super::{Outcome, Receiver, Stop};
use crate::check::Rejection;
use crate::error::Error;
use crate::limits::Limits;
use crate::series::{ExemplarSlot, Label};
use crate::wire::{Fields, Value, repeated_varints};

pub(super) fn decode<'b>(
    body: &'b [u8],
    limits: &Limits,
    symbols: &mut Vec<&'b str>,
    scratch: &mut Scratch<'b>,
    receiver: &mut impl Receiver<'b>,
) -> Result<Outcome, Stop> {
    gather_symbols(body, limits, symbols)?;
    let mut outcome = Outcome::default();
    let mut request = Fields::new(body, 0);
    while let Some((field, value)) = request.next()? {
        if field != 5 {
            continue;
        }
        if outcome.series + outcome.rejected == limits.max_series {
            return Err(Stop::Refused(Error::TooManySeries { limit: limits.max_series }));
        }
        let (bytes, base) = value.bytes(0)?;
        series(bytes, base, limits, symbols, scratch)?;
        scratch.finish_series(body, limits, &mut outcome, receiver);
    }
    Ok(outcome)
}

fn gather_symbols<'b>(
    body: &'b [u8],
    limits: &Limits,
    symbols: &mut Vec<&'b str>,
) -> Result<(), Stop> {
    let mut request = Fields::new(body, 0);
    while let Some((field, value)) = request.next()? {
        match field {
            4 => {
                if symbols.len() == limits.max_symbols {
                    return Err(Stop::Refused(Error::TooManySymbols { limit: limits.max_symbols }));
                }
                symbols.push(value.string(0)?);
            }
            // Series and metadata of 1.0: our message keeps clear of those fields so that the two can be told apart.
            1 | 3 => return Err(Stop::OtherProtocol(field)),
            _ => {}
        }
    }
    match symbols.first() {
        Some(first) if !first.is_empty() => Err(Stop::Refused(Error::FirstSymbolNotEmpty)),
        _ => Ok(()),
    }
}

fn series<'b>(
    bytes: &'b [u8],
    base: usize,
    limits: &Limits,
    symbols: &[&'b str],
    scratch: &mut Scratch<'b>,
) -> Result<(), Stop> {
    scratch.start_series();
    let mut fields = Fields::new(bytes, base);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => references(value, base, limits, scratch)?,
            2 => {
                scratch.count_entry(limits)?;
                let (bytes, base) = value.bytes(base)?;
                scratch.samples.push(sample(bytes, base, true)?);
            }
            3 => {
                scratch.count_entry(limits)?;
                let (bytes, base) = value.bytes(base)?;
                scratch.histograms.push(histogram(bytes, base, true)?);
            }
            4 => {
                scratch.count_entry(limits)?;
                let (bytes, base) = value.bytes(base)?;
                exemplar(bytes, base, limits, symbols, scratch)?;
            }
            5 => {
                let (bytes, base) = value.bytes(base)?;
                metadata(bytes, base, symbols, scratch)?;
            }
            _ => {}
        }
    }
    resolve_labels(limits, symbols, scratch);
    match (scratch.samples.is_empty(), scratch.histograms.is_empty()) {
        (true, true) => scratch.reject(Rejection::Empty),
        (false, false) => scratch.reject(Rejection::SamplesAndHistograms),
        _ => {}
    }
    Ok(())
}

/// Keeps the references of a series; those past the label limit are counted only.
fn references(
    value: Value<'_>,
    base: usize,
    limits: &Limits,
    scratch: &mut Scratch<'_>,
) -> Result<(), Stop> {
    let Scratch { references, label_count, .. } = scratch;
    repeated_varints(value, base, |reference| {
        *label_count += 1;
        if references.len() < limits.max_labels.saturating_mul(2) {
            references.push(reference as u32);
        }
    })?;
    Ok(())
}

fn resolve_labels<'b>(limits: &Limits, symbols: &[&'b str], scratch: &mut Scratch<'b>) {
    let count = scratch.label_count;
    scratch.label_count = count / 2;
    if count % 2 == 1 {
        scratch.reject(Rejection::OddReferences(count));
    }
    let references = std::mem::take(&mut scratch.references);
    for pair in references.chunks_exact(2).take(limits.max_labels) {
        match label(pair, symbols) {
            Ok(label) => scratch.labels.push(label),
            Err(reason) => scratch.reject(reason),
        }
    }
    scratch.references = references;
}

#[inline]
fn label<'b>(pair: &[u32], symbols: &[&'b str]) -> Result<Label<'b>, Rejection> {
    Ok(Label { name: symbol(pair[0], symbols)?, value: symbol(pair[1], symbols)? })
}

#[inline]
fn symbol<'b>(reference: u32, symbols: &[&'b str]) -> Result<&'b str, Rejection> {
    symbols
        .get(reference as usize)
        .copied()
        .ok_or(Rejection::ReferenceOutOfRange { reference, symbols: symbols.len() })
}

fn exemplar<'b>(
    bytes: &'b [u8],
    base: usize,
    limits: &Limits,
    symbols: &[&'b str],
    scratch: &mut Scratch<'b>,
) -> Result<(), Stop> {
    let start = scratch.exemplar_labels.len() as u32;
    let mut slot = ExemplarSlot { labels: start..start, value: 0.0, timestamp: 0 };
    let mut count = 0;
    let mut name = 0;
    let mut fields = Fields::new(bytes, base);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => repeated_varints(value, base, |reference| {
                count += 1;
                if count % 2 == 1 {
                    name = reference as u32;
                } else if count / 2 <= limits.max_labels {
                    match label(&[name, reference as u32], symbols) {
                        Ok(label) => scratch.exemplar_labels.push(label),
                        Err(reason) => scratch.reject(reason),
                    }
                }
            })?,
            2 => slot.value = f64::from_bits(value.fixed64(base)?),
            3 => slot.timestamp = value.varint(base)? as i64,
            _ => {}
        }
    }
    if count % 2 == 1 {
        scratch.reject(Rejection::OddReferences(count));
    }
    if count / 2 > limits.max_labels {
        let (count, limit) = (count / 2, limits.max_labels);
        scratch.reject(Rejection::TooManyLabels { count, limit });
    }
    slot.labels.end = scratch.exemplar_labels.len() as u32;
    scratch.exemplars.push(slot);
    Ok(())
}

fn metadata<'b>(
    bytes: &'b [u8],
    base: usize,
    symbols: &[&'b str],
    scratch: &mut Scratch<'b>,
) -> Result<(), Stop> {
    let mut fields = Fields::new(bytes, base);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => scratch.metadata.kind = value.varint(base)? as i32,
            3 | 4 => match symbol(value.varint(base)? as u32, symbols) {
                Ok(text) if field == 3 => scratch.metadata.help = text,
                Ok(text) => scratch.metadata.unit = text,
                Err(reason) => scratch.reject(reason),
            },
            _ => {}
        }
    }
    Ok(())
}
