//! What lies at a place.

use super::file::RecordedFile;
use crate::Error;
use crate::exchange::{folder_of, read_now};
use crate::recovery::files_below;
use crate::store::Store;
use std::path::{Path, PathBuf};

/// What is to be read at a place.
pub(super) struct Found {
    pub(super) files: Vec<RecordedFile>,
    /// A folder whose objects are being exchanged.
    pub(super) exchanging: Option<String>,
}

/// The recorded files at a folder, a file or a URL.
pub(super) fn files(place: &str) -> Result<Found, Error> {
    let (store, found) = match place.split_once("://") {
        Some(("file", path)) => local(Path::new(path))?,
        Some(_) => {
            let store = Store::open(place)?;
            let found = listed(&store)?;
            (store, found)
        }
        None => local(Path::new(place))?,
    };
    let files: Vec<RecordedFile> =
        found.iter().filter_map(|(name, bytes)| RecordedFile::at(&store, name, *bytes)).collect();
    let exchanging = found.iter().find_map(|(name, _)| folder_of(name)).map(|f| store.shown(f));
    if files.is_empty() {
        return Err(Error::NothingThere { place: place.to_owned() });
    }
    Ok(Found { files, exchanging })
}

/// Names and sizes.
type Names = Vec<(String, u64)>;

/// How often a store is listed anew because objects were exchanged meanwhile.
const TRIES: usize = 5;

/// The objects of a store that are to be read.
fn listed(store: &Store) -> Result<Names, Error> {
    for _ in 0..TRIES {
        if let Some(objects) = read_now(store, store.list()?)? {
            return Ok(objects);
        }
    }
    let reason = format!("its objects were exchanged {TRIES} times while it was listed; ask again");
    Err(Error::Store { url: store.shown_below(""), reason })
}

fn local(path: &Path) -> Result<(Store, Names), Error> {
    let about = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
    let store = Store::Local;
    let files = if about.is_dir() { files_below(path) } else { vec![path.to_owned()] };
    let sized = |file: &PathBuf| {
        let bytes = std::fs::metadata(file).map_or(0, |about| about.len());
        Some((file.to_str()?.to_owned(), bytes))
    };
    let files: Names = files.iter().filter_map(sized).collect();
    // A bucket may have been copied here in the middle of an exchange.
    let found = read_now(&store, files.clone())?.unwrap_or(files);
    Ok((store, found))
}
