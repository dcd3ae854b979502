//! A durable queue on disk: blocks go in at the end, come out in order, and survive `kill -9`.
//!
//! One folder holds numbered segments, each a run of checksummed records, and a cursor that says how far the reader
//! got, and which blocks were delivered ahead of others. An append is answered only after `fdatasync`; appends that wait
//! together share one. A crash can at most repeat blocks whose delivery was not yet noted, never lose one: remote write takes repeated samples without harm. A reader that is
//! close behind gets what was written from memory; one that is not, or a restart, reads it from disk. A block
//! that the disk damaged is counted and stepped over; those behind it are delivered.
//!
//! The queue knows nothing of HTTP or of what a block holds.

mod cursor;
mod fresh;
mod reader;
pub(crate) mod record;
pub(crate) mod segment;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

use cursor::Cursor;
use fresh::Fresh;
pub use reader::{Entry, Reader};
pub use record::Block;
use segment::Position;
use writer::Append;

/// What goes wrong with a queue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// No room: try again once the reader has moved on.
    #[error("queue is full: {used} of {limit} bytes wait to be delivered")]
    Full {
        /// Bytes waiting.
        used: u64,
        /// The bound.
        limit: u64,
    },
    /// Not even an empty queue has room for it.
    #[error("a block of {bytes} bytes is larger than the whole queue, max_queue_bytes ({limit})")]
    TooLarge {
        /// The block's bytes.
        bytes: u64,
        /// The bound.
        limit: u64,
    },
    /// The disk said no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The folder is in use by another process.
    #[error("{}: another process uses this queue; give each processor its own data_dir", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// The writer thread is gone because the queue was closed.
    #[error("queue is closed")]
    Closed,
}

pub(crate) fn io_error(path: &Path) -> impl FnOnce(std::io::Error) -> QueueError + '_ {
    move |source| QueueError::Io { path: path.to_owned(), source }
}

/// What a full queue does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// Refuses, so that senders keep what they have.
    #[default]
    Block,
    /// Drops its oldest blocks, which is counted.
    DropOldest,
}

/// Bounds of a queue.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueLimits {
    /// Bytes that may wait to be delivered.
    pub max_bytes: u64,
    /// Size at which a new segment is begun.
    pub segment_bytes: u64,
    /// What happens when they do.
    pub when_full: WhenFull,
}

/// What a queue dropped for want of room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Bytes.
    pub bytes: u64,
    /// Samples in them.
    pub samples: u64,
}

/// The end of the queue where blocks leave it.
#[derive(Debug, Clone, Copy, Default)]
struct Front {
    /// Everything before was delivered.
    delivered: Position,
    /// Segments before this one were dropped for want of room.
    floor: u64,
    dropped: Dropped,
}

/// What the writer, the reader and the outside share.
#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    limits: QueueLimits,
    /// Bytes appended or reserved and not yet delivered.
    used: AtomicU64,
    /// Bytes found damaged and skipped.
    damaged: AtomicU64,
    front: Mutex<Front>,
    /// What was written last and not read yet.
    fresh: Mutex<Fresh>,
    /// When the oldest undelivered block came, in milliseconds since 1970; 0 when none waits.
    oldest_ms: AtomicU64,
    /// Up to where records are on disk.
    durable: watch::Sender<Position>,
}

impl Shared {
    fn front(&self) -> std::sync::MutexGuard<'_, Front> {
        self.front.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn fresh(&self) -> std::sync::MutexGuard<'_, Fresh> {
        self.fresh.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Gives room back; what was dropped meanwhile may have been given back already.
    fn give_back(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used.try_update(Ordering::AcqRel, Ordering::Acquire, less);
    }
}

/// The writing end; cheap to clone.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use crosstalk_processor::queue::{Block, Queue, QueueLimits};
/// let limits = QueueLimits { max_bytes: 1 << 20, segment_bytes: 1 << 16, ..QueueLimits::default() };
/// let (queue, mut reader) = Queue::open(folder.path(), limits).unwrap();
/// queue.append(Block { kind: 1, samples: 3, payload: "abc".into(), ..Block::default() }).await.unwrap();
/// let entry = reader.next().await.unwrap();
/// assert_eq!(&entry.block.payload[..], b"abc");
/// reader.delivered(&entry).unwrap();
/// assert_eq!(queue.used_bytes(), 0);
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct Queue {
    shared: Arc<Shared>,
    appends: mpsc::Sender<Append>,
    writer: Arc<Mutex<Option<JoinHandle<()>>>>,
}

/// Appends that may wait for the writer thread; more than this wait in their own tasks.
const WAITING_APPENDS: usize = 256;

impl Queue {
    /// Opens the queue in `folder`, making it if needed and repairing what a crash left.
    pub fn open(folder: &Path, limits: QueueLimits) -> Result<(Queue, Reader), QueueError> {
        std::fs::create_dir_all(folder).map_err(io_error(folder))?;
        let lock = segment::lock(folder)?;
        let mut cursor = Cursor::open(folder)?;
        let recovered = segment::recover(folder, cursor.position())?;
        let ahead = cursor.delivered_ahead(recovered.end)?;
        let shared = Arc::new(Shared {
            folder: folder.to_owned(),
            limits,
            used: AtomicU64::new(recovered.pending_bytes),
            damaged: AtomicU64::new(recovered.damaged_bytes),
            front: Mutex::new(Front { delivered: recovered.start, ..Front::default() }),
            fresh: Mutex::default(),
            oldest_ms: AtomicU64::new(0),
            durable: watch::Sender::new(recovered.end),
        });
        let (appends, receiver) = mpsc::channel(WAITING_APPENDS);
        let writer = writer::start(Arc::clone(&shared), recovered.end, receiver, lock)?;
        let reader = Reader::new(Arc::clone(&shared), cursor, recovered.start, ahead);
        let writer = Arc::new(Mutex::new(Some(writer)));
        Ok((Queue { shared, appends, writer }, reader))
    }

    /// Sets room for a payload of `bytes` aside, or says that there is none. A queue that drops its oldest blocks always has
    /// some.
    pub fn reserve(&self, bytes: usize) -> Result<Reservation, QueueError> {
        self.reserve_all([bytes])
    }

    /// As [`Queue::reserve`], for several blocks together.
    pub fn reserve_all(
        &self,
        payloads: impl IntoIterator<Item = usize>,
    ) -> Result<Reservation, QueueError> {
        let size = payloads.into_iter().map(record::size).sum();
        let QueueLimits { max_bytes: limit, when_full, .. } = self.shared.limits;
        if size > limit {
            return Err(QueueError::TooLarge { bytes: size, limit });
        }
        let grown = |used: u64| {
            let total = used.checked_add(size)?;
            (total <= limit || when_full == WhenFull::DropOldest).then_some(total)
        };
        match self.shared.used.try_update(Ordering::AcqRel, Ordering::Acquire, grown) {
            Ok(_) => Ok(Reservation { shared: Arc::clone(&self.shared), size, kept: false }),
            Err(used) => Err(QueueError::Full { used, limit }),
        }
    }

    /// Appends a block and waits until it is on disk.
    pub async fn append(&self, block: Block) -> Result<(), QueueError> {
        let reservation = self.reserve(block.payload.len())?;
        self.append_reserved(reservation, block).await
    }

    /// As [`Queue::append`], in room set aside before.
    pub async fn append_reserved(
        &self,
        reservation: Reservation,
        block: Block,
    ) -> Result<(), QueueError> {
        self.append_all(reservation, vec![block]).await
    }

    /// Appends blocks in room set aside before, and waits until all are on disk.
    pub async fn append_all(
        &self,
        reservation: Reservation,
        blocks: Vec<Block>,
    ) -> Result<(), QueueError> {
        let (done, answer) = oneshot::channel();
        let append = Append { blocks, reservation, done };
        self.appends.send(append).await.map_err(|_| QueueError::Closed)?;
        answer.await.map_err(|_| QueueError::Closed)?
    }

    /// Waits until everything appended is written and the folder is free for another process. Blocks; every clone of
    /// this queue must be gone.
    pub fn close(self) {
        let Queue { appends, writer, .. } = self;
        drop(appends);
        let writer = writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(writer) = writer {
            // The thread ends with its channel; it has nothing to report.
            let _ = writer.join();
        }
    }

    /// Bytes waiting to be delivered, with those being written.
    pub fn used_bytes(&self) -> u64 {
        self.shared.used.load(Ordering::Acquire)
    }

    /// The bound on waiting bytes.
    pub fn max_bytes(&self) -> u64 {
        self.shared.limits.max_bytes
    }

    /// Bytes that were found damaged and skipped since the queue was opened.
    pub fn damaged_bytes(&self) -> u64 {
        self.shared.damaged.load(Ordering::Relaxed)
    }

    /// What was dropped for want of room since the queue was opened.
    pub fn dropped(&self) -> Dropped {
        self.shared.front().dropped
    }

    /// When the first block that is not delivered was appended, in milliseconds since 1970.
    pub fn oldest_ms(&self) -> Option<u64> {
        Some(self.shared.oldest_ms.load(Ordering::Relaxed)).filter(|&ms| ms != 0)
    }
}

/// Room in a queue; given back when dropped unused.
#[derive(Debug)]
pub struct Reservation {
    shared: Arc<Shared>,
    size: u64,
    kept: bool,
}

impl Reservation {
    /// The room is used: whoever delivers what is in it gives it back.
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.kept {
            self.shared.give_back(self.size);
        }
    }
}

#[cfg(test)]
mod tests;
