//! The buffers one body passes through, kept for the next.

use bytes::Bytes;
use crosstalk_remote_write::{
    Compression, Decoder, Decompressor, Error, Limits, Outcome, Protocol,
};

use crate::cache::Snapshot;
use crate::enrich::{Buffers, Counts, Enricher, Handed, Memory, Output, Rules};

/// A body ready to be queued.
#[derive(Debug)]
pub struct Prepared {
    /// What was accepted and what was not.
    pub outcome: Outcome,
    /// What enrichment did.
    pub counts: Counts,
    /// For each protocol and number of lanes in use, the bodies that carry something.
    pub blocks: Vec<PreparedBlock>,
    /// What is to be remembered once the blocks are on disk.
    pub(crate) handed: Handed,
}

/// One compressed body.
#[derive(Debug)]
pub struct PreparedBlock {
    /// What it is for.
    pub shape: Shape,
    /// Its lane.
    pub lane: u8,
    /// Samples inside.
    pub samples: u32,
    /// The body.
    pub body: Bytes,
}

/// How an endpoint wants its blocks. Endpoints of one shape share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The protocol it speaks.
    pub protocol: Protocol,
    /// Requests in flight at once.
    pub lanes: u8,
}

#[derive(Debug)]
pub(super) struct Pipeline {
    decompressor: Decompressor,
    decoder: Decoder,
    outputs: Vec<Output>,
    buffers: Buffers,
}

/// Buffers above this size go back to the system after use; requests of ordinary size stay far below.
const KEPT_BYTES: usize = 8 << 20;

impl Pipeline {
    pub(super) fn new(limits: Limits, shapes: &[Shape]) -> Self {
        let output = |shape: &Shape| Output::new(shape.protocol, shape.lanes);
        Pipeline {
            decompressor: Decompressor::default(),
            decoder: Decoder::new(limits),
            outputs: shapes.iter().map(output).collect(),
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
        memory: Option<&Memory>,
    ) -> Result<Prepared, Error> {
        self.outputs.iter_mut().for_each(Output::clear);
        self.buffers.clear();
        let plain = self.decompressor.decompress(compression, body, self.decoder.limits())?;
        let mut enricher = Enricher {
            rules,
            snapshot,
            memory: memory.map(Memory::recollection),
            outputs: &mut self.outputs,
            buffers: &mut self.buffers,
            counts: Counts::default(),
        };
        let outcome = self.decoder.decode(protocol, plain, &mut enricher)?;
        let counts = std::mem::take(&mut enricher.counts);
        let handed = enricher.memory.take().map(|memory| memory.handed()).unwrap_or_default();
        drop(enricher);
        let mut blocks = Vec::with_capacity(self.outputs.len());
        for output in &mut self.outputs {
            let shape = Shape { protocol: output.protocol(), lanes: output.lanes() };
            output.finish(|lane, samples, packed| {
                let body = Bytes::copy_from_slice(packed);
                blocks.push(PreparedBlock { shape, lane, samples, body });
            });
        }
        Ok(Prepared { outcome, counts, blocks, handed })
    }

    pub(super) fn give_back_memory(&mut self) {
        self.decompressor.shrink_to(KEPT_BYTES);
        for output in &mut self.outputs {
            output.clear();
            output.shrink_to(KEPT_BYTES);
        }
    }
}
