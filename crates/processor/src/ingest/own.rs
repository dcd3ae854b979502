//! Series that were made here, on the same way as those that were received.

use bytes::Bytes;
use crosstalk_remote_write::{Compression, Compressor, Encoder};

use super::pipeline::{Prepared, PreparedBlock};
use super::{Ingest, Reserved};

impl Ingest {
    /// Sets room aside for what `write` writes, in the queue of every endpoint that has some. What others go without is
    /// counted: an endpoint that is away keeps no log line from the database and the log stores, where it says the same.
    pub(crate) fn reserve_own(&self, write: impl Fn(&mut Encoder)) -> Reserved<'_> {
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
        let (reserved, left_out) = self.reserve_where_there_is_room(&prepared);
        self.metrics.dropped_samples.add(["no_room"], left_out);
        reserved
    }
}
