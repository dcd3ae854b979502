//! What a log store refused for good, kept with the reason.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::verdict::Lines;
use crate::dead_letters::Keeper;
use crate::queue::{Block, QueueError};

/// Bytes of a body when unpacked: one of ours is smaller by far, unless a single line was as large.
const MAX_BYTES: u64 = 256 << 20;

/// The refused lines of a block, as a block of their own.
pub(super) fn only(block: &Block, lines: &Lines) -> Block {
    match lines {
        Lines::All => block.clone(),
        // What cannot be taken apart is kept whole.
        Lines::These(places) => match chosen(&block.payload, places) {
            Ok(payload) => Block { payload, samples: places.len() as u32, ..block.clone() },
            Err(_) => block.clone(),
        },
    }
}

/// The actions and documents at these places of a bulk request.
fn chosen(payload: &[u8], places: &[usize]) -> std::io::Result<Bytes> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(payload).take(MAX_BYTES).read_to_string(&mut text)?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for pair in places.iter().filter_map(|place| lines.get(2 * place..2 * place + 2)) {
        packed.write_all(pair.concat().as_bytes())?;
    }
    packed.finish().map(Bytes::from)
}

/// Keeps a block, on disk when this returns; gives the number of older ones deleted for it.
pub(super) async fn keep(
    keeper: &Arc<Mutex<Keeper>>,
    block: Block,
    status: u16,
    reason: String,
) -> Result<u64, QueueError> {
    let keeper = Arc::clone(keeper);
    let keep = move || {
        let mut keeper = keeper.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        keeper.keep(&block, status, &reason)
    };
    tokio::task::spawn_blocking(keep).await.unwrap_or(Err(QueueError::Closed))
}
