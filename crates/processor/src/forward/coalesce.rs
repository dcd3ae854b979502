//! Small blocks sent as one.
//!
//! Prometheus sends a few hundred samples a request. One request at a time keeps the order of every series, so over a
//! distance the round trip would be the limit; when blocks wait, they travel together instead. A 1.0 body is a list of
//! fields, so bodies put one after another are a body again, compressed or not; 2.0 has a symbol table of its own in each and is left.

use bytes::Bytes;
use crosstalk_remote_write::{Pieces, Protocol};

use crate::ingest::block_kind;
use crate::queue::Entry;

/// Blocks of at least this size are not small.
const SMALL_BYTES: usize = 64 << 10;

/// Bytes and blocks of one joint request at most.
const MAX_BYTES: usize = 256 << 10;
const MAX_BLOCKS: usize = 64;

fn is_small(entry: &Entry) -> bool {
    entry.block.kind == block_kind(Protocol::V1) && entry.block.payload.len() < SMALL_BYTES
}

/// Whether another block may join these. The block that is then read joins whatever its size: reading cannot be undone.
pub(super) fn takes_more(entries: &[Entry]) -> bool {
    let bytes: usize = entries.iter().map(|entry| entry.block.payload.len()).sum();
    entries.len() < MAX_BLOCKS && bytes < MAX_BYTES && entries.iter().all(is_small)
}

/// The blocks as one, or `None` when they cannot be joined.
pub(super) fn join(entries: &[Entry]) -> Option<Bytes> {
    if !entries.iter().all(|entry| entry.block.kind == block_kind(Protocol::V1)) {
        return None;
    }
    let mut joined = Pieces::default();
    for entry in entries {
        joined.append(&entry.block.payload).ok()?;
    }
    Some(Bytes::copy_from_slice(joined.finish()))
}
