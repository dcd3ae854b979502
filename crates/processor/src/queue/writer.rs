//! The thread that writes: everything waiting goes out in one write and one `fdatasync`, then all are answered.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use super::reader::Entry;
use super::record::{Block, Header, size};
use super::segment::{self, Position};
use super::{QueueError, Reservation, Shared, WhenFull, io_error};

/// Blocks that belong together, their room, and who waits for them. The room stays taken also when nobody waits any more:
/// what is on its way to the disk is on its way.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) blocks: Vec<Block>,
    pub(super) reservation: Reservation,
    pub(super) done: oneshot::Sender<Result<(), QueueError>>,
}

/// Blocks that share one write at most.
const GROUP: usize = 64;

pub(super) fn start(
    shared: Arc<Shared>,
    end: Position,
    appends: mpsc::Receiver<Append>,
    lock: File,
) -> Result<JoinHandle<()>, QueueError> {
    let path = segment::path(&shared.folder, end.segment);
    let file = File::options().read(true).write(true).open(&path).map_err(io_error(&path))?;
    let folder = shared.folder.clone();
    let mut writer = Writer { shared, file, end, buffer: Vec::new(), failures: 0 };
    std::thread::Builder::new()
        .name("queue-writer".into())
        .spawn(move || {
            writer.run(appends);
            // Said, not left to the last copy of the descriptor: a child that is just being started has one, too.
            let _ = lock.unlock();
        })
        .map_err(io_error(&folder))
}

struct Writer {
    shared: Arc<Shared>,
    file: File,
    end: Position,
    /// One group as it goes to disk.
    buffer: Vec<u8>,
    /// Writes that failed one after another.
    failures: u64,
}

impl Writer {
    fn run(&mut self, mut appends: mpsc::Receiver<Append>) {
        let mut group = Vec::with_capacity(GROUP);
        while appends.blocking_recv_many(&mut group, GROUP) > 0 {
            let mut result = self.write(&group);
            // A queue that may make room for what is new does so too where the disk is what is full.
            if result.as_ref().is_err_and(is_full_disk) && self.drop_for_space() {
                result = self.write(&group);
            }
            if let Err(error) = &result {
                self.complain(error);
            }
            for Append { reservation, done, .. } in group.drain(..) {
                let answer = match &result {
                    Ok(()) => {
                        reservation.keep();
                        Ok(())
                    }
                    Err(error) => Err(copy(error)),
                };
                // A sender that went away meanwhile will send again; a repeated block does no harm.
                let _ = done.send(answer);
            }
            if result.is_ok() {
                self.failures = 0;
                if let Err(error) = self.make_room() {
                    tracing::error!(%error, "cannot drop the oldest blocks");
                }
            }
        }
    }

    /// A full disk stays full for an hour: told when it begins and now and then.
    fn complain(&mut self, error: &QueueError) {
        if self.failures.is_power_of_two() || self.failures == 0 {
            let failures = self.failures + 1;
            tracing::error!(%error, failures, "queue write failed; the senders keep the data");
        }
        self.failures += 1;
    }

    fn write(&mut self, group: &[Append]) -> Result<(), QueueError> {
        if self.end.offset >= self.shared.limits.segment_bytes {
            self.begin_segment()?;
        }
        let path = segment::path(&self.shared.folder, self.end.segment);
        match self.write_group(group) {
            Ok(()) => {
                self.keep_fresh(group);
                self.shared.durable.send_replace(self.end);
                Ok(())
            }
            Err(error) => {
                // What is half-written is cut off, and written over by the next group. Only where the disk itself failed is
                // it uncertain what the file holds, and a fresh one is begun; an empty one is fresh.
                let _ = self.file.set_len(self.end.offset);
                if !is_out_of_space(&error) && self.end.offset > 0 {
                    let _ = self.begin_segment();
                }
                Err(io_error(&path)(error))
            }
        }
    }

    /// Drops the oldest segments of a queue that may, until the rest fits.
    fn make_room(&mut self) -> Result<(), QueueError> {
        let shared = Arc::clone(&self.shared);
        if shared.limits.when_full != WhenFull::DropOldest {
            return Ok(());
        }
        while shared.used.load(Ordering::Acquire) > shared.limits.max_bytes {
            if !self.drop_oldest()? {
                break;
            }
        }
        Ok(())
    }

    /// Drops the oldest segment of a queue that may, for its room on the disk; whether one was there.
    fn drop_for_space(&mut self) -> bool {
        self.shared.limits.when_full == WhenFull::DropOldest
            && self.drop_oldest().unwrap_or_else(|error| {
                tracing::error!(%error, "cannot drop the oldest blocks of a full disk");
                false
            })
    }

    /// Drops the oldest segment; whether there was one with something in it.
    fn drop_oldest(&mut self) -> Result<bool, QueueError> {
        let floor = self.shared.front().floor;
        let segments = segment::list(&self.shared.folder)?;
        let Some(oldest) = segments.into_iter().find(|segment| *segment >= floor) else {
            return Ok(false);
        };
        if oldest == self.end.segment {
            if self.end.offset == 0 {
                return Ok(false);
            }
            self.begin_segment()?;
            // The reader must know that the old one is whole.
            self.shared.durable.send_replace(self.end);
        }
        self.drop_segment(oldest)?;
        Ok(true)
    }

    fn drop_segment(&self, oldest: u64) -> Result<(), QueueError> {
        let path = segment::path(&self.shared.folder, oldest);
        let file = File::open(&path).map_err(io_error(&path))?;
        let length = file.metadata().map_err(io_error(&path))?.len();
        let mut front = self.shared.front();
        let start = match front.delivered.segment.cmp(&oldest) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => front.delivered.offset.min(length),
            std::cmp::Ordering::Greater => length,
        };
        let samples = segment::count_samples(&file, start, length);
        std::fs::remove_file(&path).map_err(io_error(&path))?;
        front.floor = oldest + 1;
        front.dropped.bytes += length - start;
        front.dropped.samples += samples;
        self.shared.give_back(length - start);
        tracing::warn!(
            folder = %self.shared.folder.display(),
            bytes = length - start,
            samples,
            "queue is full; its oldest blocks are dropped"
        );
        Ok(())
    }

    /// Writes at the end by position: what a failed group left half-written is simply written over.
    fn write_group(&mut self, group: &[Append]) -> std::io::Result<()> {
        let blocks = || group.iter().flat_map(|append| &append.blocks);
        if let [Append { blocks, .. }] = group
            && let [block] = &blocks[..]
        {
            // The common case needs no copy of the payload.
            let header = Header::of(block);
            self.file.write_all_at(&header, self.end.offset)?;
            let after_header = self.end.offset + header.len() as u64;
            self.file.write_all_at(&block.payload, after_header)?;
        } else {
            self.buffer.clear();
            for block in blocks() {
                self.buffer.extend_from_slice(&Header::of(block));
                self.buffer.extend_from_slice(&block.payload);
            }
            self.file.write_all_at(&self.buffer, self.end.offset)?;
            self.buffer.shrink_to(1 << 20);
        }
        self.file.sync_data()
    }

    /// Moves the end behind a group that is on disk, and keeps its blocks for the reader.
    fn keep_fresh(&mut self, group: &[Append]) {
        let mut fresh = self.shared.fresh();
        for block in group.iter().flat_map(|append| &append.blocks) {
            self.end.offset += size(block.payload.len());
            fresh.push(Entry::ending(block.clone(), self.end));
        }
    }

    fn begin_segment(&mut self) -> Result<(), QueueError> {
        let next = Position { segment: self.end.segment + 1, offset: 0 };
        self.file = segment::create(&self.shared.folder, next.segment)?;
        self.end = next;
        Ok(())
    }
}

fn is_full_disk(error: &QueueError) -> bool {
    matches!(error, QueueError::Io { source, .. } if is_out_of_space(source))
}

/// No room on the disk, or none left for this user: the file is as it was.
fn is_out_of_space(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// One failure answers a whole group, and an I/O error cannot be cloned.
fn copy(error: &QueueError) -> QueueError {
    match error {
        QueueError::Io { path, source } => {
            let source = match source.raw_os_error() {
                Some(code) => std::io::Error::from_raw_os_error(code),
                None => std::io::Error::new(source.kind(), source.to_string()),
            };
            QueueError::Io { path: path.clone(), source }
        }
        _ => QueueError::Closed,
    }
}
