//! The reading end: the oldest block that was not delivered, and the next only after that.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;

use super::cursor::Cursor;
use super::record::{Block, size};
use super::segment::{self, Position, ReadAt};
use super::{QueueError, Shared, io_error};

/// Reads a queue in order. There is one reader a queue.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    cursor: Cursor,
    durable: watch::Receiver<Position>,
    /// Where the next block is read.
    position: Position,
    open: Option<(u64, Box<dyn ReadAt>)>,
    /// The blocks read of which not all before them are delivered.
    outstanding: VecDeque<Outstanding>,
    /// Where blocks end, in order, that are not read yet and were delivered ahead of others before a restart.
    ahead: VecDeque<Position>,
}

/// A block that was read.
#[derive(Debug)]
struct Outstanding {
    end: Position,
    size: u64,
    appended_ms: u64,
    delivered: bool,
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

    /// A block whose record ends there.
    pub(super) fn ending(block: Block, end: Position) -> Entry {
        let size = size(block.payload.len());
        Entry { block, end, size }
    }

    pub(super) fn start(&self) -> Position {
        Position { segment: self.end.segment, offset: self.end.offset - self.size }
    }
}

impl Reader {
    pub(super) fn new(
        shared: Arc<Shared>,
        cursor: Cursor,
        position: Position,
        ahead: Vec<Position>,
    ) -> Reader {
        let durable = shared.durable.subscribe();
        let outstanding = VecDeque::new();
        Reader { shared, cursor, durable, position, open: None, outstanding, ahead: ahead.into() }
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

    /// Waits until there is, or may be, something to read.
    pub async fn wait(&mut self) -> Result<(), QueueError> {
        if self.position < *self.durable.borrow() {
            return Ok(());
        }
        self.durable.changed().await.map_err(|_| QueueError::Closed)
    }

    /// The next block if one waits.
    pub fn try_next(&mut self) -> Result<Option<Entry>, QueueError> {
        loop {
            let durable = *self.durable.borrow_and_update();
            let floor = self.shared.front().floor;
            if self.position.segment < floor {
                self.position = Position { segment: floor, offset: 0 };
                self.open = None;
            }
            if self.position >= durable {
                return Ok(None);
            }
            let fresh = self.shared.fresh().take(self.position);
            let found = match fresh {
                Some(entry) => Found::Entry(entry),
                None => self.read_at_position(durable)?,
            };
            match found {
                Found::Entry(entry) => {
                    self.position = entry.end;
                    self.note_read(&entry);
                    if !self.was_delivered(&entry) {
                        return Ok(Some(entry));
                    }
                    self.delivered_alone(&entry)?;
                }
                Found::Damage => {}
                Found::EndOfSegment => self.go_to_next_segment()?,
            }
        }
    }

    /// Whether a block that was just read had been delivered before a restart.
    fn was_delivered(&mut self, entry: &Entry) -> bool {
        // Those before it are of blocks that were dropped, or damaged since.
        while self.ahead.pop_front_if(|end| *end < entry.end).is_some() {}
        self.ahead.pop_front_if(|end| *end == entry.end).is_some()
    }

    /// Whether an entry was dropped for want of room after it was read.
    pub fn is_dropped(&self, entry: &Entry) -> bool {
        entry.end.segment < self.shared.front().floor
    }

    /// Notes that everything up to and with `entry` was delivered; its disk space is given back.
    pub fn delivered(&mut self, entry: &Entry) -> Result<(), QueueError> {
        for waiting in self.outstanding.iter_mut().take_while(|waiting| waiting.end <= entry.end) {
            waiting.delivered = true;
        }
        self.let_go()
    }

    /// Notes that `entry` was delivered, though others before it may not be. Once they are, its disk space is given back.
    pub fn delivered_alone(&mut self, entry: &Entry) -> Result<(), QueueError> {
        let place = self.outstanding.binary_search_by(|waiting| waiting.end.cmp(&entry.end));
        if let Ok(place) = place {
            self.outstanding[place].delivered = true;
        }
        self.let_go()
    }

    fn let_go(&mut self) -> Result<(), QueueError> {
        let old = self.cursor.position();
        let mut delivered = old;
        while let Some(first) = self.outstanding.pop_front_if(|first| first.delivered) {
            let floor = self.shared.front().floor;
            // What was dropped meanwhile is counted as such already.
            if first.end.segment >= floor {
                self.shared.give_back(first.size);
            }
            delivered = first.end;
        }
        self.note_oldest();
        let read = self.outstanding.iter().filter(|waiting| waiting.delivered);
        let ahead = read.map(|waiting| waiting.end).chain(self.ahead.iter().copied());
        if delivered != old {
            self.shared.front().delivered = delivered;
        }
        self.cursor.store(delivered, ahead)?;
        for segment in old.segment..delivered.segment {
            remove(&self.shared, segment)?;
        }
        Ok(())
    }

    /// Blocks are read ahead of delivery: the oldest is the first that is not delivered, not the last that was read.
    fn note_read(&mut self, entry: &Entry) {
        let appended_ms = entry.block.enqueued_ms.max(1);
        let (end, size) = (entry.end, entry.size);
        self.outstanding.push_back(Outstanding { end, size, appended_ms, delivered: false });
        self.note_oldest();
    }

    fn note_oldest(&mut self) {
        match self.outstanding.front() {
            Some(first) => self.shared.oldest_ms.store(first.appended_ms, Ordering::Relaxed),
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
                Ok(file) => &self.open.insert((segment, Box::new(file))).1,
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
            std::fs::metadata(&path).map_err(io_error(&path))?.len()
        };
        if offset >= end {
            return Ok(Found::EndOfSegment);
        }
        type NextRecord = fn(&Box<dyn ReadAt>, u64, u64) -> std::io::Result<Option<u64>>;
        let (block, next_record): (_, NextRecord) = match segment::read_record(file, offset, end) {
            Ok(block) => (block, segment::next_after_damage),
            Err(error) if segment::is_unreadable(&error) => {
                tracing::error!(path = %path.display(), offset, %error, "the disk cannot read a block");
                (None, segment::next_readable)
            }
            Err(error) => return Err(io_error(&path)(error)),
        };
        if let Some(block) = block {
            let end = Position { segment, offset: offset + size(block.payload.len()) };
            return Ok(Found::Entry(Entry::ending(block, end)));
        }
        let next = next_record(file, offset, end).map_err(io_error(&path))?;
        let next = next.unwrap_or(end);
        let skipped = next - offset;
        tracing::error!(path = %path.display(), offset, skipped, "queue segment is damaged; skipped");
        self.shared.damaged.fetch_add(skipped, Ordering::Relaxed);
        self.shared.give_back(skipped);
        self.position.offset = next;
        Ok(Found::Damage)
    }

    /// Reads a segment from another disk.
    #[cfg(test)]
    pub(super) fn read_from(&mut self, segment: u64, disk: Box<dyn ReadAt>) {
        self.open = Some((segment, disk));
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
