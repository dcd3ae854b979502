//! Queues on disk as everything here that waits for somebody uses them.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::queue::{Block, Queue, QueueError, QueueLimits, Reader, WhenFull};

/// Opens a queue.
pub(super) fn open(
    folder: &Path,
    max_bytes: u64,
    when_full: WhenFull,
) -> Result<(Queue, Reader), QueueError> {
    // Segments small enough that what was delivered leaves the disk soon, large enough to be few.
    let segment_bytes = (max_bytes / 8).clamp(1 << 20, 64 << 20);
    Queue::open(folder, QueueLimits { max_bytes, segment_bytes, when_full })
}

/// A block with so many lines in it.
pub(super) fn block(kind: u8, lines: u32, payload: Bytes) -> Block {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Block { kind, lane: 0, lanes: 1, samples: lines, enqueued_ms: now.as_millis() as u64, payload }
}
