//! What one request may ask for.

/// Bounds on one request; every refusal names the field it broke.
///
/// ```
/// let limits = crosstalk_remote_write::Limits { max_series: 10, ..Default::default() };
/// assert!(limits.max_body_bytes < limits.max_decoded_bytes);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Compressed bytes of a body.
    pub max_body_bytes: usize,
    /// Bytes of a body after decompression.
    pub max_decoded_bytes: usize,
    /// Series in a request.
    pub max_series: usize,
    /// Samples, histograms and exemplars in a request, together.
    pub max_samples: usize,
    /// Symbols in a 2.0 request.
    pub max_symbols: usize,
    /// Labels of one series (and of one exemplar).
    pub max_labels: usize,
    /// Bytes of a label name.
    pub max_label_name_bytes: usize,
    /// Bytes of a label value.
    pub max_label_value_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_body_bytes: 16 << 20,
            max_decoded_bytes: 64 << 20,
            max_series: 200_000,
            max_samples: 1_000_000,
            max_symbols: 1_000_000,
            max_labels: 64,
            max_label_name_bytes: 256,
            max_label_value_bytes: 4096,
        }
    }
}
