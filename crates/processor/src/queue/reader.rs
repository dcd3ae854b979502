//! The reading end: the oldest block that was not delivered, and the next only after that.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;

use super::cursor::Cursor;
use super::record::{Block, size};
use super::segment::{self, Position};
use super::{QueueError, Shared, io_error};

/// Reads a queue in order. There is one reader a queue.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    cursor: Cursor,
    durable: watch::Receiver<Position>,
    /// Where the next block is read.
    position: Position,
    open: Option<(u64, File)>,
}

/// A block and its place.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What was appended.
    pub block: Block,
    end: Position,
    size: u64,
}

impl Entry {
    /// A name for the block, unique within its queue.
    pub fn name(&self) -> String {
        format!("{:016}-{:012}", self.end.segment, self.end.offset)
    }
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>, cursor: Cursor, position: Position) -> Reader {
        let durable = shared.durable.subscribe();
        Reader { shared, cursor, durable, position, open: None }
    }

    /// Waits for the next block and reads it. Nothing is marked delivered: see [`Reader::delivered`].
    pub async fn next(&mut self) -> Result<Entry, QueueError> {
        loop {
            if let Some(entry) = self.try_next()? {
                return Ok(entry);
            }
            self.durable.changed().await.map_err(|_| QueueError::Closed)?;
        }
    }

    /// The next block if one waits.
    pub fn try_next(&mut self) -> Result<Option<Entry>, QueueError> {
        loop {
            let durable = *self.durable.borrow_and_update();
            if self.position >= durable {
                return Ok(None);
            }
            match self.read_at_position(durable)? {
                Some(entry) => {
                    self.position = entry.end;
                    return Ok(Some(entry));
                }
                None if self.position.segment == durable.segment => {}
                None => self.go_to_next_segment()?,
            }
        }
    }

    /// Notes that everything up to and with `entry` was delivered; its disk space is given back.
    pub fn delivered(&mut self, entry: &Entry) -> Result<(), QueueError> {
        self.shared.used.fetch_sub(entry.size, Ordering::AcqRel);
        let old = self.cursor.position().segment;
        self.cursor.store(entry.end)?;
        if self.position == *self.durable.borrow() {
            self.shared.oldest_ms.store(0, Ordering::Relaxed);
        }
        for segment in old..entry.end.segment {
            remove(&self.shared, segment)?;
        }
        Ok(())
    }

    fn read_at_position(&mut self, durable: Position) -> Result<Option<Entry>, QueueError> {
        let Position { segment, offset } = self.position;
        let path = segment::path(&self.shared.folder, segment);
        let file = match &self.open {
            Some((open, file)) if *open == segment => file,
            _ => match File::open(&path) {
                Ok(file) => &self.open.insert((segment, file)).1,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(io_error(&path)(error)),
            },
        };
        let end = if segment == durable.segment {
            durable.offset
        } else {
            file.metadata().map_err(io_error(&path))?.len()
        };
        let block = segment::read_record(file, offset, end).map_err(io_error(&path))?;
        let Some(block) = block else {
            let skipped = end.saturating_sub(offset);
            if skipped > 0 {
                tracing::error!(path = %path.display(), offset, skipped, "queue segment is damaged");
                self.shared.damaged.fetch_add(skipped, Ordering::Relaxed);
                self.shared.used.fetch_sub(skipped, Ordering::AcqRel);
            }
            if segment == durable.segment {
                // Records to come in this segment are found from its end on.
                self.position = durable;
            }
            return Ok(None);
        };
        self.shared.oldest_ms.store(block.enqueued_ms.max(1), Ordering::Relaxed);
        let size = size(block.payload.len());
        let end = Position { segment, offset: offset + size };
        Ok(Some(Entry { block, end, size }))
    }

    fn go_to_next_segment(&mut self) -> Result<(), QueueError> {
        let segments = segment::list(&self.shared.folder)?;
        let next = segments.into_iter().find(|&segment| segment > self.position.segment);
        // The writer is always in a later segment here, or the position would be the durable end.
        let segment = next.unwrap_or(self.position.segment + 1);
        self.position = Position { segment, offset: 0 };
        Ok(())
    }
}

fn remove(shared: &Shared, segment: u64) -> Result<(), QueueError> {
    let path = segment::path(&shared.folder, segment);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(&path)(error)),
        _ => Ok(()),
    }
}
