//! The part of Perfetto's trace format that is written: field numbers as in its `trace_packet.proto`,
//! `track_descriptor.proto` and `track_event.proto`. A trace is packets one after the other, so it is written as it is made.

use prost::Message;

/// One packet of the trace; a whole trace is a message with packets in field 1.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(crate) packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Packet {
    #[prost(uint64, optional, tag = "8")]
    pub(crate) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(crate) sequence: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub(crate) event: Option<Event>,
    #[prost(uint32, optional, tag = "13")]
    pub(crate) sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    pub(crate) track: Option<Track>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Track {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    pub(crate) parent: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(crate) counter: Option<CounterUnit>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CounterUnit {
    #[prost(string, optional, tag = "6")]
    pub(crate) unit_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    #[prost(message, repeated, tag = "4")]
    pub(crate) annotations: Vec<Annotation>,
    #[prost(int32, optional, tag = "9")]
    pub(crate) kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub(crate) track: Option<u64>,
    #[prost(string, optional, tag = "23")]
    pub(crate) name: Option<String>,
    #[prost(double, optional, tag = "44")]
    pub(crate) value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Annotation {
    #[prost(double, optional, tag = "5")]
    pub(crate) number: Option<f64>,
    #[prost(string, optional, tag = "6")]
    pub(crate) text: Option<String>,
    #[prost(string, optional, tag = "10")]
    pub(crate) name: Option<String>,
}

pub(crate) const BEGIN: i32 = 1;
pub(crate) const END: i32 = 2;
pub(crate) const COUNTER: i32 = 4;
/// What was said before in the sequence is not needed to understand this.
pub(crate) const STARTS_ANEW: u32 = 1;
