//! Series that were made here, on the same way as those that were received.

use bytes::Bytes;
use crosstalk_remote_write::{Compression, Compressor, Encoder};

use super::pipeline::{Prepared, PreparedBlock};
use super::{Ingest, IngestError, Reserved};

impl Ingest {
    /// Sets room aside for what `write` writes, in the queue of every endpoint or in none.
    pub(crate) fn reserve_own(
        &self,
        write: impl Fn(&mut Encoder),
    ) -> Result<Reserved<'_>, IngestError> {
        let mut blocks = Vec::with_capacity(self.shapes.len());
        for shape in &self.shapes {
            let mut encoder = Encoder::new(shape.protocol);
            write(&mut encoder);
            if !encoder.is_empty() {
                let samples = encoder.samples() as u32;
                let mut compressor = Compressor::default();
                let packed = compressor.compress(Compression::Snappy, encoder.finish());
                let body = Bytes::copy_from_slice(packed);
                // All in one lane, always the same: their samples stay in order.
                blocks.push(PreparedBlock { shape: *shape, lane: 0, samples, body });
            }
        }
        let (outcome, counts, handed) = Default::default();
        let prepared = Prepared { outcome, counts, blocks, handed };
        self.reserve(&prepared)
    }
}
