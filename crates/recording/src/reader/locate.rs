//! What lies at a place.

use super::file::RecordedFile;
use crate::Error;
use crate::recovery::files_below;
use crate::store::Store;
use std::path::Path;

/// The recorded files at a folder, a file or a URL.
pub(super) fn files(place: &str) -> Result<Vec<RecordedFile>, Error> {
    let found = match place.split_once("://") {
        Some(("file", path)) => local(Path::new(path))?,
        Some(_) => {
            let store = Store::open(place)?;
            let objects = store.list()?;
            objects
                .iter()
                .filter_map(|(name, size)| RecordedFile::at(&store, name, *size))
                .collect()
        }
        None => local(Path::new(place))?,
    };
    if found.is_empty() { Err(Error::NothingThere { place: place.to_owned() }) } else { Ok(found) }
}

fn local(path: &Path) -> Result<Vec<RecordedFile>, Error> {
    let about = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
    let store = Store::Local;
    let at = |file: &Path| {
        let bytes = std::fs::metadata(file).map_or(0, |about| about.len());
        RecordedFile::at(&store, file.to_str()?, bytes)
    };
    let files = if about.is_dir() { files_below(path) } else { vec![path.to_owned()] };
    Ok(files.iter().filter_map(|file| at(file)).collect())
}
