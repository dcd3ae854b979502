//! The thread that writes: everything waiting goes out in one write and one `fdatasync`, then all are answered.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use super::record::{Block, Header, size};
use super::segment::{self, Position};
use super::{QueueError, Shared, io_error};

/// A block and who waits for it.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) block: Block,
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
    let mut writer = Writer { shared, file, end, buffer: Vec::new() };
    std::thread::Builder::new()
        .name("queue-writer".into())
        .spawn(move || {
            writer.run(appends);
            drop(lock);
        })
        .map_err(io_error(&folder))
}

struct Writer {
    shared: Arc<Shared>,
    file: File,
    end: Position,
    /// One group as it goes to disk.
    buffer: Vec<u8>,
}

impl Writer {
    fn run(&mut self, mut appends: mpsc::Receiver<Append>) {
        let mut group = Vec::with_capacity(GROUP);
        while appends.blocking_recv_many(&mut group, GROUP) > 0 {
            let result = self.write(&group);
            if let Err(error) = &result {
                tracing::error!(%error, "queue write failed; the senders keep the data");
            }
            for append in group.drain(..) {
                let answer = match &result {
                    Ok(()) => Ok(()),
                    Err(error) => Err(copy(error)),
                };
                // A sender that went away meanwhile will send again; a repeated block does no harm.
                let _ = append.done.send(answer);
            }
        }
    }

    fn write(&mut self, group: &[Append]) -> Result<(), QueueError> {
        if self.end.offset >= self.shared.limits.segment_bytes {
            self.begin_segment()?;
        }
        let path = segment::path(&self.shared.folder, self.end.segment);
        let result = self.write_group(group).map_err(io_error(&path));
        match result {
            Ok(written) => {
                self.end.offset += written;
                self.shared.durable.send_replace(self.end);
                Ok(())
            }
            Err(error) => {
                // What the kernel holds of this group is unknown now. The good part is kept and a fresh file begun.
                let _ = self.file.set_len(self.end.offset);
                let _ = self.begin_segment();
                Err(error)
            }
        }
    }

    /// Writes at the end by position: what a failed group left half-written is simply written over.
    fn write_group(&mut self, group: &[Append]) -> std::io::Result<u64> {
        let written: u64 = group.iter().map(|append| size(append.block.payload.len())).sum();
        if let [append] = group {
            // The common case needs no copy of the payload.
            let header = Header::of(&append.block);
            self.file.write_all_at(&header, self.end.offset)?;
            let after_header = self.end.offset + header.len() as u64;
            self.file.write_all_at(&append.block.payload, after_header)?;
        } else {
            self.buffer.clear();
            for append in group {
                self.buffer.extend_from_slice(&Header::of(&append.block));
                self.buffer.extend_from_slice(&append.block.payload);
            }
            self.file.write_all_at(&self.buffer, self.end.offset)?;
            self.buffer.shrink_to(1 << 20);
        }
        self.file.sync_data()?;
        Ok(written)
    }

    fn begin_segment(&mut self) -> Result<(), QueueError> {
        let next = Position { segment: self.end.segment + 1, offset: 0 };
        self.file = segment::create(&self.shared.folder, next.segment)?;
        self.end = next;
        Ok(())
    }
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
