//! Whether one series may be kept. A bad series costs only itself: the others of its request are taken.

use crate::limits::Limits;
use crate::series::{Label, Sample};

/// Why one series was not taken.
///
/// ```
/// let reason = crosstalk_remote_write::Rejection::TooManyLabels { count: 99, limit: 64 };
/// assert_eq!(reason.to_string(), "99 labels, more than max_labels (64)");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A label without a name.
    #[error("a label has an empty name")]
    EmptyLabelName,
    /// No `__name__` label, or an empty one.
    #[error("no metric name: label __name__ is missing or empty")]
    NoMetricName,
    /// The same label twice.
    #[error("label {0:?} appears twice")]
    DuplicateLabel(String),
    /// More labels than allowed.
    #[error("{count} labels, more than max_labels ({limit})")]
    TooManyLabels {
        /// Labels found.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A label name longer than allowed.
    #[error("label name of {bytes} bytes, longer than max_label_name_bytes ({limit})")]
    LabelNameTooLong {
        /// Bytes found.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A label value longer than allowed.
    #[error(
        "value of label {name:?} has {bytes} bytes, longer than max_label_value_bytes ({limit})"
    )]
    LabelValueTooLong {
        /// The label.
        name: String,
        /// Bytes found.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Samples that do not go forward in time.
    #[error("sample at {timestamp} follows a sample at {previous}; samples must be in time order")]
    OutOfOrder {
        /// Timestamp of the earlier entry of the list.
        previous: i64,
        /// Timestamp that went back.
        timestamp: i64,
    },
    /// Two values for one moment.
    #[error("two different values at {timestamp}")]
    TwoValues {
        /// The moment.
        timestamp: i64,
    },
    /// 2.0: neither samples nor histograms.
    #[error("series has neither samples nor histograms")]
    Empty,
    /// 2.0: both samples and histograms.
    #[error("series has both samples and histograms")]
    SamplesAndHistograms,
    /// 2.0: label references that do not pair up.
    #[error("odd number of label references ({0})")]
    OddReferences(usize),
    /// 2.0: a reference past the symbol table.
    #[error("symbol reference {reference} is out of range (symbols: {symbols})")]
    ReferenceOutOfRange {
        /// The reference.
        reference: u32,
        /// Length of the symbol table.
        symbols: usize,
    },
}

/// What was learnt about the labels of a series while they were checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checked {
    /// Where `__name__` is.
    pub(crate) name_at: usize,
    /// Whether they came in order, every one with a value.
    pub(crate) as_they_came: bool,
}

/// Sorts labels by name where they are not, and checks them against the rules and the limits.
pub(crate) fn labels(labels: &mut [Label<'_>], limits: &Limits) -> Result<Checked, Rejection> {
    let mut checked = Checked { name_at: usize::MAX, as_they_came: true };
    let mut sorted = true;
    let mut previous = "";
    for (place, label) in labels.iter().enumerate() {
        if label.name.is_empty()
            || label.name.len() > limits.max_label_name_bytes
            || label.value.len() > limits.max_label_value_bytes
        {
            names_and_values(std::slice::from_ref(label), limits)?;
        }
        // The empty name above is before every other, so equal names are the only ones that are neither.
        sorted &= is_before(previous, label.name);
        checked.as_they_came &= !label.value.is_empty();
        if is_metric_name(label.name) {
            checked.name_at = place;
        }
        previous = label.name;
    }
    if !sorted {
        checked.as_they_came = false;
        labels.sort_unstable();
        if let Some(pair) = labels.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(Rejection::DuplicateLabel(pair[0].name.to_owned()));
        }
        let name_at = labels.iter().position(|label| is_metric_name(label.name));
        checked.name_at = name_at.unwrap_or(usize::MAX);
    }
    match labels.get(checked.name_at) {
        Some(label) if !label.value.is_empty() => Ok(checked),
        _ => Err(Rejection::NoMetricName),
    }
}

#[inline(always)]
pub(crate) fn is_metric_name(name: &str) -> bool {
    name.len() == 8 && name.as_bytes()[0] == b'_' && name == "__name__"
}

/// Whether one name sorts before another. Neighbours differ within a few bytes, which is sooner found than compared by
/// a call.
#[inline(always)]
pub(crate) fn is_before(one: &str, other: &str) -> bool {
    let pairs = one.as_bytes().iter().zip(other.as_bytes());
    for (a, b) in pairs {
        if a != b {
            return a < b;
        }
    }
    one.len() < other.len()
}

/// The part of the label rules that exemplars share.
pub(crate) fn names_and_values(labels: &[Label<'_>], limits: &Limits) -> Result<(), Rejection> {
    for label in labels {
        if label.name.is_empty() {
            return Err(Rejection::EmptyLabelName);
        }
        if label.name.len() > limits.max_label_name_bytes {
            return Err(Rejection::LabelNameTooLong {
                bytes: label.name.len(),
                limit: limits.max_label_name_bytes,
            });
        }
        if label.value.len() > limits.max_label_value_bytes {
            return Err(Rejection::LabelValueTooLong {
                name: label.name.to_owned(),
                bytes: label.value.len(),
                limit: limits.max_label_value_bytes,
            });
        }
    }
    Ok(())
}

/// Samples of a series go forward in time; a repeated moment must repeat its value too.
pub(crate) fn sample_order(samples: &[Sample]) -> Result<(), Rejection> {
    for pair in samples.windows(2) {
        let (previous, timestamp) = (pair[0].timestamp, pair[1].timestamp);
        if timestamp < previous {
            return Err(Rejection::OutOfOrder { previous, timestamp });
        }
        if timestamp == previous && pair[0].value.to_bits() != pair[1].value.to_bits() {
            return Err(Rejection::TwoValues { timestamp });
        }
    }
    Ok(())
}

/// As [`sample_order`], for the timestamps of histograms.
pub(crate) fn histogram_order(mut timestamps: impl Iterator<Item = i64>) -> Result<(), Rejection> {
    let Some(mut previous) = timestamps.next() else {
        return Ok(());
    };
    for timestamp in timestamps {
        if timestamp < previous {
            return Err(Rejection::OutOfOrder { previous, timestamp });
        }
        previous = timestamp;
    }
    Ok(())
}
