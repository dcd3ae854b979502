//! Prometheus remote write, protocols 1.0 and 2.0: what a receiver and a sender need to read, check and write bodies.
//!
//! The decoder walks the protobuf bytes in place: labels are slices of the body, samples go into buffers that are kept
//! from one request to the next, and nothing is allocated per sample. The encoder writes either protocol from the same
//! [`Series`], so a body received as 2.0 can be forwarded as 1.0. Values travel as bits: the stale marker stays what
//! it is.
//!
//! This crate never opens a socket, never decides what happens to a series, and never trusts a length it was told:
//! sizes are checked before memory is taken for them.
//!
//! ```
//! use crosstalk_remote_write::{
//!     Decoder, Encoder, Label, Limits, Metadata, Protocol, Receiver, Sample, Series,
//! };
//!
//! /// Counts what arrives.
//! #[derive(Default)]
//! struct Count(usize);
//! impl<'body> Receiver<'body> for Count {
//!     fn series(&mut self, series: &Series<'_, 'body>) {
//!         self.0 += series.samples.len();
//!     }
//!     fn metadata(&mut self, _: &Metadata<'body>) {}
//! }
//!
//! let mut encoder = Encoder::new(Protocol::V1);
//! let labels = [Label { name: "__name__", value: "up" }];
//! encoder.series("", &labels, &Series::of_samples(&labels, &[Sample::new(1.0, 1_700_000_000_000)]));
//!
//! let mut count = Count::default();
//! let outcome = Decoder::new(Limits::default())
//!     .decode(Protocol::V1, encoder.finish(), &mut count)
//!     .unwrap();
//! assert_eq!(count.0, 1);
//! assert_eq!(outcome.written.samples, 1);
//! ```

mod check;
mod compression;
mod decode;
mod encode;
mod error;
mod limits;
mod negotiate;
mod series;
mod wire;

pub use check::Rejection;
pub use compression::{Compression, Compressor, Decompressor, Pieces, decoded_length};
pub use decode::{Decoder, Outcome, RawSeries, Receiver, RejectedSeries};
pub use encode::{Encoder, label_field};
pub use error::Error;
pub use limits::Limits;
pub use negotiate::{Protocol, Written, body_format};
pub use series::{
    Exemplar, Histogram, Label, LabelBuffer, Metadata, STALE_MARKER_BITS, Sample, Series,
    SeriesMetadata,
};
