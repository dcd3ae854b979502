//! Segments: numbered files of records, and what is done with them at start.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::record::{HEADER_BYTES, Header, size};
use super::{QueueError, io_error};

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
}

pub(crate) fn path(folder: &Path, segment: u64) -> PathBuf {
    folder.join(format!("{segment:016}.seg"))
}

/// Segment numbers in order.
pub(crate) fn list(folder: &Path) -> Result<Vec<u64>, QueueError> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io_error(folder))? {
        let name = entry.map_err(io_error(folder))?.file_name();
        let number: Option<u64> =
            name.to_str().and_then(|name| name.strip_suffix(".seg")?.parse().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Creates an empty segment, durably: its name is on disk before anything is written to it.
pub(crate) fn create(folder: &Path, segment: u64) -> Result<File, QueueError> {
    let path = path(folder, segment);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(&path);
    let file = file.map_err(io_error(&path))?;
    sync_folder(folder)?;
    Ok(file)
}

pub(crate) fn sync_folder(folder: &Path) -> Result<(), QueueError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error(folder))
}

/// Held while the queue is open: two writers would destroy each other's records.
pub(crate) fn lock(folder: &Path) -> Result<File, QueueError> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(io_error(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(QueueError::InUse { path: folder.to_owned() })
        }
        Err(std::fs::TryLockError::Error(source)) => Err(QueueError::Io { path, source }),
    }
}

/// Reading at a place; a disk that fails is tried without one.
pub(crate) trait ReadAt: std::fmt::Debug + Send + Sync {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()>;
}

impl ReadAt for Box<dyn ReadAt> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        (**self).read_exact_at(buffer, offset)
    }
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

/// Whether the disk could not read what stands at one place; others may be whole.
pub(crate) fn is_unreadable(error: &std::io::Error) -> bool {
    const EIO: i32 = 5;
    error.raw_os_error() == Some(EIO)
}

/// Reads the record at `offset`. `None` when it is damaged or cut short.
pub(crate) fn read_record(
    file: &impl ReadAt,
    offset: u64,
    end: u64,
) -> std::io::Result<Option<super::Block>> {
    let mut header = [0; HEADER_BYTES];
    if offset + HEADER_BYTES as u64 > end {
        return Ok(None);
    }
    file.read_exact_at(&mut header, offset)?;
    let header = Header::parse(header);
    if offset + size(header.length as usize) > end {
        return Ok(None);
    }
    let mut payload = vec![0; header.length as usize];
    file.read_exact_at(&mut payload, offset + HEADER_BYTES as u64)?;
    Ok(header.check(Bytes::from(payload)))
}

/// Where the next whole record begins after the damaged one at `offset`; `None` when no more follows.
///
/// The damaged record's own length is believed first: damage is small, and payloads are large. Where it leads nowhere,
/// any byte may begin a record, and its checksum decides.
fn next_record(file: &impl ReadAt, offset: u64, end: u64) -> std::io::Result<Option<u64>> {
    let mut header = [0; HEADER_BYTES];
    if offset + (HEADER_BYTES as u64) <= end {
        file.read_exact_at(&mut header, offset)?;
        let after = offset + size(Header::parse(header).length as usize);
        if after == end {
            return Ok(None);
        }
        if read_record(file, after, end)?.is_some() {
            return Ok(Some(after));
        }
    }
    search_record(file, offset + 1, end)
}

/// As [`next_record`], also where the disk cannot read what follows the damage.
pub(crate) fn next_after_damage(
    file: &impl ReadAt,
    offset: u64,
    end: u64,
) -> std::io::Result<Option<u64>> {
    match next_record(file, offset, end) {
        Err(error) if is_unreadable(&error) => next_readable(file, offset, end),
        found => found,
    }
}

/// Bytes that a disk loses together.
const SECTOR_BYTES: u64 = 4096;

/// Where the next whole record begins after a place that the disk cannot read; `None` when no more follows.
pub(crate) fn next_readable(
    file: &impl ReadAt,
    offset: u64,
    end: u64,
) -> std::io::Result<Option<u64>> {
    let mut from = offset + 1;
    loop {
        match search_record(file, from, end) {
            Err(error) if is_unreadable(&error) => {
                // Sector by sector to where reading goes on.
                from = (from / SECTOR_BYTES + 1) * SECTOR_BYTES;
                let mut byte = [0];
                while from < end
                    && file.read_exact_at(&mut byte, from).is_err_and(|error| is_unreadable(&error))
                {
                    from += SECTOR_BYTES;
                }
            }
            found => return found,
        }
    }
}

/// Samples of the records from `offset` on, by their headers.
pub(crate) fn count_samples(file: &impl ReadAt, mut offset: u64, end: u64) -> u64 {
    let mut samples = 0;
    let mut header = [0; HEADER_BYTES];
    while offset + (HEADER_BYTES as u64) <= end && file.read_exact_at(&mut header, offset).is_ok() {
        let header = Header::parse(header);
        samples += u64::from(header.samples());
        offset += size(header.length as usize);
    }
    samples
}

/// Bytes looked through at a time for the beginning of a record.
const SEARCH_BYTES: usize = 64 << 10;

fn search_record(file: &impl ReadAt, from: u64, end: u64) -> std::io::Result<Option<u64>> {
    let mut window = vec![0; SEARCH_BYTES];
    let mut start = from;
    while start + HEADER_BYTES as u64 <= end {
        let length = (end - start).min(SEARCH_BYTES as u64) as usize;
        let mut length = length;
        match file.read_exact_at(&mut window[..length], start) {
            Err(error) if is_unreadable(&error) && length > SECTOR_BYTES as usize => {
                // What stands before the bad place is looked through first.
                length = (SECTOR_BYTES - start % SECTOR_BYTES) as usize;
                file.read_exact_at(&mut window[..length], start)?;
            }
            read => read?,
        }
        for (place, header) in window[..length].array_windows().enumerate() {
            let at = start + place as u64;
            if Header::may_begin(header, end - at) {
                match read_record(file, at, end) {
                    Ok(Some(_)) => return Ok(Some(at)),
                    Err(error) if !is_unreadable(&error) => return Err(error),
                    _ => {}
                }
            }
        }
        // The last bytes of this window may be the first of a header.
        start += length.saturating_sub(HEADER_BYTES - 1).max(1) as u64;
    }
    Ok(None)
}

/// What was found at start.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// Where reading goes on.
    pub(crate) start: Position,
    /// Where writing goes on.
    pub(crate) end: Position,
    pub(crate) pending_bytes: u64,
    pub(crate) damaged_bytes: u64,
}

/// Drops segments that were delivered, cuts a record that was being written off the last one, and says where to go on.
///
/// Only the last segment can end in a half-written record: a new one is begun only after the old one is on disk.
pub(crate) fn recover(folder: &Path, cursor: Position) -> Result<Recovered, QueueError> {
    let mut segments = list(folder)?;
    for &delivered in segments.iter().filter(|&&segment| segment < cursor.segment) {
        let path = path(folder, delivered);
        std::fs::remove_file(&path).map_err(io_error(&path))?;
    }
    segments.retain(|&segment| segment >= cursor.segment);
    let Some(&last) = segments.last() else {
        let start = Position { segment: cursor.segment + 1, offset: 0 };
        create(folder, start.segment)?;
        return Ok(Recovered { start, end: start, pending_bytes: 0, damaged_bytes: 0 });
    };
    let first = segments[0];
    let mut start = Position {
        segment: first,
        offset: if first == cursor.segment { cursor.offset } else { 0 },
    };
    let (end_offset, damaged_bytes) = cut_tail(folder, last)?;
    if start.segment == last {
        start.offset = start.offset.min(end_offset);
    }
    let mut pending_bytes = end_offset;
    for &segment in &segments[..segments.len() - 1] {
        let path = path(folder, segment);
        pending_bytes += std::fs::metadata(&path).map_err(io_error(&path))?.len();
    }
    let end = Position { segment: last, offset: end_offset };
    pending_bytes = pending_bytes.saturating_sub(start.offset);
    Ok(Recovered { start, end, pending_bytes, damaged_bytes })
}

/// Cuts the last segment after its last whole record; gives its length and how much was cut.
///
/// A damaged record with whole ones behind it stays where it is: the reader steps over it.
fn cut_tail(folder: &Path, segment: u64) -> Result<(u64, u64), QueueError> {
    let path = path(folder, segment);
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(io_error(&path))?;
    let length = file.metadata().map_err(io_error(&path))?.len();
    let offset = end_of_records(&file, length).map_err(io_error(&path))?;
    let cut = length - offset;
    if cut > 0 {
        tracing::warn!(
            path = %path.display(), offset, cut,
            "queue ended in a half-written or damaged block, which is cut off"
        );
        file.set_len(offset).and_then(|()| file.sync_all()).map_err(io_error(&path))?;
    }
    Ok((offset, cut))
}

pub(super) fn end_of_records(file: &impl ReadAt, length: u64) -> std::io::Result<u64> {
    let mut offset = 0;
    while offset < length {
        let next = match read_record(file, offset, length) {
            Ok(Some(block)) => Some(offset + size(block.payload.len())),
            Ok(None) => next_after_damage(file, offset, length)?,
            Err(error) if is_unreadable(&error) => next_readable(file, offset, length)?,
            Err(error) => return Err(error),
        };
        match next {
            Some(next) => offset = next,
            None => break,
        }
    }
    Ok(offset)
}
