//! The small files of each day merged into large ones, sorted by time, in one step that readers see whole.
//!
//! What is merged is a folder: that of a run, or of a day of it where it is filed by days. The merged files are written
//! where no reader looks, counted row for row, and then take the place of the others: on this machine two folders change
//! names (`folder`), in an object store a note says which objects are read (`bucket`).

mod bucket;
mod folder;
mod merge;
mod stretches;

pub(crate) use folder::{above, everything};

use crate::{Error, Options, Session};
use crosstalk_recording::{
    COMPACTED_FROM, FinishedRows, Patience, Place, Reader, RecordedFile, State,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files as the recorder wrote them that a file holds the rows of: itself, or those it was merged from.
pub(crate) fn sources(file: &RecordedFile) -> Vec<String> {
    let about = file.metadata().unwrap_or_default();
    let merged = about.get(COMPACTED_FROM).and_then(|names| names.as_array());
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
    let place = Place::parse(place)?;
    if let Place::Store(url) = &place {
        return bucket::compact(url, options, patience).await;
    }
    let mut outcomes = Vec::new();
    for unit in units(&Reader::open([place.to_string()])?) {
        outcomes.push(folder::compact(unit, options).await?);
    }
    Ok(outcomes)
}

/// The files of one folder, to be asked. Folders that could not be read are others, and no reason to leave this one; what
/// is noted of its own files stays noted.
async fn session(reader: &Arc<Reader>, options: &Options) -> Result<Session, Error> {
    let session = Session::over(reader, options).await?;
    for note in session.notes.take() {
        if !reader.unread().contains(&note) {
            session.notes.add(note);
        }
    }
    Ok(session)
}

/// The folders whose files are merged.
fn units(all: &Reader) -> BTreeSet<PathBuf> {
    all.files().iter().filter_map(|file| unit(Path::new(&file.path))).collect()
}

/// The folder whose files are merged: that of a day, or of a run.
pub(crate) fn unit(file: &Path) -> Option<PathBuf> {
    let named = |key: &str| {
        let is_it = |folder: &&Path| {
            folder.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(key))
        };
        file.ancestors().skip(1).find(is_it).map(Path::to_owned)
    };
    named("date=").or_else(|| named("run="))
}

/// Why there is nothing to merge, if there is not. It reads the ends of files if there is more than one.
fn merged_already(files: &[&RecordedFile]) -> Option<&'static str> {
    if files.iter().any(|file| file.state != State::Parquet) {
        return None;
    }
    if files.len() == 1 {
        return Some("it is one file already");
    }
    // A run that is not filed by days has a merged file of each.
    let is_merged = |file: &&RecordedFile| {
        file.metadata().is_ok_and(|about| about.get(COMPACTED_FROM).is_some())
    };
    let days: BTreeSet<&str> = files.iter().filter_map(|file| day(&file.path)).collect();
    (days.len() == files.len() && files.iter().all(is_merged))
        .then_some("it is one file a day already")
}

/// The date in a file's name, which begins with its data set.
pub(crate) fn day(path: &str) -> Option<&str> {
    let (_, stamp) = path.rsplit('/').next()?.split_once('-')?;
    stamp.split_once('T').map(|(day, _)| day)
}
