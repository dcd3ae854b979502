//! One record: a header of 24 bytes and the payload.
//!
//! ```text
//!  0  u32  length of the payload
//!  4  u32  CRC-32 of everything after this field
//!  8  u64  when it was appended, milliseconds since 1970
//! 16  u32  samples inside
//! 20  u8   kind, the caller's own
//! 21  [u8; 3]  zero
//! ```
//! All numbers are little-endian.

use bytes::Bytes;

/// What a queue carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The caller's own mark.
    pub kind: u8,
    /// Samples inside, for counting.
    pub samples: u32,
    /// When it was appended, milliseconds since 1970.
    pub enqueued_ms: u64,
    /// The bytes.
    pub payload: Bytes,
}

pub(super) const HEADER_BYTES: usize = 24;

/// Bytes on disk of a record with `payload` bytes.
pub(super) fn size(payload: usize) -> u64 {
    (HEADER_BYTES + payload) as u64
}

/// A header as read; its payload is still to be checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) length: u32,
    crc: u32,
    bytes: [u8; HEADER_BYTES],
}

impl Header {
    pub(super) fn of(block: &Block) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[0..4].copy_from_slice(&(block.payload.len() as u32).to_le_bytes());
        header[8..16].copy_from_slice(&block.enqueued_ms.to_le_bytes());
        header[16..20].copy_from_slice(&block.samples.to_le_bytes());
        header[20] = block.kind;
        let crc = checksum(&header, &block.payload);
        header[4..8].copy_from_slice(&crc.to_le_bytes());
        header
    }

    pub(super) fn parse(bytes: [u8; HEADER_BYTES]) -> Header {
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        Header { length: number(0), crc: number(4), bytes }
    }

    /// Whether a record could begin with these bytes where only `room` are left: a quick look before the checksum.
    pub(super) fn may_begin(bytes: &[u8; HEADER_BYTES], room: u64) -> bool {
        // A hole in a file reads as zeros, and no record begins with so many of them.
        bytes[21..] == [0; 3]
            && *bytes != [0; HEADER_BYTES]
            && size(Header::parse(*bytes).length as usize) <= room
    }

    /// The block, if the payload is the one that was written.
    pub(super) fn check(&self, payload: Bytes) -> Option<Block> {
        if checksum(&self.bytes, &payload) != self.crc {
            return None;
        }
        let mut enqueued = [0; 8];
        enqueued.copy_from_slice(&self.bytes[8..16]);
        let mut samples = [0; 4];
        samples.copy_from_slice(&self.bytes[16..20]);
        Some(Block {
            kind: self.bytes[20],
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
