//! Series that were made here, on the same way as those that were received.

use bytes::Bytes;
use crosstalk_remote_write::{Compression, Compressor, Encoder, Outcome};

use super::pipeline::{Prepared, PreparedBlock};
use super::{Ingest, IngestError};
use crate::enrich::Counts;

impl Ingest {
    /// Queues what `write` writes for every endpoint; when this returns `Ok`, it is on disk.
    pub(crate) async fn store_own(&self, write: impl Fn(&mut Encoder)) -> Result<(), IngestError> {
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
        let prepared = Prepared { outcome: Outcome::default(), counts: Counts::default(), blocks };
        self.queue(&prepared).await
    }
}
