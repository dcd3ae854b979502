//! Where enriched series go: one body for every lane of a protocol.

use crosstalk_remote_write::{Encoder, Label, Metadata, Protocol, Series};

use super::fingerprint::Fingerprint;

/// The bodies of one protocol, one a lane.
#[derive(Debug)]
pub struct Output {
    encoders: Vec<Encoder>,
}

impl Output {
    /// Empty bodies.
    pub fn new(protocol: Protocol, lanes: u8) -> Self {
        Output { encoders: (0..lanes.max(1)).map(|_| Encoder::new(protocol)).collect() }
    }

    /// Their protocol.
    pub fn protocol(&self) -> Protocol {
        self.encoders[0].protocol()
    }

    /// How many there are.
    pub fn lanes(&self) -> u8 {
        self.encoders.len() as u8
    }

    /// The bodies by lane.
    pub fn encoders_mut(&mut self) -> &mut [Encoder] {
        &mut self.encoders
    }

    /// Forgets what the bodies hold.
    pub fn clear(&mut self) {
        self.encoders.iter_mut().for_each(Encoder::clear);
    }

    #[inline]
    pub(super) fn of_lane(&mut self, lane: Lane) -> &mut Encoder {
        let count = self.encoders.len();
        &mut self.encoders[usize::from(lane.0) % count]
    }

    pub(super) fn series(
        &mut self,
        lane: Lane,
        prefix: &str,
        series: &Series<'_, '_>,
        added: &[Label<'_>],
    ) {
        self.of_lane(lane).series_adding(prefix, series, added);
    }

    /// Metadata is of no series and goes with the first.
    pub(super) fn metadata(&mut self, prefix: &str, metadata: &Metadata<'_>) -> bool {
        self.encoders[0].metadata(prefix, metadata)
    }
}

/// Which lane a series is in, before that is divided by the number of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
