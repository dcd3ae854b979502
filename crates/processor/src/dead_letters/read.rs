//! Looking at them, and done with them.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::{About, done_path, folder, folder_of_logs, unpack};
use crate::queue::record::size;
use crate::queue::{QueueError, io_error, segment};

/// The dead letters of an endpoint or log store, also while a processor keeps more of them.
#[derive(Debug)]
pub struct DeadLetters {
    folder: PathBuf,
}

/// A block that a store refused.
#[derive(Debug, Clone)]
pub struct Letter {
    /// Its name: where it lies.
    pub id: String,
    /// What is known of it.
    pub about: About,
    pub(super) place: (u64, u64),
    pub(super) kind: u8,
    /// The body as it was sent; empty unless asked for.
    pub(super) block: Bytes,
}

impl DeadLetters {
    /// Those of the endpoint called so, of the processor with this data folder.
    #[must_use]
    pub fn of(data_dir: &Path, endpoint: &str) -> Self {
        DeadLetters { folder: folder(data_dir, endpoint) }
    }

    /// Those of the log store called so.
    #[must_use]
    pub fn of_log_store(data_dir: &Path, store: &str) -> Self {
        DeadLetters { folder: folder_of_logs(data_dir, store) }
    }

    /// All that are there, the oldest first, without their bodies.
    ///
    /// # Errors
    /// What the file system says.
    pub fn list(&self) -> Result<Vec<Letter>, QueueError> {
        let mut letters = Vec::new();
        self.each(|letter| {
            letters.push(Letter { block: Bytes::new(), ..letter });
            Ok(())
        })?;
        Ok(letters)
    }

    /// Calls `take` with one after another, the oldest first; one segment is in memory at a time.
    pub(super) fn each(
        &self,
        mut take: impl FnMut(Letter) -> Result<(), QueueError>,
    ) -> Result<(), QueueError> {
        for segment in self.segments()? {
            for letter in letters_of(&self.folder, segment, true)? {
                take(letter)?;
            }
        }
        Ok(())
    }

    pub(super) fn segments(&self) -> Result<Vec<u64>, QueueError> {
        if self.folder.exists() { segment::list(&self.folder) } else { Ok(Vec::new()) }
    }

    pub(super) fn letters(&self, segment: u64) -> Result<Vec<Letter>, QueueError> {
        letters_of(&self.folder, segment, true)
    }

    /// Forgets letters. A segment without any goes, unless more may still be written to it. Those of one segment cost as
    /// much as one of them.
    ///
    /// # Errors
    /// What the file system says.
    pub fn forget<'l>(
        &self,
        letters: impl IntoIterator<Item = &'l Letter>,
    ) -> Result<(), QueueError> {
        let mut places: BTreeMap<u64, Vec<&Letter>> = BTreeMap::new();
        for letter in letters {
            places.entry(letter.place.0).or_default().push(letter);
        }
        for (segment, letters) in places {
            let mut done = self.forgetting(segment);
            letters.into_iter().try_for_each(|letter| done.note(letter))?;
            done.finish()?;
        }
        Ok(())
    }

    /// Forgets letters of one segment, one after another.
    pub(super) fn forgetting(&self, segment: u64) -> Forgetting<'_> {
        Forgetting { letters: self, segment, file: None }
    }

    fn remove_if_empty(&self, segment: u64) -> Result<(), QueueError> {
        let last = self.segments()?.last().copied();
        if last.is_some_and(|last| segment < last) && self.letters(segment)?.is_empty() {
            let _ = std::fs::remove_file(segment::path(&self.folder, segment));
            let _ = std::fs::remove_file(done_path(&self.folder, segment));
        }
        Ok(())
    }
}

/// Letters of one segment on their way out. Each is noted at once; that it survives a power cut, and whether the segment
/// can go, is seen to once for all.
pub(super) struct Forgetting<'a> {
    letters: &'a DeadLetters,
    segment: u64,
    file: Option<File>,
}

impl Forgetting<'_> {
    pub(super) fn note(&mut self, letter: &Letter) -> Result<(), QueueError> {
        let path = done_path(&self.letters.folder, self.segment);
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = File::options().create(true).append(true).open(&path);
                self.file.insert(file.map_err(io_error(&path))?)
            }
        };
        file.write_all(format!("{}\n", letter.place.1).as_bytes()).map_err(io_error(&path))
    }

    pub(super) fn finish(self) -> Result<(), QueueError> {
        let Some(file) = self.file else { return Ok(()) };
        let path = done_path(&self.letters.folder, self.segment);
        file.sync_data().map_err(io_error(&path))?;
        self.letters.remove_if_empty(self.segment)
    }
}

/// The letters of a segment that are not done with.
pub(super) fn letters_of(
    folder: &Path,
    number: u64,
    unpacked: bool,
) -> Result<Vec<Letter>, QueueError> {
    let path = segment::path(folder, number);
    let file = match File::open(&path) {
        Ok(file) => file,
        // Gone since the folder was listed.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error(&path)(error)),
    };
    let end = file.metadata().map_err(io_error(&path))?.len();
    let done = std::fs::read_to_string(done_path(folder, number)).unwrap_or_default();
    let done: HashSet<u64> = done.lines().filter_map(|line| line.parse().ok()).collect();
    let (mut letters, mut offset) = (Vec::new(), 0);
    while offset < end {
        let read = match segment::read_record(&file, offset, end) {
            Err(error) if segment::is_unreadable(&error) => Ok(None),
            read => read.map_err(io_error(&path)),
        };
        let Some(block) = read? else {
            // One that is just being written, or damage.
            match segment::next_after_damage(&file, offset, end).map_err(io_error(&path))? {
                Some(next) => offset = next,
                None => break,
            }
            continue;
        };
        let place = (number, offset);
        offset += size(block.payload.len());
        if done.contains(&place.1) {
            continue;
        }
        if let Some((about, body)) = unpack(&block.payload) {
            let body = if unpacked { block.payload.slice_ref(body) } else { Bytes::new() };
            let id = format!("{:016}-{:09}", place.0, place.1);
            letters.push(Letter { id, about, place, kind: block.kind, block: body });
        }
    }
    Ok(letters)
}
