//! Finishes what a crash left behind.

use crate::error::Error;
use crate::part::{PASSING, Paths};
use crate::{arrow_part, csv_part};
use std::fs::{self, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// What was found and finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files that are finished now.
    pub files: Vec<PathBuf>,
    /// Parts that could not be finished, with the reason; they are left as they are.
    pub failed: Vec<(PathBuf, String)>,
    /// Parts that a recorder is still writing, which are left to it.
    pub in_use: Vec<PathBuf>,
}

/// Finishes every part below `out` that no living recorder holds.
pub fn recover(out: &Path) -> Recovered {
    let mut recovered = Recovered::default();
    for path in files_below(out).into_iter().filter(|path| is_ours(out, path)) {
        match finish(&path) {
            Ok(Found::Finished(file)) => recovered.files.push(file),
            Ok(Found::InUse) => recovered.in_use.push(path),
            Ok(Found::Nothing) => {}
            Err(error) => recovered.failed.push((path, error.to_string())),
        }
    }
    recovered
}

/// A run whose files are below `out`.
pub(crate) fn first_run(out: &Path) -> Option<String> {
    let file = files_below(out).into_iter().find(|file| is_ours(out, file))?;
    let folders = file.strip_prefix(out).ok()?.components().filter_map(|c| c.as_os_str().to_str());
    let run = folders.filter_map(|folder| folder.strip_prefix("run=")).next();
    Some(run.map_or_else(|| file.display().to_string(), |run| format!("run {run}")))
}

/// Whether a file lies where we put ours: `DATASET/node=/run=/.../DATASET-...`. Whoever else writes into the folder
/// keeps what is theirs.
pub(crate) fn is_ours(out: &Path, file: &Path) -> bool {
    let below = file.strip_prefix(out).unwrap_or(file);
    let names: Option<Vec<&str>> = below.components().map(|c| c.as_os_str().to_str()).collect();
    let Some([dataset, node, run, .., name]) = names.as_deref() else { return false };
    let endings = [".csv", ".parquet", csv_part::ENDING, arrow_part::ENDING];
    node.starts_with("node=")
        && run.starts_with("run=")
        && name.strip_prefix(dataset).is_some_and(|rest| rest.starts_with('-'))
        && endings.iter().any(|end| name.ends_with(end))
}

/// Every file in the folders of data sets, in order. A folder of another's making is not looked into
/// deeper than ours are, nor one whose name begins with a dot: there, files are being merged.
pub(crate) fn files_below(out: &Path) -> Vec<PathBuf> {
    // DATASET/node=/run=/date=/hour=/FILE is the deepest we ever write.
    const DEEPEST: usize = 5;
    let mut found = Vec::new();
    let mut left = vec![(out.to_owned(), 0)];
    while let Some((folder, depth)) = left.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            // A link may lead out of the folder: it is not followed.
            match entry.file_type() {
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                Ok(kind) if kind.is_dir() && depth < DEEPEST && !is_hidden(&entry.file_name()) => {
                    left.push((entry.path(), depth + 1))
                }
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn is_hidden(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

enum Found {
    Finished(PathBuf),
    InUse,
    Nothing,
}

fn finish(path: &Path) -> Result<Found, Error> {
    let csv = Paths::of_part(path, csv_part::ENDING);
    let arrow = Paths::of_part(path, arrow_part::ENDING);
    if csv.is_none() && arrow.is_none() {
        return Ok(Found::Nothing);
    }
    let io = |e| Error::io(path, e);
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(Found::InUse),
        Err(TryLockError::Error(error)) => return Err(io(error)),
        Ok(()) => {}
    }
    let paths = csv.as_ref().or(arrow.as_ref());
    for ending in PASSING {
        let _ = paths.map(|paths| fs::remove_file(paths.with(ending)));
    }
    // Killed before even the header was out: there is nothing to keep.
    if file.metadata().map_err(io)?.len() == 0 {
        fs::remove_file(path).map_err(io)?;
        if let Some(paths) = paths {
            paths.remove_about();
        }
        return Ok(Found::Nothing);
    }
    if let Some(paths) = paths
        && let Some(about) = paths.about()
    {
        // The last second, and what was lost in it, nobody could write down any more.
        paths.write_about(&about.with("recovered", true))?;
    }
    match (csv, arrow) {
        (Some(paths), _) => csv_part::recover(&paths, file).map(Found::Finished),
        (_, Some(paths)) => arrow_part::recover(&paths).map(Found::Finished),
        (None, None) => Ok(Found::Nothing),
    }
}
