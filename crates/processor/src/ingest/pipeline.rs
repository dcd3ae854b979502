//! The buffers one body passes through, kept for the next.

use bytes::Bytes;
use crosstalk_remote_write::{
    Compression, Compressor, Decoder, Decompressor, Encoder, Error, Limits, Outcome, Protocol,
};

use crate::cache::Snapshot;
use crate::enrich::{Buffers, Counts, Enricher, Rules};

/// A body ready to be queued.
#[derive(Debug)]
pub struct Prepared {
    /// What was accepted and what was not.
    pub outcome: Outcome,
    /// What enrichment did.
    pub counts: Counts,
    /// For each protocol in use: samples inside and the compressed body. None when nothing is left to send.
    pub blocks: Vec<(Protocol, u32, Bytes)>,
}

#[derive(Debug)]
pub(super) struct Pipeline {
    decompressor: Decompressor,
    decoder: Decoder,
    encoders: Vec<Encoder>,
    compressor: Compressor,
    buffers: Buffers,
}

/// Buffers above this size go back to the system after use; requests of ordinary size stay far below.
const KEPT_BYTES: usize = 8 << 20;

impl Pipeline {
    pub(super) fn new(limits: Limits, protocols: &[Protocol]) -> Self {
        Pipeline {
            decompressor: Decompressor::default(),
            decoder: Decoder::new(limits),
            encoders: protocols.iter().map(|protocol| Encoder::new(*protocol)).collect(),
            compressor: Compressor::default(),
            buffers: Buffers::default(),
        }
    }

    pub(super) fn run(
        &mut self,
        protocol: Protocol,
        compression: Compression,
        body: &[u8],
        rules: &Rules,
        snapshot: &Snapshot,
    ) -> Result<Prepared, Error> {
        self.encoders.iter_mut().for_each(Encoder::clear);
        let plain = self.decompressor.decompress(compression, body, self.decoder.limits())?;
        let mut enricher = Enricher {
            rules,
            snapshot,
            encoders: &mut self.encoders,
            buffers: &mut self.buffers,
            counts: Counts::default(),
        };
        let outcome = self.decoder.decode(protocol, plain, &mut enricher)?;
        let counts = enricher.counts;
        let mut blocks = Vec::with_capacity(self.encoders.len());
        for encoder in self.encoders.iter_mut().filter(|encoder| !encoder.is_empty()) {
            let (protocol, samples) = (encoder.protocol(), encoder.samples() as u32);
            let packed = self.compressor.compress(Compression::Snappy, encoder.finish());
            blocks.push((protocol, samples, Bytes::copy_from_slice(packed)));
        }
        Ok(Prepared { outcome, counts, blocks })
    }

    pub(super) fn give_back_memory(&mut self) {
        self.decompressor.shrink_to(KEPT_BYTES);
        self.compressor.shrink_to(KEPT_BYTES);
        for encoder in &mut self.encoders {
            if encoder.capacity() > 2 * KEPT_BYTES {
                *encoder = Encoder::new(encoder.protocol());
            }
        }
    }
}
