//! How far the reader got, in a small file.
//!
//! That is a place before which everything was delivered, and the blocks after it that were delivered ahead of others, as
//! happens where one lane's store refuses and another's does not. Written after every delivery without waiting for the disk:
//! a crash of the process loses nothing, a crash of the machine at most repeats the blocks since the kernel last wrote it back.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::segment::Position;
use super::{QueueError, io_error};

const POSITION_BYTES: usize = 16;
const CRC_BYTES: usize = 4;
const COUNT_BYTES: usize = 4;

/// The first part of the file: the place. It has a checksum of its own, as a kill may tear what follows.
const FIRST_BYTES: usize = POSITION_BYTES + CRC_BYTES;

/// Blocks delivered ahead of others that are noted at most; a reader reads no further ahead.
const MOST_AHEAD: usize = 1024;

#[derive(Debug)]
pub(super) struct Cursor {
    path: PathBuf,
    file: File,
    position: Position,
    /// Where the records end that were delivered ahead of others.
    ahead: Vec<Position>,
}

impl Cursor {
    pub(super) fn open(folder: &Path) -> Result<Cursor, QueueError> {
        let path = folder.join("cursor");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(io_error(&path))?;
        let bytes = std::fs::read(&path).map_err(io_error(&path))?;
        // A cursor that cannot be read (new, or torn by a power cut) means: deliver from the oldest segment on.
        let position = bytes.get(..FIRST_BYTES).and_then(checked).map(parse);
        let ahead = position.and_then(|_| ahead(&bytes[FIRST_BYTES..])).unwrap_or_default();
        Ok(Cursor { path, file, position: position.unwrap_or_default(), ahead })
    }

    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// Where the records end that were delivered ahead of others, in order. Of those that are not there any more nothing is
    /// kept, on disk either: what is written in their place was delivered to nobody.
    pub(super) fn delivered_ahead(&mut self, end: Position) -> Result<Vec<Position>, QueueError> {
        let before = self.ahead.len();
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.retain(|record| *record <= end);
        if ahead.len() < before {
            self.store(self.position, ahead.iter().copied())?;
            self.file.sync_data().map_err(io_error(&self.path))?;
        }
        Ok(ahead)
    }

    pub(super) fn store(
        &mut self,
        position: Position,
        ahead: impl Iterator<Item = Position>,
    ) -> Result<(), QueueError> {
        let ahead: Vec<Position> = ahead.take(MOST_AHEAD).collect();
        let mut bytes = Vec::with_capacity(2 * FIRST_BYTES + ahead.len() * POSITION_BYTES);
        push(&mut bytes, position);
        seal(&mut bytes, 0);
        bytes.extend_from_slice(&(ahead.len() as u32).to_le_bytes());
        ahead.iter().for_each(|record| push(&mut bytes, *record));
        seal(&mut bytes, FIRST_BYTES);
        self.file.write_all_at(&bytes, 0).map_err(io_error(&self.path))?;
        self.position = position;
        Ok(())
    }
}

fn push(bytes: &mut Vec<u8>, position: Position) {
    bytes.extend_from_slice(&position.segment.to_le_bytes());
    bytes.extend_from_slice(&position.offset.to_le_bytes());
}

fn parse(bytes: &[u8]) -> Position {
    let number = |at: usize| {
        let mut part = [0; 8];
        part.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(part)
    };
    Position { segment: number(0), offset: number(8) }
}

/// Ends a part that began at `start` with its checksum.
fn seal(bytes: &mut Vec<u8>, start: usize) {
    let crc = crc32fast::hash(&bytes[start..]);
    bytes.extend_from_slice(&crc.to_le_bytes());
}

/// What a part holds before its checksum, if that is right.
fn checked(part: &[u8]) -> Option<&[u8]> {
    let (held, crc) = part.split_last_chunk::<CRC_BYTES>()?;
    (crc32fast::hash(held) == u32::from_le_bytes(*crc)).then_some(held)
}

/// What the second part holds, if it is whole. What an older and longer one left behind it is passed over.
fn ahead(bytes: &[u8]) -> Option<Vec<Position>> {
    let count = u32::from_le_bytes(*bytes.first_chunk::<COUNT_BYTES>()?) as usize;
    let length = COUNT_BYTES + count.min(MOST_AHEAD) * POSITION_BYTES + CRC_BYTES;
    let held = checked(bytes.get(..length)?)?;
    Some(held[COUNT_BYTES..].chunks_exact(POSITION_BYTES).map(parse).collect())
}
