//! Batches that wait for a server, one file each, as they will be sent.

use crate::Error;
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

/// What may wait in all.
const MOST_BYTES: u64 = 256 << 20;

/// A folder of batches, the oldest first.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    waiting: VecDeque<(u64, u64)>,
    next: u64,
    most_bytes: u64,
    /// Where they are to go: a file beside them says so to whoever sends them later.
    target: String,
}

/// The file beside batches that says where they are to go.
const TARGET: &str = "target";

impl Spool {
    /// The folder, made if missing, with what waits in it already.
    ///
    /// # Errors
    /// It cannot be made or read.
    pub fn open(folder: &Path, target: &str) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
        let entries = fs::read_dir(folder).map_err(Error::file(folder))?.flatten();
        let mut waiting: Vec<(u64, u64)> = entries
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let number = name.strip_suffix(".lp")?.parse().ok()?;
                Some((number, entry.metadata().ok()?.len()))
            })
            .collect();
        waiting.sort_unstable();
        let next = waiting.last().map_or(0, |(number, _)| number + 1);
        let waiting = waiting.into();
        let (folder, target) = (folder.to_owned(), target.to_owned());
        Ok(Self { folder, waiting, next, most_bytes: MOST_BYTES, target })
    }

    /// Whether batches for this target wait in a folder.
    pub fn waits(folder: &Path, target: &str) -> bool {
        fs::read_to_string(folder.join(TARGET)).is_ok_and(|text| text == target)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:08}.lp"))
    }

    /// Keeps a batch; `false` when there is no room or the disk is full.
    #[must_use]
    pub fn put(&mut self, batch: &str) -> bool {
        let bytes: u64 = self.waiting.iter().map(|(_, bytes)| bytes).sum();
        if bytes + batch.len() as u64 > self.most_bytes {
            return false;
        }
        let (path, part) = (self.path(self.next), self.folder.join("part"));
        let note = || match self.waiting.is_empty() {
            true => fs::write(self.folder.join(TARGET), &self.target),
            false => Ok(()),
        };
        let written =
            note().and_then(|()| fs::write(&part, batch)).and_then(|()| fs::rename(&part, &path));
        if written.is_err() {
            return false;
        }
        self.waiting.push_back((self.next, batch.len() as u64));
        self.next += 1;
        true
    }

    /// The oldest batch. One that cannot be read any more is passed over.
    pub fn first(&mut self) -> Option<String> {
        loop {
            let (number, _) = self.waiting.front()?;
            match fs::read_to_string(self.path(*number)) {
                Ok(batch) => return Some(batch),
                Err(_) => drop(self.waiting.pop_front()),
            }
        }
    }

    /// Forgets the oldest batch.
    pub fn remove_first(&mut self) {
        if let Some((number, _)) = self.waiting.pop_front() {
            let _ = fs::remove_file(self.path(number));
        }
    }

    /// How many batches wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if self.is_empty() {
            let _ = fs::remove_file(self.folder.join(TARGET));
            // Only if nothing else is in it.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_come_back_in_order_also_after_a_crash_and_room_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("spool");
        let mut spool = Spool::open(&place, "db").unwrap();
        for number in 0..12 {
            assert!(spool.put(&format!("m a={number}i 1\n")));
        }
        std::mem::forget(spool);
        let mut spool = Spool::open(&place, "db").unwrap();
        spool.most_bytes = 200;
        assert!(Spool::waits(&place, "db") && !Spool::waits(&place, "other"));
        assert!(!spool.put(&"x".repeat(200)));
        for number in 0..12 {
            assert_eq!(spool.first().unwrap(), format!("m a={number}i 1\n"));
            spool.remove_first();
        }
        assert!(spool.put("later\n") && spool.len() == 1);
        spool.remove_first();
        drop(spool);
        assert!(!place.exists(), "an empty folder is not left");
    }
}
