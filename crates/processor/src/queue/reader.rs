//! The reading end: the oldest block that was not delivered, and the next only after that.

use std::collections::VecDeque;
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
    /// Where the blocks read and not yet delivered end, and when they were appended.
    outstanding: VecDeque<(Position, u64)>,
}

/// What there is at the reader's position.
enum Found {
    Entry(Entry),
    /// Damage; the position is behind it now.
    Damage,
    EndOfSegment,
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
        Reader { shared, cursor, durable, position, open: None, outstanding: VecDeque::new() }
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
                Found::Entry(entry) => {
                    self.position = entry.end;
                    self.note_read(&entry);
                    return Ok(Some(entry));
                }
                Found::Damage => {}
                Found::EndOfSegment => self.go_to_next_segment()?,
            }
        }
    }

    /// Notes that everything up to and with `entry` was delivered; its disk space is given back.
    pub fn delivered(&mut self, entry: &Entry) -> Result<(), QueueError> {
        self.shared.used.fetch_sub(entry.size, Ordering::AcqRel);
        self.note_delivered(entry);
        let old = self.cursor.position().segment;
        self.cursor.store(entry.end)?;
        for segment in old..entry.end.segment {
            remove(&self.shared, segment)?;
        }
        Ok(())
    }

    /// Blocks are read ahead of delivery: the oldest is the first that is not delivered, not the last that was read.
    fn note_read(&mut self, entry: &Entry) {
        let appended = entry.block.enqueued_ms.max(1);
        if self.outstanding.is_empty() {
            self.shared.oldest_ms.store(appended, Ordering::Relaxed);
        }
        self.outstanding.push_back((entry.end, appended));
    }

    fn note_delivered(&mut self, entry: &Entry) {
        while self.outstanding.front().is_some_and(|(end, _)| *end <= entry.end) {
            self.outstanding.pop_front();
        }
        match self.outstanding.front() {
            Some((_, appended)) => self.shared.oldest_ms.store(*appended, Ordering::Relaxed),
            None if self.position == *self.durable.borrow() => {
                self.shared.oldest_ms.store(0, Ordering::Relaxed);
            }
            // More waits unread; the next read will say since when.
            None => {}
        }
    }

    fn read_at_position(&mut self, durable: Position) -> Result<Found, QueueError> {
        let Position { segment, offset } = self.position;
        let path = segment::path(&self.shared.folder, segment);
        let file = match &self.open {
            Some((open, file)) if *open == segment => file,
            _ => match File::open(&path) {
                Ok(file) => &self.open.insert((segment, file)).1,
                Err(error)
                    if error.kind() == std::io::ErrorKind::NotFound
                        && segment < durable.segment =>
                {
                    return Ok(Found::EndOfSegment);
                }
                Err(error) => return Err(io_error(&path)(error)),
            },
        };
        let end = if segment == durable.segment {
            durable.offset
        } else {
            file.metadata().map_err(io_error(&path))?.len()
        };
        if offset >= end {
            return Ok(Found::EndOfSegment);
        }
        if let Some(block) = segment::read_record(file, offset, end).map_err(io_error(&path))? {
            let size = size(block.payload.len());
            let end = Position { segment, offset: offset + size };
            return Ok(Found::Entry(Entry { block, end, size }));
        }
        let next = segment::next_record(file, offset, end).map_err(io_error(&path))?;
        let next = next.unwrap_or(end);
        let skipped = next - offset;
        tracing::error!(path = %path.display(), offset, skipped, "queue segment is damaged; skipped");
        self.shared.damaged.fetch_add(skipped, Ordering::Relaxed);
        self.shared.used.fetch_sub(skipped, Ordering::AcqRel);
        self.position.offset = next;
        Ok(Found::Damage)
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
