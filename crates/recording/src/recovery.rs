//! Finishes what a crash left behind.

use crate::error::Error;
use crate::part::Paths;
use crate::{arrow_part, csv_part, lock};
use crosstalk_model::Dataset;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

/// What was found and finished at start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files that are finished now.
    pub files: Vec<PathBuf>,
    /// Parts that could not be finished, with the reason; they are left as they are.
    pub failed: Vec<(PathBuf, String)>,
}

/// Finishes every part below `out` that no living recorder holds.
pub(crate) fn recover(out: &Path) -> Recovered {
    let mut recovered = Recovered::default();
    for dataset in Dataset::ALL {
        visit(&out.join(dataset.name()), 0, &mut recovered);
    }
    recovered
}

fn visit(folder: &Path, depth: usize, recovered: &mut Recovered) {
    // DATASET/date=/hour=/FILE is the deepest we ever write.
    const DEEPEST: usize = 2;
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if depth < DEEPEST {
                visit(&path, depth + 1, recovered);
            }
            continue;
        }
        match finish(&path) {
            Ok(Some(file)) => recovered.files.push(file),
            Ok(None) => {}
            Err(error) => recovered.failed.push((path, error.to_string())),
        }
    }
}

fn finish(path: &Path) -> Result<Option<PathBuf>, Error> {
    let csv = Paths::of_part(path, csv_part::ENDING);
    let arrow = Paths::of_part(path, arrow_part::ENDING);
    if csv.is_none() && arrow.is_none() {
        return Ok(None);
    }
    let io = |e| Error::io(path, e);
    let file = OpenOptions::new().read(true).append(true).open(path).map_err(io)?;
    if !lock::try_lock(&file).map_err(io)? {
        return Ok(None);
    }
    // Killed before even the header was out: there is nothing to keep.
    if file.metadata().map_err(io)?.len() == 0 {
        fs::remove_file(path).map_err(io)?;
        if let Some(paths) = csv {
            let _ = fs::remove_file(paths.with(".json.part"));
        }
        return Ok(None);
    }
    match (csv, arrow) {
        (Some(paths), _) => csv_part::recover(&paths, file).map(Some),
        (_, Some(paths)) => arrow_part::recover(&paths).map(Some),
        (None, None) => Ok(None),
    }
}
