//! Whether a store has the rows of a file already: as an object of its name, or merged with others.
//!
//! A crash, or an answer that was lost, leaves a file here that may have been sent. Sent once more after somebody merged
//! what was there, its rows would be read twice.

use crate::exchange::replaces;
use crate::reader::{RecordedFile, State};
use crate::store::Store;
use crate::{COMPACTED_FROM, Error};
use std::collections::HashMap;

/// What merged objects say they were made of. An object never changes, so each is asked once.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    merged: HashMap<String, Vec<String>>,
}

impl Sent {
    /// Whether the rows of a file of so many bytes, with this name below the store's prefix, are there.
    pub(crate) fn is_there(
        &mut self,
        store: &Store,
        name: &str,
        bytes: u64,
    ) -> Result<bool, Error> {
        match store.size_if_there(name) {
            Ok(Some(there)) => Ok(there == bytes),
            Ok(None) => self.is_merged(store, name),
            // Without the right to list, a store denies what is not there. Then the file is sent: rows that are there
            // twice are better than none.
            Err(Error::Denied { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_merged(&mut self, store: &Store, name: &str) -> Result<bool, Error> {
        let Some((folder, below)) = unit(name) else { return Ok(false) };
        let Some(folder) = store.below_bucket(&store.whole(folder)) else { return Ok(false) };
        if replaces(&folder, below)? {
            return Ok(true);
        }
        let base = below.rsplit('/').next().unwrap_or(below);
        // What a CSV file says about itself went into the merged one with its rows.
        let rows = base.strip_suffix(".json").map(|stem| format!("{stem}.csv"));
        let rows = rows.as_deref().unwrap_or(base);
        for (name, bytes) in folder.list()? {
            let file = RecordedFile::at(&folder, &name, bytes);
            let Some(file) = file.filter(|file| file.state == State::Parquet) else { continue };
            if !self.merged.contains_key(&name) {
                self.merged.insert(name.clone(), made_of(&file)?.unwrap_or_default());
            }
            if self.merged[&name].iter().any(|source| source == rows) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// `None` for an object that says nothing: a damaged one is nobody's reason to wait.
fn made_of(file: &RecordedFile) -> Result<Option<Vec<String>>, Error> {
    let about = match file.metadata() {
        Err(Error::Unreadable { .. } | Error::Denied { .. }) => return Ok(None),
        other => other?,
    };
    let names = about.get(COMPACTED_FROM).and_then(|names| names.as_array());
    let names = names.into_iter().flatten().filter_map(|name| name.as_str());
    Ok(Some(names.map(str::to_owned).collect()))
}

/// The folder that is merged as one, that of a day or of a run, and the name below it.
fn unit(name: &str) -> Option<(&str, &str)> {
    let ends = |key: &str| {
        let at = name.find(&format!("/{key}="))? + 1;
        Some(at + name[at..].find('/')?)
    };
    let end = ends("date").or_else(|| ends("run"))?;
    Some((&name[..end], &name[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::unit;

    #[test]
    fn what_is_merged_as_one_is_a_day_or_a_run() {
        let day = "tasks/node=a/run=r/date=2026-11-15/hour=05/tasks-1.parquet";
        let expected = ("tasks/node=a/run=r/date=2026-11-15", "hour=05/tasks-1.parquet");
        assert_eq!(unit(day), Some(expected));
        let flat = "tasks/node=a/run=r/tasks-1.csv";
        assert_eq!(unit(flat), Some(("tasks/node=a/run=r", "tasks-1.csv")));
        assert_eq!(unit("tasks-1.csv"), None);
    }
}
