//! Dead letters: blocks a store refused for good, kept for a person to look at.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::json;

use crate::error::{Error, file_error};
use crate::queue::Entry;

/// A folder of dead letters: `NAME.block` is the body as it was sent, `NAME.json` says why.
#[derive(Debug)]
pub(super) struct DeadLetters {
    folder: PathBuf,
    max_bytes: u64,
}

impl DeadLetters {
    pub(super) fn open(queue_folder: &Path, max_bytes: u64) -> Result<Self, Error> {
        let folder = queue_folder.join("dead-letters");
        std::fs::create_dir_all(&folder).map_err(file_error(&folder))?;
        Ok(DeadLetters { folder, max_bytes })
    }

    /// Keeps a block; gives the number of older ones deleted to stay within the bound. A disk that refuses even this is
    /// logged: the block is lost to delivery either way.
    pub(super) fn keep(&self, entry: &Entry, status: u16, reason: &str) -> u64 {
        let result = self.write(entry, status, reason).and_then(|()| self.evict());
        result.unwrap_or_else(|error| {
            tracing::error!(folder = %self.folder.display(), %error, "cannot keep a dead letter");
            0
        })
    }

    fn write(&self, entry: &Entry, status: u16, reason: &str) -> std::io::Result<()> {
        let block = &entry.block;
        let about = json!({
            "status": status,
            "reason": reason,
            "samples": block.samples,
            "enqueued_ms": block.enqueued_ms,
            "protocol": if block.kind == 2 { "2.0" } else { "1.0" },
            "encoding": "snappy",
        });
        std::fs::write(self.folder.join(format!("{}.block", entry.name())), &block.payload)?;
        std::fs::write(self.folder.join(format!("{}.json", entry.name())), about.to_string())
    }

    /// Deletes the oldest blocks until the rest fits.
    fn evict(&self) -> std::io::Result<u64> {
        let mut files: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for file in std::fs::read_dir(&self.folder)? {
            let file = file?;
            let about = file.metadata()?;
            files.push((about.modified()?, file.path(), about.len()));
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, _, length)| length).sum();
        let mut evicted = 0;
        for (_, path, length) in files {
            if total <= self.max_bytes {
                break;
            }
            std::fs::remove_file(&path)?;
            total -= length;
            evicted += u64::from(path.extension().is_some_and(|extension| extension == "block"));
        }
        Ok(evicted)
    }
}
