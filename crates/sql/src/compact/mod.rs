//! The small files of each day merged into large ones, sorted by time, in one step that readers see whole.
//!
//! What is merged is a folder: that of a run, or of a day of it where it is filed by days. The merged files are written
//! where no reader looks, counted row for row, and then take the place of the others: on this machine two folders change
//! names (`folder`), in an object store a note says which objects are read (`bucket`).

mod bucket;
mod folder;
mod merge;

use crate::{Error, Options};
use crosstalk_recording::{FinishedRows, Patience, Reader, RecordedFile, State};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Which files a merged one was made of, in what it says of itself.
const SOURCES: &str = "compacted_from";

/// The files as the recorder wrote them that a file holds the rows of: itself, or those it was merged from.
pub(crate) fn sources(file: &RecordedFile) -> Vec<String> {
    let about = file.metadata().unwrap_or_default();
    let merged = about.get(SOURCES).and_then(|names| names.as_array());
    let merged = merged.map(|names| names.iter().filter_map(|n| n.as_str()).map(str::to_owned));
    let own = || file.path.rsplit('/').next().unwrap_or(&file.path).to_owned();
    merged.map_or_else(|| vec![own()], Iterator::collect)
}

/// What became of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its files are one a day now.
    Merged {
        /// The folder.
        folder: PathBuf,
        /// Files before and after.
        files: (usize, usize),
        /// Rows, as many as before.
        rows: u64,
        /// Bytes before and after.
        bytes: (u64, u64),
    },
    /// It was left as it is.
    Left {
        /// The folder.
        folder: PathBuf,
        /// Why.
        because: String,
    },
}

impl Outcome {
    fn merged(folder: PathBuf, before: &[&RecordedFile], days: &[FinishedRows]) -> Self {
        let bytes = before.iter().map(|file| file.bytes).sum();
        Self::Merged {
            folder,
            files: (before.len(), days.len()),
            rows: days.iter().map(|day| day.rows).sum(),
            bytes: (bytes, days.iter().map(|day| day.bytes).sum()),
        }
    }
}

/// Merges what is small below `place`. In an object store what was merged before is removed when it has waited long
/// enough for `patience`.
///
/// # Errors
/// There is no recording, or it cannot be written.
pub async fn compact(
    place: &str,
    options: &Options,
    patience: Patience,
) -> Result<Vec<Outcome>, Error> {
    let place = place.strip_prefix("file://").unwrap_or(place);
    if place.contains("://") {
        return bucket::compact(place, options, patience).await;
    }
    let mut outcomes = Vec::new();
    for unit in units(&Reader::open([place])?) {
        outcomes.push(folder::compact(unit, options).await?);
    }
    Ok(outcomes)
}

/// The folders whose files are merged.
fn units(all: &Reader) -> BTreeSet<PathBuf> {
    all.files().iter().filter_map(|file| unit(Path::new(&file.path))).collect()
}

/// The folder whose files are merged: that of a day, or of a run.
fn unit(file: &Path) -> Option<PathBuf> {
    let named = |key: &str| {
        let is_it = |folder: &&Path| {
            folder.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(key))
        };
        file.ancestors().skip(1).find(is_it).map(Path::to_owned)
    };
    named("date=").or_else(|| named("run="))
}

fn is_one_already(files: &[&RecordedFile]) -> bool {
    files.len() == 1 && files.iter().all(|file| file.state == State::Parquet)
}
