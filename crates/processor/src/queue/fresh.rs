//! Blocks that were just written, for a reader close behind the writer.
//!
//! A store that keeps up gets every block a moment after it is on disk. Reading it back then would only copy and check again
//! what is still in memory. What does not fit here is read from disk, in its turn.

use std::collections::VecDeque;

use super::reader::Entry;
use super::segment::Position;

/// Bytes of payloads that are kept at most.
pub(super) const MAX_BYTES: usize = 2 << 20;

/// The newest blocks, in order; some between them may be missing.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Fresh {
    /// Keeps a block that is on disk, if there is room.
    pub(super) fn push(&mut self, entry: Entry) {
        let bytes = self.bytes + entry.block.payload.len();
        if bytes <= MAX_BYTES {
            self.bytes = bytes;
            self.entries.push_back(entry);
        }
    }

    /// The block that begins at `position`; those before it are let go, since nobody asks for them any more.
    pub(super) fn take(&mut self, position: Position) -> Option<Entry> {
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.start() <= position) {
            self.bytes -= entry.block.payload.len();
            if entry.start() == position {
                return Some(entry);
            }
        }
        None
    }
}
