//! One file as it grows: read from where one left off, through rotation and truncation.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// How far a file was read. The file is known by its place on the disk, not by its name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) offset: u64,
}

/// Lines of a file that were not read before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    /// Where the file is read on after them.
    pub(super) next: Position,
    /// No line of these was written later than this, in nanoseconds since 1970.
    pub(super) written_by: u128,
}

/// A file that is followed.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    open: Option<File>,
    position: Position,
}

/// Bytes of a chunk at most; a longer line is sent in parts.
const CHUNK_BYTES: usize = 1 << 20;

impl Tail {
    /// Follows `path` from `position` on, or from its beginning if that is another file's.
    pub(super) fn new(path: &Path, position: Position) -> Tail {
        Tail { path: path.to_owned(), open: None, position }
    }

    /// The lines that came since, none if there are none yet. Nothing is taken as read before [`Tail::advance`]. A line
    /// that does not end waits for its end unless the file is `finished`.
    pub(super) fn read(&mut self, finished: bool) -> io::Result<Option<Chunk>> {
        loop {
            let Some(file) = self.current()? else { return Ok(None) };
            let about = file.metadata()?;
            let rotated = self.is_rotated(&about);
            let mut bytes =
                vec![0; CHUNK_BYTES.min(about.len().saturating_sub(self.position.offset) as usize)];
            let file = self.open.as_ref().expect("it was opened above");
            let length = file.read_at(&mut bytes, self.position.offset)?;
            bytes.truncate(length);
            let ended = memchr::memrchr2(b'\n', b'\r', &bytes).map(|at| at + 1);
            let whole = match ended {
                Some(end) if !(finished || rotated) || bytes.len() == CHUNK_BYTES => end,
                None if !(finished || rotated) && bytes.len() < CHUNK_BYTES => 0,
                _ => bytes.len(),
            };
            bytes.truncate(whole);
            if whole > 0 {
                let next =
                    Position { offset: self.position.offset + whole as u64, ..self.position };
                return Ok(Some(Chunk { bytes, next, written_by: written_by(&about) }));
            }
            if !rotated {
                return Ok(None);
            }
            // The old file is read to its end; the new one has its name.
            self.open = None;
            self.position = Position::default();
        }
    }

    /// Notes that a chunk arrived.
    pub(super) fn advance(&mut self, next: Position) {
        self.position = next;
    }

    /// Goes to the end: only what comes from now on is read.
    pub(super) fn skip(&mut self) -> io::Result<()> {
        if let Some(file) = self.current()? {
            self.position.offset = file.metadata()?.len();
        }
        Ok(())
    }

    /// The file, opened if there is one, and at a place that it has.
    fn current(&mut self) -> io::Result<Option<&File>> {
        if self.open.is_none() {
            let path = self.renamed().unwrap_or_else(|| self.path.clone());
            let file = match File::open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let about = file.metadata()?;
            if (about.dev(), about.ino()) != (self.position.device, self.position.inode) {
                self.position = Position { device: about.dev(), inode: about.ino(), offset: 0 };
            }
            self.open = Some(file);
        }
        let Some(file) = &self.open else { return Ok(None) };
        if file.metadata()?.len() < self.position.offset {
            tracing::warn!(file = %self.path.display(), "file became shorter; read from its beginning");
            self.position.offset = 0;
        }
        Ok(Some(file))
    }

    /// The file that was being read, if another has its name by now and it stands beside it.
    fn renamed(&self) -> Option<PathBuf> {
        let wanted = (self.position.device, self.position.inode);
        let place = |about: &Metadata| (about.dev(), about.ino());
        let named = std::fs::metadata(&self.path).ok()?;
        if wanted == (0, 0) || place(&named) == wanted {
            return None;
        }
        let folder = std::path::absolute(&self.path).ok()?;
        let mut files = std::fs::read_dir(folder.parent()?).ok()?.flatten();
        let old = files.find(|file| file.metadata().is_ok_and(|about| place(&about) == wanted))?;
        Some(old.path())
    }

    /// Whether another file has the name by now.
    fn is_rotated(&self, about: &Metadata) -> bool {
        let named = std::fs::metadata(&self.path);
        named.is_ok_and(|named| (named.dev(), named.ino()) != (about.dev(), about.ino()))
    }
}

fn written_by(about: &Metadata) -> u128 {
    let modified = about.modified().unwrap_or_else(|_| SystemTime::now());
    modified.min(SystemTime::now()).duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn append(path: &Path, text: &str) {
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn take(tail: &mut Tail, finished: bool) -> String {
        let Some(chunk) = tail.read(finished).unwrap() else { return String::new() };
        tail.advance(chunk.next);
        String::from_utf8(chunk.bytes).unwrap()
    }

    #[test]
    fn whole_lines_are_read_once_through_rotation_and_truncation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.log");
        let mut tail = Tail::new(&path, Position::default());
        assert_eq!(take(&mut tail, false), "");
        append(&path, "one\ntwo\nthr");
        assert_eq!(take(&mut tail, false), "one\ntwo\n");
        assert_eq!(take(&mut tail, false), "");
        append(&path, "ee\r4%|\r");
        assert_eq!(take(&mut tail, false), "three\r4%|\r");
        // Rotated with a last line that was never ended.
        append(&path, "last");
        std::fs::rename(&path, folder.path().join("train.log.1")).unwrap();
        append(&path, "new\n");
        assert_eq!(take(&mut tail, false), "last");
        assert_eq!(take(&mut tail, false), "new\n");
        // Copied away and cut.
        File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        append(&path, "x\n");
        assert_eq!(take(&mut tail, false), "x\n");
        append(&path, "the end");
        assert_eq!(take(&mut tail, true), "the end");
    }

    #[test]
    fn reading_goes_on_where_it_ended_unless_the_file_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.log");
        append(&path, "one\ntwo\n");
        let mut tail = Tail::new(&path, Position::default());
        let position = tail.read(false).unwrap().unwrap().next;
        append(&path, "three\n");
        assert_eq!(take(&mut Tail::new(&path, position), false), "three\n");
        let other = Position { inode: position.inode + 1, ..position };
        assert_eq!(take(&mut Tail::new(&path, other), false), "one\ntwo\nthree\n");
        let mut only_new = Tail::new(&path, Position::default());
        only_new.skip().unwrap();
        assert_eq!(take(&mut only_new, false), "");
    }

    #[test]
    fn a_line_longer_than_a_chunk_is_read_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.log");
        append(&path, &"x".repeat(CHUNK_BYTES + 10));
        append(&path, "\nafter\n");
        let mut tail = Tail::new(&path, Position::default());
        assert_eq!(take(&mut tail, false).len(), CHUNK_BYTES);
        assert_eq!(take(&mut tail, false), format!("{}\nafter\n", "x".repeat(10)));
    }
}
