//! What a body carries, as views into it.

use std::ops::Range;

use crate::decode::recycle;

/// The bits of the NaN that marks a series as stale. It is a signalling NaN: compare bits, never values.
pub const STALE_MARKER_BITS: u64 = 0x7ff0_0000_0000_0002;

/// A label; both parts are slices of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label<'b> {
    /// Name, never empty in an accepted series.
    pub name: &'b str,
    /// Value.
    pub value: &'b str,
}

/// Memory for a list of labels that is built again and again, each time from other strings.
///
/// ```
/// use crosstalk_remote_write::{Label, LabelBuffer};
/// let mut buffer = LabelBuffer::default();
/// for name in ["a".to_owned(), "b".to_owned()] {
///     let length = buffer.with(|labels| {
///         labels.push(Label { name: &name, value: "1" });
///         labels.len()
///     });
///     assert_eq!(length, 1);
/// }
/// ```
#[derive(Debug, Default)]
pub struct LabelBuffer(Vec<Label<'static>>);

impl LabelBuffer {
    /// Lends an empty list whose labels may live as long as `'a`.
    pub fn with<'a, R>(&mut self, use_labels: impl FnOnce(&mut Vec<Label<'a>>) -> R) -> R {
        let mut labels: Vec<Label<'a>> = recycle(std::mem::take(&mut self.0));
        let result = use_labels(&mut labels);
        self.0 = recycle(labels);
        result
    }
}

/// One float sample.
///
/// ```
/// use crosstalk_remote_write::{STALE_MARKER_BITS, Sample};
/// let stale = Sample::new(f64::from_bits(STALE_MARKER_BITS), 5);
/// assert!(stale.is_stale());
/// assert!(!Sample::new(f64::NAN, 5).is_stale());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The value; its bits are kept as they came.
    pub value: f64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// When the counted period began, milliseconds since 1970; 0 means not told (always so in 1.0).
    pub start_timestamp: i64,
}

impl Sample {
    /// A sample without a start timestamp.
    pub fn new(value: f64, timestamp: i64) -> Self {
        Sample { value, timestamp, start_timestamp: 0 }
    }

    /// Whether this is the stale marker.
    pub fn is_stale(&self) -> bool {
        self.value.to_bits() == STALE_MARKER_BITS
    }
}

/// Samples are equal when their bits are: a stale marker equals itself.
impl PartialEq for Sample {
    fn eq(&self, other: &Self) -> bool {
        self.value.to_bits() == other.value.to_bits()
            && self.timestamp == other.timestamp
            && self.start_timestamp == other.start_timestamp
    }
}

/// One native histogram. Both protocols number its fields alike, so the checked message travels as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histogram<'b> {
    /// The protobuf message, every field checked for its wire type.
    pub message: &'b [u8],
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

/// One exemplar with its labels.
#[derive(Debug, Clone, Copy)]
pub struct Exemplar<'s, 'b> {
    /// Labels, for example a trace id.
    pub labels: &'s [Label<'b>],
    /// The value.
    pub value: f64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

/// Metadata that a 2.0 series carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeriesMetadata<'b> {
    /// Metric type; the numbers are the same in both protocols (0 is unknown).
    pub kind: i32,
    /// Help text.
    pub help: &'b str,
    /// Unit.
    pub unit: &'b str,
}

impl SeriesMetadata<'_> {
    /// Whether nothing is told.
    pub fn is_empty(&self) -> bool {
        *self == SeriesMetadata::default()
    }
}

/// Metadata of a metric family, as a 1.0 body carries it beside the series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metadata<'b> {
    /// Metric family name.
    pub family: &'b str,
    /// Metric type, help and unit.
    pub about: SeriesMetadata<'b>,
}

/// An exemplar whose labels lie in [`Series`]'s own list.
#[derive(Debug, Clone)]
pub(crate) struct ExemplarSlot {
    pub(crate) labels: Range<u32>,
    pub(crate) value: f64,
    pub(crate) timestamp: i64,
}

/// One series of a body: labels sorted by name and unique, samples in time order.
#[derive(Debug, Clone, Copy)]
pub struct Series<'s, 'b> {
    /// Labels, sorted by name.
    pub labels: &'s [Label<'b>],
    /// Float samples.
    pub samples: &'s [Sample],
    /// Native histograms.
    pub histograms: &'s [Histogram<'b>],
    /// Metadata, told by 2.0 only.
    pub metadata: SeriesMetadata<'b>,
    pub(crate) exemplars: &'s [ExemplarSlot],
    pub(crate) exemplar_labels: &'s [Label<'b>],
    pub(crate) name_at: usize,
    pub(crate) encoded: Encoded<'s, 'b>,
}

/// The labels of a series as a 1.0 body has them, so that most of them can be copied as they are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Encoded<'s, 'b> {
    /// The whole body; empty when the labels did not come in a form that can be copied.
    pub(crate) body: &'b [u8],
    /// Where each label's field begins, and where the last one ends.
    pub(crate) bounds: &'s [u32],
}

impl<'s, 'b> Series<'s, 'b> {
    /// A series of float samples alone.
    pub fn of_samples(labels: &'s [Label<'b>], samples: &'s [Sample]) -> Self {
        Series {
            labels,
            samples,
            histograms: &[],
            metadata: SeriesMetadata::default(),
            exemplars: &[],
            exemplar_labels: &[],
            name_at: labels.iter().position(|label| label.name == "__name__").unwrap_or(usize::MAX),
            encoded: Encoded::default(),
        }
    }

    /// The metric's name; empty only for a series made by hand without one.
    pub fn name(&self) -> &'b str {
        self.labels.get(self.name_at).map_or("", |label| label.value)
    }

    /// The same series with other samples in place of its own.
    pub fn with_samples(&self, samples: &'s [Sample]) -> Self {
        Series { samples, ..*self }
    }

    /// The same series with these samples alone: neither histograms nor exemplars.
    pub fn with_samples_only(&self, samples: &'s [Sample]) -> Self {
        Series { samples, histograms: &[], exemplars: &[], ..*self }
    }

    /// The fields of its labels in a 1.0 body, where they were written in the plainest way: sorted, one directly after
    /// another, none of them empty.
    pub fn raw_labels(&self) -> Option<&'b [u8]> {
        let Encoded { body, bounds } = self.encoded;
        body.get(*bounds.first()? as usize..*bounds.get(self.labels.len())? as usize)
    }

    /// Where the field of the label at this place begins and ends in [`Series::raw_labels`].
    pub fn raw_label(&self, place: usize) -> Option<Range<usize>> {
        let bounds = self.encoded.bounds;
        let first = *bounds.first()?;
        Some((*bounds.get(place)? - first) as usize..(*bounds.get(place + 1)? - first) as usize)
    }

    /// The exemplars with their labels.
    pub fn exemplars(
        &self,
    ) -> impl ExactSizeIterator<Item = Exemplar<'s, 'b>> + Clone + use<'s, 'b> {
        let labels = self.exemplar_labels;
        self.exemplars.iter().map(move |slot| Exemplar {
            labels: &labels[slot.labels.start as usize..slot.labels.end as usize],
            value: slot.value,
            timestamp: slot.timestamp,
        })
    }

    /// The value of the label called `name`.
    pub fn label(&self, name: &str) -> Option<&'b str> {
        self.labels
            .binary_search_by(|label| label.name.cmp(name))
            .ok()
            .map(|index| self.labels[index].value)
    }
}
