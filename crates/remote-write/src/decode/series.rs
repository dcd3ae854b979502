//! The buffers one series is gathered in, and what both protocols do alike with it.

use super::{Outcome, Receiver, Stop, recycle};
use crate::check::{self, Checked, Rejection};
use crate::error::Error;
use crate::limits::Limits;
use crate::series::{Encoded, ExemplarSlot, Histogram, Label, Sample, Series, SeriesMetadata};
use crate::wire::{Fields, Parsed, Value, repeated_doubles, repeated_varints};

/// One series while it is read.
#[derive(Debug, Default)]
pub(crate) struct Scratch<'b> {
    pub(crate) labels: Vec<Label<'b>>,
    /// Labels seen, also those beyond the limit, which are not kept.
    pub(crate) label_count: usize,
    pub(crate) samples: Vec<Sample>,
    pub(crate) histograms: Vec<Histogram<'b>>,
    pub(crate) exemplars: Vec<ExemplarSlot>,
    pub(crate) exemplar_labels: Vec<Label<'b>>,
    pub(crate) metadata: SeriesMetadata<'b>,
    /// References of a 2.0 series and of its exemplars, resolved once the series is read.
    pub(crate) references: Vec<u32>,
    /// The first rule the series was seen to break while being read.
    pub(crate) rejection: Option<Rejection>,
    /// Samples, histograms and exemplars of the request so far.
    pub(crate) entries: usize,
    /// 1.0: where each label's field begins in the body, and where the last one ends.
    pub(crate) bounds: Vec<u32>,
    /// 1.0: whether all labels so far were written the plain way, one directly after another.
    pub(crate) copyable: bool,
}

impl<'b> Scratch<'b> {
    /// The same buffers for another body.
    pub(crate) fn recycle<'c>(self) -> Scratch<'c> {
        Scratch {
            labels: recycle(self.labels),
            label_count: 0,
            samples: self.samples,
            histograms: recycle(self.histograms),
            exemplars: self.exemplars,
            exemplar_labels: recycle(self.exemplar_labels),
            metadata: SeriesMetadata::default(),
            references: self.references,
            rejection: None,
            entries: 0,
            bounds: self.bounds,
            copyable: false,
        }
    }

    pub(crate) fn start_series(&mut self) {
        self.labels.clear();
        self.label_count = 0;
        self.samples.clear();
        self.histograms.clear();
        self.exemplars.clear();
        self.exemplar_labels.clear();
        self.metadata = SeriesMetadata::default();
        self.references.clear();
        self.rejection = None;
        self.bounds.clear();
        self.copyable = false;
    }

    pub(crate) fn count_entry(&mut self, limits: &Limits) -> Result<(), Stop> {
        self.count_entries(1, limits)
    }

    pub(crate) fn count_entries(&mut self, count: usize, limits: &Limits) -> Result<(), Stop> {
        self.entries += count;
        if self.entries > limits.max_samples {
            return Err(Stop::Refused(Error::TooManySamples { limit: limits.max_samples }));
        }
        Ok(())
    }

    pub(crate) fn reject(&mut self, reason: Rejection) {
        self.rejection.get_or_insert(reason);
    }

    /// Checks the gathered series and hands it on, or notes why not.
    pub(crate) fn finish_series(
        &mut self,
        body: &'b [u8],
        limits: &Limits,
        outcome: &mut Outcome,
        receiver: &mut impl Receiver<'b>,
    ) {
        match self.check(limits) {
            Ok(checked) => {
                let copyable = self.copyable && checked.as_they_came;
                let encoded =
                    Encoded { body: if copyable { body } else { &[] }, bounds: &self.bounds };
                outcome.series += 1;
                outcome.written.samples += self.samples.len();
                outcome.written.histograms += self.histograms.len();
                outcome.written.exemplars += self.exemplars.len();
                receiver.series(&Series {
                    labels: &self.labels,
                    samples: &self.samples,
                    histograms: &self.histograms,
                    metadata: self.metadata,
                    exemplars: &self.exemplars,
                    exemplar_labels: &self.exemplar_labels,
                    name_at: checked.name_at,
                    encoded,
                });
            }
            Err(reason) => outcome.reject(&self.labels, reason),
        }
    }

    fn check(&mut self, limits: &Limits) -> Result<Checked, Rejection> {
        if let Some(reason) = self.rejection.take() {
            return Err(reason);
        }
        if self.label_count > limits.max_labels {
            let (count, limit) = (self.label_count, limits.max_labels);
            return Err(Rejection::TooManyLabels { count, limit });
        }
        let checked = check::labels(&mut self.labels, limits)?;
        check::names_and_values(&self.exemplar_labels, limits)?;
        check::sample_order(&self.samples)?;
        check::histogram_order(self.histograms.iter().map(|histogram| histogram.timestamp))?;
        Ok(checked)
    }
}

/// A sample as every sender writes it: a double, then a timestamp. `None` for any other form.
#[inline(always)]
pub(crate) fn plain_sample(bytes: &[u8]) -> Option<Sample> {
    let [0x09, rest @ ..] = bytes else { return None };
    let (value, rest) = rest.split_first_chunk::<8>()?;
    let [0x10, varint @ ..] = rest else { return None };
    if varint.len() > 9 {
        return None;
    }
    let (last, before) = varint.split_last()?;
    let mut timestamp = u64::from(*last) << (7 * before.len());
    if *last >= 0x80 {
        return None;
    }
    for (place, byte) in before.iter().enumerate() {
        if *byte < 0x80 {
            return None;
        }
        timestamp |= u64::from(byte & 0x7f) << (7 * place);
    }
    Some(Sample::new(f64::from_bits(u64::from_le_bytes(*value)), timestamp as i64))
}

/// A sample: 1 value, 2 timestamp, 3 start timestamp (2.0; 1.0 has no field 3 and skips it).
#[inline]
pub(crate) fn sample(bytes: &[u8], base: usize, start_timestamps: bool) -> Parsed<Sample> {
    let mut sample = Sample::new(0.0, 0);
    let mut fields = Fields::new(bytes, base);
    while let Some((field, value)) = fields.next()? {
        match field {
            1 => sample.value = f64::from_bits(value.fixed64(base)?),
            2 => sample.timestamp = value.varint(base)? as i64,
            3 if start_timestamps => sample.start_timestamp = value.varint(base)? as i64,
            _ => {}
        }
    }
    Ok(sample)
}

/// A native histogram; every known field is checked for its wire type and the message kept whole.
pub(crate) fn histogram<'b>(bytes: &'b [u8], base: usize, v2: bool) -> Parsed<Histogram<'b>> {
    let mut timestamp = 0;
    let mut fields = Fields::new(bytes, base);
    while let Some((field, value)) = fields.next()? {
        match field {
            // Counts as integers, the schema, the reset hint.
            1 | 4 | 6 | 14 => {
                value.varint(base)?;
            }
            // Counts as floats, the sum, the zero threshold.
            2 | 3 | 5 | 7 => {
                value.fixed64(base)?;
            }
            8 | 11 => bucket_span(value, base)?,
            9 | 12 => repeated_varints(value, base, |_| {})?,
            10 | 13 | 16 => repeated_doubles(value, base)?,
            15 => timestamp = value.varint(base)? as i64,
            17 if v2 => {
                value.varint(base)?;
            }
            _ => {}
        }
    }
    Ok(Histogram { message: bytes, timestamp })
}

fn bucket_span(value: Value<'_>, base: usize) -> Parsed<()> {
    let (bytes, base) = value.bytes(base)?;
    let mut fields = Fields::new(bytes, base);
    while let Some((field, value)) = fields.next()? {
        if matches!(field, 1 | 2) {
            value.varint(base)?;
        }
    }
    Ok(())
}
