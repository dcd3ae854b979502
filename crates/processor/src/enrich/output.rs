//! Where enriched series go: one body for every lane of a protocol.

use crosstalk_remote_write::{Compressor, Encoder, Label, Metadata, Pieces, Protocol, Series};

use super::fingerprint::Fingerprint;

/// The bodies of one protocol, one a lane. They are compressed as they grow, while what was written is still near.
#[derive(Debug)]
pub struct Output {
    bodies: Vec<Body>,
    compressor: Compressor,
}

#[derive(Debug)]
struct Body {
    encoder: Encoder,
    packed: Pieces,
}

impl Output {
    /// Empty bodies.
    pub fn new(protocol: Protocol, lanes: u8) -> Self {
        let body = |_| Body { encoder: Encoder::new(protocol), packed: Pieces::default() };
        Output { bodies: (0..lanes.max(1)).map(body).collect(), compressor: Compressor::default() }
    }

    /// Their protocol.
    pub fn protocol(&self) -> Protocol {
        self.bodies[0].encoder.protocol()
    }

    /// How many there are.
    pub fn lanes(&self) -> u8 {
        self.bodies.len() as u8
    }

    /// Forgets what the bodies hold.
    pub fn clear(&mut self) {
        for body in &mut self.bodies {
            body.encoder.clear();
            body.packed.clear();
        }
    }

    /// Tells of every body that carries something: its lane, its samples, and itself, compressed.
    pub fn finish(&mut self, mut tell: impl FnMut(u8, u32, &[u8])) {
        for (lane, Body { encoder, packed }) in self.bodies.iter_mut().enumerate() {
            if encoder.is_empty() {
                continue;
            }
            let rest = encoder.finish();
            if !rest.is_empty() {
                packed.push(&mut self.compressor, rest);
            }
            tell(lane as u8, encoder.samples() as u32, packed.finish());
        }
    }

    /// Gives memory above `bytes` back, after [`Output::clear`].
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        self.compressor.shrink_to(bytes);
        let of_each = bytes / self.bodies.len();
        for Body { encoder, packed } in &mut self.bodies {
            if encoder.capacity() > of_each {
                *encoder = Encoder::new(encoder.protocol());
            }
            if packed.capacity() > of_each {
                *packed = Pieces::default();
            }
        }
    }

    /// A series whose fields somebody else has ready: see [`Encoder::raw`].
    #[inline]
    pub(super) fn raw(
        &mut self,
        lane: Lane,
        length: usize,
        samples: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.with(lane, |encoder| {
            encoder.raw(length, samples, write);
        });
    }

    pub(super) fn series(
        &mut self,
        lane: Lane,
        prefix: &str,
        series: &Series<'_, '_>,
        added: &[Label<'_>],
    ) {
        self.with(lane, |encoder| encoder.series_adding(prefix, series, added));
    }

    /// Metadata is of no series and goes with the first.
    pub(super) fn metadata(&mut self, prefix: &str, metadata: &Metadata<'_>) -> bool {
        let mut placed = false;
        self.with(Lane::default(), |encoder| placed = encoder.metadata(prefix, metadata));
        placed
    }

    #[inline]
    fn with(&mut self, lane: Lane, write: impl FnOnce(&mut Encoder)) {
        let count = self.bodies.len();
        let Body { encoder, packed } = &mut self.bodies[usize::from(lane.0) % count];
        write(encoder);
        encoder.give_away(|piece| packed.push(&mut self.compressor, piece));
    }

    /// The first body as it is before compression.
    #[cfg(test)]
    pub(super) fn plain(&mut self) -> Vec<u8> {
        use crosstalk_remote_write::{Compression, Decompressor, Limits};
        let mut plain = Vec::new();
        self.finish(|lane, _, packed| {
            assert_eq!(lane, 0);
            let limits = Limits::default();
            let mut decompressor = Decompressor::default();
            let body = decompressor.decompress(Compression::Snappy, packed, &limits);
            plain = body.expect("what was compressed").to_vec();
        });
        plain
    }
}

/// Which lane a series is in, before that is divided by the number of lanes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lane(pub(super) u8);

impl Lane {
    /// By the labels alone: the same in every process and from either protocol.
    pub(super) fn of(labels: &[Label<'_>]) -> Lane {
        let prints = Fingerprint::fixed();
        let mut state = 0;
        for label in labels {
            state = prints.fold(state, label.name.as_bytes());
            state = prints.fold(state, label.value.as_bytes());
        }
        Lane((state >> 32) as u8)
    }
}
