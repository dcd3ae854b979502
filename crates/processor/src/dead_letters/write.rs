//! Keeping one more.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{About, done_path, pack, protocol_of};
use crate::error::{Error, file_error};
use crate::queue::record::{Block, Header, size};
use crate::queue::{QueueError, io_error, segment};

/// Appends dead letters to one folder. There is one a folder: the queue's lock is held by whoever has it.
#[derive(Debug)]
pub(crate) struct Keeper {
    folder: PathBuf,
    max_bytes: u64,
    segment: u64,
    /// Where the next goes; the file is made when it is needed.
    open: Option<(File, u64)>,
}

impl Keeper {
    pub(crate) fn open(folder: &Path, max_bytes: u64) -> Result<Self, Error> {
        std::fs::create_dir_all(folder).map_err(file_error(folder))?;
        let last = segment::list(folder)
            .map_err(|cause| Error::Queue { endpoint: folder.display().to_string(), cause })?;
        // A segment that a crash left half-written is never written to again.
        let segment = last.last().copied().unwrap_or(0);
        Ok(Keeper { folder: folder.to_owned(), max_bytes, segment, open: None })
    }

    /// Keeps a block, on disk when this returns; gives the number of older ones deleted for it.
    pub(crate) fn keep(
        &mut self,
        block: &Block,
        status: u16,
        reason: &str,
    ) -> Result<u64, QueueError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let about = About {
            status,
            reason: reason.to_owned(),
            refused_ms: now.as_millis() as u64,
            enqueued_ms: block.enqueued_ms,
            samples: block.samples,
            bytes: block.payload.len(),
            protocol: protocol_of(block.kind).to_owned(),
        };
        let payload = pack(&about, &block.payload).into();
        let letter = Block { payload, ..block.clone() };
        let mut evicted = 0;
        if self.open.as_ref().is_none_or(|(_, length)| *length >= self.segment_bytes()) {
            evicted = self.evict(size(letter.payload.len()))?;
            self.segment += 1;
            self.open = Some((segment::create(&self.folder, self.segment)?, 0));
        }
        let path = segment::path(&self.folder, self.segment);
        if let Some((file, length)) = &mut self.open {
            let mut record = Header::of(&letter).to_vec();
            record.extend_from_slice(&letter.payload);
            let written = file.write_all_at(&record, *length).and_then(|()| file.sync_data());
            written.map_err(io_error(&path))?;
            *length += record.len() as u64;
        }
        Ok(evicted)
    }

    fn segment_bytes(&self) -> u64 {
        (self.max_bytes / 8).clamp(1, 8 << 20)
    }

    /// Deletes the oldest segments so that one more has room; gives the number of letters in them.
    fn evict(&self, more: u64) -> Result<u64, QueueError> {
        let segments = segment::list(&self.folder)?;
        let length = |segment: &u64| {
            std::fs::metadata(segment::path(&self.folder, *segment)).map_or(0, |meta| meta.len())
        };
        let mut total: u64 = segments.iter().map(length).sum();
        let room = self.max_bytes.saturating_sub(self.segment_bytes().max(more));
        let mut evicted = 0;
        for segment in &segments {
            if total <= room {
                break;
            }
            total -= length(segment);
            evicted += super::read::letters_of(&self.folder, *segment, false)?.len() as u64;
            let path = segment::path(&self.folder, *segment);
            std::fs::remove_file(&path).map_err(io_error(&path))?;
            let _ = std::fs::remove_file(done_path(&self.folder, *segment));
        }
        Ok(evicted)
    }
}
