//! What lies at a place.

use super::file::RecordedFile;
use crate::exchange::{ReadNow, covered, read_now};
use crate::recovery::files_below;
use crate::store::Store;
use crate::{Error, Place};
use std::path::{Path, PathBuf};

/// What is to be read at a place.
pub(super) struct Found {
    pub(super) files: Vec<RecordedFile>,
    /// How names of objects begin that are being exchanged.
    pub(super) exchanging: Vec<String>,
    /// What is not read, and why.
    pub(super) unread: Vec<Error>,
}

/// The recorded files at a folder, a file or a URL.
pub(super) fn files(place: &str) -> Result<Found, Error> {
    let (store, ReadNow { objects: found, mut unread }) = match Place::parse(place)? {
        Place::Local(path) => local(&path)?,
        Place::Store(url) => {
            let store = Store::open(&url)?;
            let found = listed(&store)?;
            (store, found)
        }
    };
    let files: Vec<RecordedFile> =
        found.iter().filter_map(|(name, bytes)| RecordedFile::at(&store, name, *bytes)).collect();
    let exchanging = found.iter().filter_map(|(name, _)| covered(name));
    let exchanging = exchanging.map(|start| store.shown(&start)).collect();
    if files.is_empty() {
        return Err(unread.pop().unwrap_or(Error::NothingThere { place: place.to_owned() }));
    }
    Ok(Found { files, exchanging, unread })
}

/// Names and sizes.
type Names = Vec<(String, u64)>;

/// How often a store is listed anew because objects were exchanged meanwhile.
const TRIES: usize = 5;

/// The objects of a store that are to be read.
fn listed(store: &Store) -> Result<ReadNow, Error> {
    for _ in 0..TRIES {
        // Before and after: one that is put meanwhile counts, and where one has gone the listing is old.
        let mut found = notes_above(store)?;
        found.extend(store.list()?);
        found.extend(notes_above(store)?);
        if let Some(now) = read_now(store, found) {
            return Ok(now);
        }
    }
    let reason = format!("its objects were exchanged {TRIES} times while it was listed; ask again");
    Err(Error::Store { url: store.shown_below(""), reason })
}

/// Notes above the place about some names of their folder, which those of the place may be.
fn notes_above(store: &Store) -> Result<Names, Error> {
    let mut notes = store.notes_above()?;
    notes.retain(|(name, _)| covered(name).is_some_and(|start| !start.ends_with('/')));
    Ok(notes)
}

fn local(path: &Path) -> Result<(Store, ReadNow), Error> {
    let about = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
    let store = Store::Local;
    let files = if about.is_dir() { files_below(path) } else { vec![path.to_owned()] };
    let sized = |file: &PathBuf| {
        let bytes = std::fs::metadata(file).map_or(0, |about| about.len());
        Some((file.to_str()?.to_owned(), bytes))
    };
    let files: Names = files.iter().filter_map(sized).collect();
    // A bucket may have been copied here in the middle of an exchange.
    let found =
        read_now(&store, files.clone()).unwrap_or(ReadNow { objects: files, unread: Vec::new() });
    Ok((store, found))
}
