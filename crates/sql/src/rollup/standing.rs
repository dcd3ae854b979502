//! Sums that stand already.
//!
//! Minutes are given their name first, then the seconds of the same files: minutes of what no seconds are of were cut
//! off there. Sums that take the place of others name them, and these are removed last. So after a crash at any moment it
//! is known what to remove.

use super::kind::{Kind, Period};
use super::{REPLACED, ROLLED_UP};
use crate::Error;
use crate::compact::everything;
use crosstalk_recording::{Metadata, Reader, RecordedFile};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Node and run.
pub(super) type Of = (String, String);

/// Seconds or minutes of some files of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) path: PathBuf,
    pub(super) is_minutes: bool,
    pub(super) sources: BTreeSet<String>,
    /// Sums that these have taken the place of.
    replaced: Vec<PathBuf>,
}

impl Standing {
    /// Whether they have the rows of a file.
    pub(super) fn has(&self, source: &String) -> bool {
        self.sources.contains(source)
    }
}

/// The sums of a run, or why one of them cannot be read: then nobody knows what is summed up.
pub(super) type OfRun = Result<Vec<Standing>, String>;

/// The sums of a data set in a folder, or of one run in it by the folders `node=` and `run=`. What a crash left is removed before.
pub(super) fn standing(
    kind: &Kind,
    out: &Path,
    run: Option<&Path>,
) -> Result<BTreeMap<Of, OfRun>, Error> {
    let mut all: BTreeMap<Of, OfRun> = BTreeMap::new();
    for period in Period::BOTH {
        let folder = out.join(kind.per(period)).join(run.unwrap_or(Path::new("")));
        for path in everything(&folder) {
            // Who writes holds the folder: nobody does.
            if path.to_str().is_some_and(|name| name.ends_with(".parquet.new")) {
                remove(&path)?;
            }
        }
        for file in recorded(&folder)? {
            let of = all.entry((file.node.clone(), file.run.clone())).or_insert(Ok(Vec::new()));
            match file.metadata() {
                Ok(about) => {
                    if let Ok(sums) = of {
                        sums.push(one(out, &file, &about, (kind, period)));
                    }
                }
                Err(error) => *of = Err(error.to_string()),
            }
        }
    }
    for sums in all.values_mut().flatten() {
        settle(sums)?;
    }
    Ok(all)
}

/// The sums of a data set in an object store, where no crash leaves any that others have taken the place of.
pub(super) fn in_store(kind: &Kind, reader: &Reader) -> BTreeMap<Of, OfRun> {
    let mut all: BTreeMap<Of, OfRun> = BTreeMap::new();
    for file in reader.files() {
        let Some(period) = kind.period(&file.dataset) else { continue };
        let of = all.entry((file.node.clone(), file.run.clone())).or_insert(Ok(Vec::new()));
        match file.metadata() {
            Ok(about) => {
                if let Ok(sums) = of {
                    let sources = texts(&about, ROLLED_UP).into_iter().collect();
                    let (path, is_minutes) = (PathBuf::from(&file.path), period == Period::Minute);
                    sums.push(Standing { path, is_minutes, sources, replaced: Vec::new() });
                }
            }
            Err(error) => *of = Err(error.to_string()),
        }
    }
    all
}

fn texts(about: &Metadata, key: &str) -> Vec<String> {
    let names = about.get(key).and_then(|names| names.as_array());
    names.into_iter().flatten().filter_map(|name| name.as_str()).map(str::to_owned).collect()
}

fn recorded(folder: &Path) -> Result<Vec<RecordedFile>, Error> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    match Reader::open([folder.display().to_string()]) {
        Ok(reader) => Ok(reader.files().to_vec()),
        Err(crosstalk_recording::Error::NothingThere { .. }) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn one(
    out: &Path,
    file: &RecordedFile,
    about: &Metadata,
    (kind, period): (&Kind, Period),
) -> Standing {
    let path = PathBuf::from(&file.path);
    let replaced = texts(about, REPLACED);
    let replaced = replaced.iter().flat_map(|name| before(kind, out, &path, name)).collect();
    let sources = texts(about, ROLLED_UP).into_iter().collect();
    Standing { path, is_minutes: period == Period::Minute, sources, replaced }
}

/// What a name among those replaced stands for: a path below the folder of sums or, as it was written once, the end that
/// the names of seconds and minutes of the run had in common.
fn before(kind: &Kind, out: &Path, path: &Path, name: &str) -> Vec<PathBuf> {
    if name.contains('/') {
        return vec![out.join(name)];
    }
    let folder = path.parent().unwrap_or(path);
    let run = folder.strip_prefix(out).unwrap_or(folder).iter().skip(1).collect::<PathBuf>();
    [Period::Minute, Period::Second]
        .map(|period| {
            let dataset = kind.per(period);
            out.join(dataset).join(&run).join(format!("{dataset}-{name}.parquet"))
        })
        .into()
}

/// Removes what others have taken the place of, and minutes whose seconds were never written.
fn settle(sums: &mut Vec<Standing>) -> Result<(), Error> {
    let seconds = |one: &&Standing| !one.is_minutes;
    let mut gone: BTreeSet<PathBuf> = BTreeSet::new();
    for one in sums.iter().filter(seconds) {
        // Whatever has such a name by now: its rows are in these, or it stays.
        let is_replaced = |other: &&Standing| {
            other.path != one.path
                && one.replaced.contains(&other.path)
                && other.sources.is_subset(&one.sources)
        };
        gone.extend(sums.iter().filter(is_replaced).map(|other| other.path.clone()));
    }
    let stay = |one: &&Standing| !gone.contains(&one.path);
    let summed: BTreeSet<&String> =
        sums.iter().filter(seconds).filter(stay).flat_map(|one| &one.sources).collect();
    let cut_off = |one: &&Standing| {
        one.is_minutes && !one.sources.iter().all(|source| summed.contains(source))
    };
    let cut_off: Vec<PathBuf> = sums.iter().filter(cut_off).map(|one| one.path.clone()).collect();
    gone.extend(cut_off);
    // Seconds last: as long as they are there, what they are of counts as summed up.
    let is_seconds = |path: &&PathBuf| sums.iter().any(|one| !one.is_minutes && one.path == **path);
    let (last, first): (Vec<&PathBuf>, Vec<&PathBuf>) = gone.iter().partition(is_seconds);
    for path in first.into_iter().chain(last) {
        remove(path)?;
    }
    sums.retain(|one| !gone.contains(&one.path));
    Ok(())
}

/// Removes a file that may be gone already.
pub(super) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
impl Standing {
    pub(super) fn of(sources: &[String]) -> Self {
        let sources = sources.iter().cloned().collect();
        Self { path: PathBuf::new(), is_minutes: false, sources, replaced: Vec::new() }
    }
}
