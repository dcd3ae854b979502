//! Series to bodies.

mod adding;
mod symbols;
mod v1;
mod v2;
mod write;

use crate::negotiate::Protocol;
use crate::series::{Label, LabelBuffer, Metadata, Series, SeriesMetadata};
use symbols::Symbols;

/// Writes one body after another, keeping its buffers.
///
/// ```
/// use crosstalk_remote_write::{Encoder, Label, Protocol, Sample, Series};
/// let labels = [Label { name: "__name__", value: "up" }];
/// let samples = [Sample::new(1.0, 5)];
/// let mut encoder = Encoder::new(Protocol::V2);
/// encoder.series("workload_", &labels, &Series::of_samples(&labels, &samples));
/// assert_eq!(encoder.samples(), 1);
/// assert!(!encoder.finish().is_empty());
/// encoder.clear();
/// assert!(encoder.is_empty());
/// ```
#[derive(Debug)]
pub struct Encoder {
    protocol: Protocol,
    /// 1.0: the body. 2.0: its series.
    series: Vec<u8>,
    /// 2.0: the symbol table.
    symbols: Symbols,
    /// 2.0: one series while its references are gathered.
    message: Vec<u8>,
    /// 2.0: the whole body.
    body: Vec<u8>,
    /// 1.0: families whose metadata this body already has.
    families: Symbols,
    labels: LabelBuffer,
    samples: usize,
    series_count: usize,
    /// 1.0: bytes of the body that were given away.
    given: usize,
}

/// Bytes of a body that are given away together: with the series that comes last, what snappy compresses at once.
const PIECE: usize = 63 << 10;

impl Encoder {
    /// An encoder with an empty body.
    pub fn new(protocol: Protocol) -> Self {
        let mut encoder = Encoder {
            protocol,
            series: Vec::new(),
            symbols: Symbols::default(),
            message: Vec::new(),
            body: Vec::new(),
            families: Symbols::default(),
            labels: LabelBuffer::default(),
            samples: 0,
            series_count: 0,
            given: 0,
        };
        encoder.clear();
        encoder
    }

    /// The protocol it writes.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Forgets the body, keeps the memory.
    pub fn clear(&mut self) {
        self.series.clear();
        self.body.clear();
        self.families.clear();
        self.symbols.clear();
        if self.protocol == Protocol::V2 {
            // Reference 0 is the empty string by the specification.
            self.symbols.intern("", "");
        }
        self.samples = 0;
        self.series_count = 0;
        self.given = 0;
    }

    /// Whether the body carries nothing.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty() && self.given == 0
    }

    /// Samples, histograms and exemplars written since [`Encoder::clear`].
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Series written since [`Encoder::clear`].
    pub fn series_count(&self) -> usize {
        self.series_count
    }

    /// Bytes held in buffers.
    pub fn capacity(&self) -> usize {
        self.series.capacity() + self.body.capacity() + self.symbols.capacity()
    }

    /// Appends the contents of `series` under `labels` (sorted and unique), its metric name prefixed.
    ///
    /// Labels with an empty value are left out: to Prometheus they are the same as absent ones.
    pub fn series(&mut self, name_prefix: &str, labels: &[Label<'_>], series: &Series<'_, '_>) {
        self.count(series);
        match self.protocol {
            Protocol::V1 => {
                v1::series(&mut self.series, name_prefix, labels, series);
                if !series.metadata.is_empty() {
                    self.family_metadata(name_prefix, labels, series.metadata);
                }
            }
            Protocol::V2 => {
                self.message.clear();
                v2::series(&mut self.message, &mut self.symbols, name_prefix, labels, series);
                write::bytes_field(&mut self.series, 5, &self.message);
            }
        }
    }

    /// Appends `series` with further labels: `added` is sorted and takes the place of labels of the same names. Where
    /// the series came in a 1.0 body and goes into one, its other labels are copied as they are.
    ///
    /// ```
    /// use crosstalk_remote_write::{Encoder, Label, Protocol, Sample, Series};
    /// let labels = [Label { name: "__name__", value: "up" }, Label { name: "job", value: "a" }];
    /// let added = [Label { name: "job", value: "b" }, Label { name: "pod", value: "p" }];
    /// let series = Series::of_samples(&labels, &[]);
    /// let mut encoder = Encoder::new(Protocol::V1);
    /// encoder.series_adding("workload_", &series, &added);
    /// assert!(encoder.finish().windows(11).any(|bytes| bytes == b"workload_up"));
    /// ```
    pub fn series_adding(
        &mut self,
        name_prefix: &str,
        series: &Series<'_, '_>,
        added: &[Label<'_>],
    ) {
        if self.protocol == Protocol::V1 && adding::can_copy(series, added) {
            self.count(series);
            adding::series(&mut self.series, name_prefix, series, added);
            if !series.metadata.is_empty() {
                self.family_metadata(name_prefix, series.labels, series.metadata);
            }
            return;
        }
        let mut buffer = std::mem::take(&mut self.labels);
        buffer.with(|labels| {
            adding::merge(labels, series.labels, added);
            self.series(name_prefix, labels, series);
        });
        self.labels = buffer;
    }

    /// Appends a series whose fields somebody else has ready: `length` bytes that `write` appends, with so many samples
    /// inside. 1.0 only: `false`, and nothing written, for another protocol.
    pub fn raw(&mut self, length: usize, samples: usize, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.protocol != Protocol::V1 {
            return false;
        }
        self.samples += samples;
        self.series_count += 1;
        self.series.reserve(length + 8);
        write::tag(&mut self.series, 1, write::BYTES);
        write::varint(&mut self.series, length as u64);
        let start = self.series.len();
        write(&mut self.series);
        debug_assert_eq!(self.series.len() - start, length);
        true
    }

    fn count(&mut self, series: &Series<'_, '_>) {
        self.samples += series.samples.len() + series.histograms.len() + series.exemplars.len();
        self.series_count += 1;
    }

    /// Appends metadata of a family. `false` means that the protocol has no place for it: 2.0 tells metadata only
    /// with a series.
    pub fn metadata(&mut self, name_prefix: &str, metadata: &Metadata<'_>) -> bool {
        match self.protocol {
            Protocol::V1 => {
                v1::metadata(&mut self.series, name_prefix, metadata);
                true
            }
            Protocol::V2 => false,
        }
    }

    /// Gives what there is of the body away once that is a good piece, so that the body is never in memory as a whole. 1.0
    /// only: a body of 2.0 begins with what is known last.
    ///
    /// ```
    /// use crosstalk_remote_write::{Encoder, Label, Protocol, Sample, Series};
    /// let labels = [Label { name: "__name__", value: "up" }];
    /// let samples = vec![Sample::new(1.0, 5); 10_000];
    /// let mut encoder = Encoder::new(Protocol::V1);
    /// encoder.series("", &labels, &Series::of_samples(&labels, &samples));
    /// let mut given = 0;
    /// encoder.give_away(|piece| given += piece.len());
    /// assert!(given > 100_000 && encoder.finish().is_empty() && !encoder.is_empty());
    /// ```
    #[inline]
    pub fn give_away(&mut self, take: impl FnOnce(&[u8])) {
        if self.series.len() >= PIECE && self.protocol == Protocol::V1 {
            take(&self.series);
            self.given += self.series.len();
            self.series.clear();
        }
    }

    /// The whole body, uncompressed, or what is left of it.
    pub fn finish(&mut self) -> &[u8] {
        match self.protocol {
            Protocol::V1 => &self.series,
            Protocol::V2 => {
                self.body.clear();
                for symbol in self.symbols.iter() {
                    write::bytes_field(&mut self.body, 4, symbol);
                }
                self.body.extend_from_slice(&self.series);
                &self.body
            }
        }
    }

    /// 1.0 has metadata by family beside the series: written once per body.
    fn family_metadata(&mut self, prefix: &str, labels: &[Label<'_>], about: SeriesMetadata<'_>) {
        let Some(name) = labels.iter().find(|label| label.name == "__name__") else {
            return;
        };
        let family = family_of(name.value, about.kind);
        let (_, new) = self.families.intern(prefix, family);
        if new {
            v1::metadata(&mut self.series, prefix, &Metadata { family, about });
        }
    }
}

/// Appends the field of a label as a 1.0 series has it.
///
/// ```
/// use crosstalk_remote_write::{Label, label_field};
/// let mut out = Vec::new();
/// label_field(&mut out, &Label { name: "a", value: "bc" });
/// assert_eq!(out, b"\x0a\x07\x0a\x01a\x12\x02bc");
/// ```
pub fn label_field(out: &mut Vec<u8>, label: &Label<'_>) {
    v1::write_label(out, "", label);
}

/// The family a series of a classic histogram or summary belongs to; any other series is its own family.
fn family_of(name: &str, kind: i32) -> &str {
    let suffixes: &[&str] = match kind {
        // HISTOGRAM and GAUGEHISTOGRAM
        3 | 4 => &["_bucket", "_sum", "_count"],
        // SUMMARY
        5 => &["_sum", "_count"],
        _ => &[],
    };
    suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}
