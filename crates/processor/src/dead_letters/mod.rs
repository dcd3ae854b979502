//! Dead letters: blocks a store, of metrics or of logs, refused because of what they hold, kept with the reason until a person has looked.
//!
//! A folder holds segments of records as the queue's has them, so that keeping one more costs one write to disk however
//! many there are. A record's payload is what is known of the letter (JSON, its length before it) and the block as it was
//! sent. What was sent again or dropped stands by its place in a file beside the segment; a segment goes when none of its
//! letters is left, or when it is the oldest and there is no more room.

mod read;
mod replay;
mod write;

pub use read::{DeadLetters, Letter};
pub use replay::{Replayed, replay, replay_logs};
pub(crate) use write::Keeper;

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What is known of a dead letter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// The answer's status; 0 for a block that was never sent because it could not be read.
    pub status: u16,
    /// What the store said.
    pub reason: String,
    /// When it was refused, milliseconds since 1970.
    pub refused_ms: u64,
    /// When it was taken in, milliseconds since 1970.
    pub enqueued_ms: u64,
    /// Samples inside, or log lines.
    pub samples: u32,
    /// Bytes of the body, compressed.
    pub bytes: usize,
    /// Protocol, 1.0 or 2.0 of remote write, or `logs`.
    pub protocol: String,
}

/// Where the dead letters of an endpoint are.
pub(crate) fn folder(data_dir: &Path, endpoint: &str) -> PathBuf {
    data_dir.join("queue").join(endpoint).join("dead-letters")
}

/// Where those of a log store are.
pub(crate) fn folder_of_logs(data_dir: &Path, store: &str) -> PathBuf {
    data_dir.join("log-forward").join(store).join("dead-letters")
}

/// What a block speaks, by its kind.
fn protocol_of(kind: u8) -> &'static str {
    match kind {
        2 => "2.0",
        crate::logs::forward::KIND => "logs",
        _ => "1.0",
    }
}

/// The file that says which letters of a segment are done with.
fn done_path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:016}.done"))
}

/// A record's payload: what is known, and the block.
fn pack(about: &About, block: &[u8]) -> Vec<u8> {
    let about = serde_json::to_vec(about).unwrap_or_default();
    let mut payload = Vec::with_capacity(4 + about.len() + block.len());
    payload.extend_from_slice(&(about.len() as u32).to_le_bytes());
    payload.extend_from_slice(&about);
    payload.extend_from_slice(block);
    payload
}

fn unpack(payload: &[u8]) -> Option<(About, &[u8])> {
    let (length, rest) = payload.split_first_chunk::<4>()?;
    let (about, block) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((serde_json::from_slice(about).ok()?, block))
}

#[cfg(test)]
mod tests;
