//! Bodies to series, in place.

mod series;
mod v1;
mod v2;

use crate::check::Rejection;
use crate::error::Error;
use crate::limits::Limits;
use crate::negotiate::{Protocol, Written};
use crate::series::{Label, Metadata, Series};
use crate::wire::Fault;
use series::Scratch;

/// Takes what a body carries, in its order.
///
/// When decoding ends in an error the body was damaged after all: what was received of it must be thrown away.
pub trait Receiver<'b> {
    /// A series that keeps all rules.
    fn series(&mut self, series: &Series<'_, 'b>);
    /// Metadata of a metric family (1.0 only; 2.0 has it in the series).
    fn metadata(&mut self, metadata: &Metadata<'b>);
    /// A series of a 1.0 body before anything but its samples was looked at. Who knows the labels from before, bytes and
    /// all, takes it here and says so; for anyone else it is decoded, checked and handed to [`Receiver::series`].
    fn raw(&mut self, _series: &RawSeries<'b>) -> bool {
        false
    }
}

/// A series as the plainest senders write it: labels, then float samples in order, nothing else. Only the samples are
/// checked.
#[derive(Debug, Clone, Copy)]
pub struct RawSeries<'b> {
    /// The fields of the labels.
    pub labels: &'b [u8],
    /// The fields of the samples.
    pub samples: &'b [u8],
    /// How many samples there are, one at least.
    pub count: usize,
    /// Time of the first, milliseconds since 1970.
    pub first_timestamp: i64,
    /// Time of the last.
    pub last_timestamp: i64,
    /// Whether one is below zero.
    pub negative: bool,
}

/// What became of a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What was handed to the receiver.
    pub written: Written,
    /// Series handed to the receiver.
    pub series: usize,
    /// Series left out because they break a rule.
    pub rejected: usize,
    /// The first few of them, for the reply.
    pub examples: Vec<RejectedSeries>,
}

/// A series that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedSeries {
    /// Its labels as far as they could be read, shortened.
    pub series: String,
    /// The rule it breaks.
    pub reason: Rejection,
}

/// How many rejected series a reply describes.
const MAX_EXAMPLES: usize = 3;

/// Bytes of a rejected series' labels that a reply repeats.
const MAX_EXAMPLE_BYTES: usize = 200;

impl Outcome {
    fn reject(&mut self, labels: &[Label<'_>], reason: Rejection) {
        self.rejected += 1;
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(RejectedSeries { series: shortened(labels), reason });
        }
    }
}

fn shortened(labels: &[Label<'_>]) -> String {
    let mut text = String::from("{");
    for label in labels {
        if text.len() > MAX_EXAMPLE_BYTES {
            text.push('…');
            break;
        }
        if text.len() > 1 {
            text.push(',');
        }
        let clip = |part: &str| part.chars().take(MAX_EXAMPLE_BYTES / 3).collect::<String>();
        text.push_str(&format!("{}={:?}", clip(label.name), clip(label.value)));
    }
    text.push('}');
    text
}

/// Decodes bodies, keeping its buffers from one to the next.
///
/// The crate's opening example shows it at work.
#[derive(Debug, Default)]
pub struct Decoder {
    limits: Limits,
    /// Buffers between requests; always empty, kept for their memory alone.
    symbols: Vec<&'static str>,
    scratch: Scratch<'static>,
}

impl Decoder {
    /// A decoder that keeps to `limits`.
    pub fn new(limits: Limits) -> Self {
        Decoder { limits, ..Default::default() }
    }

    /// The limits it keeps to.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Walks a decompressed body and hands every series that keeps the rules to `receiver`.
    pub fn decode<'b>(
        &mut self,
        protocol: Protocol,
        body: &'b [u8],
        receiver: &mut impl Receiver<'b>,
    ) -> Result<Outcome, Error> {
        // Offsets are kept in 32 bits, which is also as far as snappy goes.
        let limit = self.limits.max_decoded_bytes.min(u32::MAX as usize);
        if body.len() > limit {
            return Err(Error::DecodedTooLarge { limit });
        }
        let mut scratch: Scratch<'b> = std::mem::take(&mut self.scratch).recycle();
        let mut symbols: Vec<&'b str> = recycle(std::mem::take(&mut self.symbols));

        let result = match protocol {
            Protocol::V1 => v1::decode(body, &self.limits, &mut scratch, receiver),
            Protocol::V2 => v2::decode(body, &self.limits, &mut symbols, &mut scratch, receiver),
        };

        self.symbols = recycle(symbols);
        self.scratch = scratch.recycle();
        result.map_err(|stop| stop.into_error(protocol))
    }
}

/// Why a walk ended early.
pub(crate) enum Stop {
    Damaged(Fault),
    Refused(Error),
    /// A field that only the other protocol's top message has.
    OtherProtocol(u32),
}

impl Stop {
    fn into_error(self, protocol: Protocol) -> Error {
        match self {
            Stop::Damaged(Fault { offset, reason }) => {
                Error::Protobuf { message: protocol.message(), offset, reason }
            }
            Stop::Refused(error) => error,
            Stop::OtherProtocol(field) => {
                let other = protocol.other();
                Error::OtherProtocol {
                    expected: protocol.message(),
                    field,
                    found: other.message(),
                    content_type: other.content_type(),
                }
            }
        }
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Damaged(fault)
    }
}

/// Empties a vector and keeps its memory for elements with another lifetime. The collection happens in place because
/// both element types are the same but for the lifetime; the allocation test would notice if it did not.
pub(crate) fn recycle<A, B>(mut buffer: Vec<A>) -> Vec<B> {
    buffer.clear();
    buffer.into_iter().map(|_| -> B { unreachable!("the vector is empty") }).collect()
}
