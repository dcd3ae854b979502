//! One record: a header of 24 bytes and the payload.
//!
//! ```text
//!  0  u32  length of the payload
//!  4  u32  CRC-32 of everything after this field
//!  8  u64  when it was appended, milliseconds since 1970
//! 16  u32  samples inside
//! 20  u8   kind, the caller's own
//! 21  u8   lane
//! 22  u8   lanes there were, 0 as 1
//! 23  u8   zero
//! ```
//! All numbers are little-endian.

use bytes::Bytes;

/// What a queue carries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    /// The caller's own mark.
    pub kind: u8,
    /// Blocks of one lane come out one after the other; those of different lanes may be delivered at once.
    pub lane: u8,
    /// How many lanes there were when it was appended.
    pub lanes: u8,
    /// Samples inside, for counting.
    pub samples: u32,
    /// When it was appended, milliseconds since 1970.
    pub enqueued_ms: u64,
    /// The bytes.
    pub payload: Bytes,
}

pub(crate) const HEADER_BYTES: usize = 24;

/// Bytes on disk of a record with `payload` bytes.
pub(crate) fn size(payload: usize) -> u64 {
    (HEADER_BYTES + payload) as u64
}

/// A header as read; its payload is still to be checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) length: u32,
    crc: u32,
    bytes: [u8; HEADER_BYTES],
}

impl Header {
    pub(crate) fn of(block: &Block) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[0..4].copy_from_slice(&(block.payload.len() as u32).to_le_bytes());
        header[8..16].copy_from_slice(&block.enqueued_ms.to_le_bytes());
        header[16..20].copy_from_slice(&block.samples.to_le_bytes());
        header[20] = block.kind;
        header[21] = block.lane;
        header[22] = block.lanes;
        let crc = checksum(&header, &block.payload);
        header[4..8].copy_from_slice(&crc.to_le_bytes());
        header
    }

    pub(crate) fn parse(bytes: [u8; HEADER_BYTES]) -> Header {
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        Header { length: number(0), crc: number(4), bytes }
    }

    /// Samples inside, as the header says.
    pub(crate) fn samples(&self) -> u32 {
        u32::from_le_bytes([16, 17, 18, 19].map(|at: usize| self.bytes[at]))
    }

    /// Whether a record could begin with these bytes where only `room` are left: a quick look before the checksum.
    pub(crate) fn may_begin(bytes: &[u8; HEADER_BYTES], room: u64) -> bool {
        // A hole in a file reads as zeros, and no record begins with so many of them.
        bytes[23] == 0
            && (bytes[21] < bytes[22] || bytes[21] == 0)
            && *bytes != [0; HEADER_BYTES]
            && size(Header::parse(*bytes).length as usize) <= room
    }

    /// The block, if the payload is the one that was written.
    pub(crate) fn check(&self, payload: Bytes) -> Option<Block> {
        if checksum(&self.bytes, &payload) != self.crc {
            return None;
        }
        let mut enqueued = [0; 8];
        enqueued.copy_from_slice(&self.bytes[8..16]);
        let mut samples = [0; 4];
        samples.copy_from_slice(&self.bytes[16..20]);
        Some(Block {
            kind: self.bytes[20],
            lane: self.bytes[21],
            lanes: self.bytes[22],
            samples: u32::from_le_bytes(samples),
            enqueued_ms: u64::from_le_bytes(enqueued),
            payload,
        })
    }
}

/// The length is covered too: without it a run of zeros would be a valid empty record.
fn checksum(header: &[u8; HEADER_BYTES], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(b"crosstalk");
    crc.update(&header[0..4]);
    crc.update(&header[8..]);
    crc.update(payload);
    crc.finalize()
}
