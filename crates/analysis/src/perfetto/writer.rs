//! Tracks and events into a stream of packets.

use super::proto::{
    Annotation, BEGIN, COUNTER, CounterUnit, END, Event, Packet, STARTS_ANEW, Trace, Track,
};
use prost::Message;
use std::io::{self, Write};

/// All packets are of one sequence.
const SEQUENCE: u32 = 1;

/// A track of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrackId(u64);

pub(crate) struct Writer<'a> {
    to: &'a mut dyn Write,
    tracks: u64,
    pub(crate) events: u64,
    buffer: Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(to: &'a mut dyn Write) -> Self {
        Self { to, tracks: 0, events: 0, buffer: Vec::new() }
    }

    /// A track below another; with a unit it holds a counter, without slices.
    pub(crate) fn track(
        &mut self,
        name: &str,
        parent: Option<TrackId>,
        unit: Option<&str>,
    ) -> io::Result<TrackId> {
        self.tracks += 1;
        let track = Track {
            uuid: Some(self.tracks),
            name: Some(name.to_owned()),
            parent: parent.map(|parent| parent.0),
            counter: unit.map(|unit| CounterUnit { unit_name: Some(unit.to_owned()) }),
        };
        let sequence_flags = (self.tracks == 1).then_some(STARTS_ANEW);
        self.packet(Packet { track: Some(track), sequence_flags, ..Packet::default() })?;
        Ok(TrackId(self.tracks))
    }

    pub(crate) fn slice(
        &mut self,
        track: TrackId,
        (from_ns, to_ns): (u64, u64),
        name: &str,
        said: Vec<Annotation>,
    ) -> io::Result<()> {
        let begin = Event { name: Some(name.to_owned()), annotations: said, ..Event::default() };
        self.event(from_ns, track, BEGIN, begin)?;
        self.event(to_ns, track, END, Event::default())
    }

    pub(crate) fn count(&mut self, track: TrackId, at_ns: u64, value: f64) -> io::Result<()> {
        self.event(at_ns, track, COUNTER, Event { value: Some(value), ..Event::default() })
    }

    fn event(&mut self, at_ns: u64, track: TrackId, kind: i32, event: Event) -> io::Result<()> {
        self.events += 1;
        let event = Event { kind: Some(kind), track: Some(track.0), ..event };
        self.packet(Packet { timestamp: Some(at_ns), event: Some(event), ..Packet::default() })
    }

    fn packet(&mut self, packet: Packet) -> io::Result<()> {
        let packet = Packet { sequence: Some(SEQUENCE), ..packet };
        self.buffer.clear();
        // A vector grows as needed: there is no room to run out of.
        let _ = Trace { packet: vec![packet] }.encode(&mut self.buffer);
        self.to.write_all(&self.buffer)
    }
}

/// Something an event says, as a number.
pub(crate) fn number(name: &str, value: f64) -> Annotation {
    Annotation { name: Some(name.to_owned()), number: Some(value), text: None }
}

/// Something an event says, in words.
pub(crate) fn text(name: &str, value: &str) -> Annotation {
    Annotation { name: Some(name.to_owned()), number: None, text: Some(value.to_owned()) }
}
