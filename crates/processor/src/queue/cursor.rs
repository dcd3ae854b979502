//! How far the reader got, in a small file.
//!
//! Written after every delivered block without waiting for the disk: a crash of the process loses nothing, a crash of
//! the machine at most repeats the blocks since the kernel last wrote it back.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::segment::Position;
use super::{QueueError, io_error};

const CURSOR_BYTES: usize = 20;

#[derive(Debug)]
pub(super) struct Cursor {
    path: PathBuf,
    file: File,
    position: Position,
}

impl Cursor {
    pub(super) fn open(folder: &Path) -> Result<Cursor, QueueError> {
        let path = folder.join("cursor");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(io_error(&path))?;
        let mut bytes = [0; CURSOR_BYTES];
        // A cursor that cannot be read (new, or torn by a power cut) means: deliver from the oldest segment on.
        let position = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => parse(&bytes).unwrap_or_default(),
            Err(_) => Position::default(),
        };
        Ok(Cursor { path, file, position })
    }

    pub(super) fn position(&self) -> Position {
        self.position
    }

    pub(super) fn store(&mut self, position: Position) -> Result<(), QueueError> {
        let mut bytes = [0; CURSOR_BYTES];
        bytes[0..8].copy_from_slice(&position.segment.to_le_bytes());
        bytes[8..16].copy_from_slice(&position.offset.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..16]);
        bytes[16..].copy_from_slice(&crc.to_le_bytes());
        self.file.write_all_at(&bytes, 0).map_err(io_error(&self.path))?;
        self.position = position;
        Ok(())
    }
}

fn parse(bytes: &[u8; CURSOR_BYTES]) -> Option<Position> {
    let number = |at: usize| {
        let mut part = [0; 8];
        part.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(part)
    };
    let crc = u32::from_le_bytes([16, 17, 18, 19].map(|at: usize| bytes[at]));
    let position = Position { segment: number(0), offset: number(8) };
    (crc32fast::hash(&bytes[..16]) == crc).then_some(position)
}
