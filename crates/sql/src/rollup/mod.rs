//! Rows of a millisecond summed up to seconds and minutes, per process, core or what else a data set tells apart: exact
//! sums, and sketches of how single values were distributed.
//!
//! A second pass over the same folder takes only files that were not summed up yet. Rows add up: where a second is in
//! two files it has two rows, whose sums are the second's and whose sketches merge. A file that cannot be read to its end
//! is not in the sums, and neither counts as summed up nor is removed. Where files were merged since, of which some are
//! summed up and others are not, they are summed up again, in place of the sums there were. There is a file of sums for
//! each day, so that it is only that day which is.

mod bucket;
mod kind;
mod plan;
mod row;
mod standing;
mod sum;
mod table;
mod write;

use crate::Error;
use crate::compact::{above, day, sources, unit};
use crate::lock::{self, Held};
use crosstalk_recording::{Patience, Place, Reader, RecordedFile};
use kind::{KINDS, Kind};
use plan::{Again, Plan, by_day, connected, plan};
use standing::{Of, Standing, standing};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use write::{Destination, Failed};

/// In what sums say of themselves: the files that they are of,
pub(crate) const ROLLED_UP: &str = "rolled_up";
/// and the sums that they take the place of.
pub(crate) const REPLACED: &str = "rolled_up_again";

/// What was done for a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolledUp {
    /// The node.
    pub node: String,
    /// The run.
    pub run: String,
    /// The data set that was summed up; with `tasks`, which every run has an entry of, is what was removed of data sets
    /// without sums.
    pub dataset: String,
    /// Files summed up.
    pub files: usize,
    /// Their rows and bytes.
    pub rows: u64,
    /// See `rows`.
    pub bytes: u64,
    /// Rows and bytes of seconds.
    pub seconds: (u64, u64),
    /// Rows and bytes of minutes.
    pub minutes: (u64, u64),
    /// Files that were older than was to be kept, and are gone; those of seconds are empty instead, because they say what is
    /// summed up.
    pub removed: Vec<PathBuf>,
    /// What could not be read.
    pub unread: Vec<String>,
}

/// What stays, by the time of its rows, Unix nanoseconds. Nothing is removed where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Files of every data set with a row of this time or later; of those with sums, the ones that are not summed up, too.
    pub rows_from_ns: Option<u64>,
    /// Sums of seconds likewise.
    pub seconds_from_ns: Option<u64>,
}

/// Sums up the finished files of tasks, slots and cache at `place` that were not yet, into `out` or beside them, then removes what is not to
/// be kept. In an object store sums that others took the place of are removed when they have waited long enough for
/// `patience`.
///
/// # Errors
/// There is no recording, sums cannot be written, or somebody else is writing them.
pub fn rollup(
    place: &str,
    out: Option<&Path>,
    keep: Keep,
    patience: Patience,
) -> Result<Vec<RolledUp>, Error> {
    if let Some(out) = out.filter(|out| out.to_str().is_some_and(|out| out.contains("://"))) {
        return Err(Error::Refused(format!(
            "{}: --out is a folder; sums of what is in an object store go beside it without --out",
            out.display()
        )));
    }
    let there = Place::parse(place)?;
    match (&there, out) {
        (Place::Store(url), None) => return bucket::rollup(url, keep, patience),
        (Place::Store(_), Some(_)) if keep.rows_from_ns.is_some() => {
            return Err(Error::Refused(format!(
                "{place}: --keep removes what is summed up beside it, and with --out DIR that is not known there"
            )));
        }
        _ => {}
    }
    let place = there.to_string();
    let reader = Reader::open([&place])?;
    let out = out.unwrap_or(Path::new(&place));
    fs::create_dir_all(out).map_err(|e| Error::io(out, e))?;
    let Some(_held) = lock::hold(out)? else {
        return Err(Error::Refused(format!(
            "{}: another rollup, or a compact of sums, is at work there; call again when it is done",
            out.display()
        )));
    };
    let mut all = All::default();
    let runs = runs(&reader);
    for kind in &KINDS {
        let mut standing = standing(kind, out, None)?;
        for (of, files) in &runs {
            let files = of_kind(kind, files);
            if files.is_empty() && *kind != KINDS[0] {
                continue;
            }
            let one = all.of(of, kind);
            match standing.remove(&filed(of)).unwrap_or(Ok(Vec::new())) {
                Ok(sums) => Run { kind, files: &files, sums }.sum_up(&mut Folder(out), one)?,
                Err(why) => one.unread.push(why),
            }
        }
    }
    if let Some(from_ns) = keep.rows_from_ns {
        for (of, files) in &runs {
            remove_older(out, of, files, from_ns, &mut all)?;
        }
    }
    if let Some(from_ns) = keep.seconds_from_ns {
        for kind in &KINDS {
            empty_older(kind, out, from_ns, &mut all)?;
        }
    }
    Ok(all.told(reader.unread()))
}

/// What was done, by data set and run.
#[derive(Default)]
struct All(BTreeMap<(usize, Of), RolledUp>);

impl All {
    fn of(&mut self, (node, run): &Of, kind: &Kind) -> &mut RolledUp {
        let at = KINDS.iter().position(|one| one == kind).unwrap_or(KINDS.len());
        self.0.entry((at, (node.clone(), run.clone()))).or_insert_with(|| RolledUp {
            node: node.clone(),
            run: run.clone(),
            dataset: kind.dataset.to_owned(),
            ..RolledUp::default()
        })
    }

    /// All of it; what is nobody's is told with the first.
    fn told(self, unread: &[String]) -> Vec<RolledUp> {
        let mut all: Vec<RolledUp> = self.0.into_values().collect();
        if let Some(first) = all.first_mut() {
            first.unread.extend_from_slice(unread);
        }
        all
    }
}

/// Removes the files of a run that are not to be kept.
fn remove_older(
    out: &Path,
    of: &Of,
    files: &[&RecordedFile],
    from_ns: u64,
    all: &mut All,
) -> Result<(), Error> {
    let _held = match held(out, files.iter())? {
        Ok(held) => held,
        Err(busy) => {
            all.of(of, &KINDS[0]).unread.push(busy);
            return Ok(());
        }
    };
    for kind in &KINDS {
        let ours = of_kind(kind, files);
        let Some(first) = ours.first() else { continue };
        let folder = write::run_folder(first);
        if let Some(Ok(sums)) = standing(kind, out, Some(&folder))?.remove(&filed(of)) {
            Run { kind, files: &ours, sums }.remove_older(from_ns, all.of(of, kind))?;
        }
    }
    remove_others(&others(files), from_ns, all.of(of, &KINDS[0]))
}

/// The files of a data set.
fn of_kind<'a>(kind: &Kind, files: &[&'a RecordedFile]) -> Vec<&'a RecordedFile> {
    files.iter().copied().filter(|file| file.dataset == kind.dataset).collect()
}

/// The files of data sets of which there are no sums.
fn others<'a>(files: &[&'a RecordedFile]) -> Vec<&'a RecordedFile> {
    files.iter().copied().filter(|file| Kind::of(&file.dataset).is_none()).collect()
}

/// Holds the folders that compact holds to merge these files: a merged file may have the name of an old one, and newer
/// rows. What sums go into is held already. `Err` within says who is at work there.
fn held<'a>(
    out: &Path,
    files: impl Iterator<Item = &'a &'a RecordedFile>,
) -> Result<Result<Vec<Held>, String>, Error> {
    let real = |folder: &Path| fs::canonicalize(folder).map_err(|e| Error::io(folder, e));
    let out = real(out)?;
    let units: BTreeSet<PathBuf> =
        files.filter_map(|file| unit(Path::new(&file.path))).map(|unit| above(&unit)).collect();
    let mut held = Vec::new();
    for folder in units {
        if real(&folder)? == out {
            continue;
        }
        let Some(one) = lock::hold(&folder)? else {
            return Ok(Err(format!(
                "{}: a compact is at work there, so nothing of this run is removed; call again when it is done",
                folder.display()
            )));
        };
        held.push(one);
    }
    Ok(Ok(held))
}

/// The finished files of every run, without sums. What lies elsewhere is nobody's recording.
fn runs(reader: &Reader) -> BTreeMap<Of, Vec<&RecordedFile>> {
    let mut runs: BTreeMap<Of, Vec<&RecordedFile>> = BTreeMap::new();
    for file in reader.files().iter().filter(|file| file.state.is_finished()) {
        let is_filed = file.dataset == "tasks" || !(file.node.is_empty() || file.run.is_empty());
        if is_filed && Kind::of_sums(&file.dataset).is_none() {
            runs.entry((file.node.clone(), file.run.clone())).or_default().push(file);
        }
    }
    runs
}

/// Leaves nothing of seconds whose every row is older but what they are of.
fn empty_older(kind: &'static Kind, out: &Path, from_ns: u64, all: &mut All) -> Result<(), Error> {
    for (of, sums) in standing(kind, out, None)? {
        let Ok(sums) = sums else { continue };
        for seconds in sums.into_iter().filter(|one| !one.is_minutes) {
            let reader = Reader::open([seconds.path.display().to_string()])?;
            let Some(file) = reader.files().first() else { continue };
            if file.rows()? == Some(0) || !is_older(file, from_ns) {
                continue;
            }
            write::empty(kind, &seconds.path, &file.metadata()?)?;
            // As folders of sums say it, unless that is how nobody's rows are filed.
            let known = all.0.keys().map(|(_, known)| known.clone());
            let of = known.into_iter().find(|known| filed(known) == of).unwrap_or(of.clone());
            all.of(&of, kind).removed.push(seconds.path);
        }
    }
    Ok(())
}

/// The node and the run as folders of sums say them, which say something always.
fn filed((node, run): &Of) -> Of {
    let said = |name: &String| if name.is_empty() { "unknown".to_owned() } else { name.clone() };
    (said(node), said(run))
}

/// The folder that holds the sums which a folder of seconds or minutes belongs to; `None` for any other. Who changes
/// sums holds it.
pub(crate) fn sums_of(folder: &Path) -> Option<PathBuf> {
    let (above, _) = sums_above(folder)?;
    Some(if above.as_os_str().is_empty() { PathBuf::from(".") } else { above.to_owned() })
}

/// What is above the folder of sums that a folder belongs to, and whose sums they are.
fn sums_above(folder: &Path) -> Option<(&Path, &'static Kind)> {
    let of = |one: &Path| Kind::of_sums(one.file_name()?.to_str()?);
    folder.ancestors().find_map(|one| Some((one.parent()?, of(one)?.0)))
}

/// Removes what a rollup that was cut off left, where a folder is one of sums. Its sums must be held.
pub(crate) fn settle(folder: &Path) -> Result<(), Error> {
    let (Some(out), Some((_, kind))) = (sums_of(folder), sums_above(folder)) else {
        return Ok(());
    };
    let run = folder.ancestors().find(|one| {
        one.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("run="))
    });
    // Below the folder of the data set.
    let run = run.and_then(|run| {
        let above = Path::new(run.parent()?.file_name()?);
        Some(above.join(run.file_name()?))
    });
    standing(kind, &out, run.as_deref()).map(drop)
}

/// The files that sums say they are of.
pub(crate) fn rolled_up(file: &RecordedFile) -> Vec<String> {
    let about = file.metadata().unwrap_or_default();
    let names = about.get(ROLLED_UP).and_then(|names| names.as_array());
    names.into_iter().flatten().filter_map(|name| name.as_str()).map(str::to_owned).collect()
}

/// The files of a data set of a run, and their sums.
struct Run<'a> {
    kind: &'static Kind,
    files: &'a [&'a RecordedFile],
    sums: Vec<Standing>,
}

/// Sums in a folder of this machine.
struct Folder<'a>(&'a Path);

impl Destination for Folder<'_> {
    fn sum_up(
        &mut self,
        kind: &'static Kind,
        files: &[&RecordedFile],
        replaced: &[&Path],
        done: &mut RolledUp,
    ) -> Result<Result<(), Failed>, Error> {
        write::sum_up(self.0, kind, files, replaced, done)
    }
}

impl Run<'_> {
    /// Sums up what is to be.
    fn sum_up(&self, into: &mut dyn Destination, done: &mut RolledUp) -> Result<(), Error> {
        let sources: Vec<Vec<String>> = self.files.iter().map(|file| sources(file)).collect();
        let Plan { new, again, torn, .. } = plan(&sources, &self.sums);
        let of = |at: usize| {
            let path = Path::new(&self.files[at].path);
            (unit(path), day(&self.files[at].path).map(str::to_owned))
        };
        let new = by_day(&new, &sources, of).into_iter();
        let new = new.map(|files| Again { files, replaced: Vec::new() });
        let mut mixed = torn;
        for work in new.chain(again) {
            mixed.extend(self.one(work, &sources, into, done)?);
        }
        for at in mixed {
            done.unread.push(format!(
                "{}: it was merged from files that are summed up and others that are not",
                self.files[at].path
            ));
        }
        Ok(())
    }

    /// Sums up some files as one. Answers those that sums stand of for a part and that cannot be summed up again.
    fn one(
        &self,
        mut work: Again,
        sources: &[Vec<String>],
        into: &mut dyn Destination,
        done: &mut RolledUp,
    ) -> Result<Vec<usize>, Error> {
        let replaced: Vec<&Path> =
            work.replaced.iter().map(|at| self.sums[*at].path.as_path()).collect();
        loop {
            let files: Vec<&RecordedFile> = work.files.iter().map(|at| self.files[*at]).collect();
            let Err(Failed { at, why }) = into.sum_up(self.kind, &files, &replaced, done)? else {
                return Ok(Vec::new());
            };
            done.unread.push(why);
            let failed = work.files.remove(at);
            if !replaced.is_empty() {
                // Sums that stand have its rows, or some of them: they stay.
                let is_done = |name| self.sums.iter().any(|one| one.has(name));
                let is_torn = |file: &usize| !sources[*file].iter().all(is_done);
                return Ok(work
                    .files
                    .into_iter()
                    .filter(|at| *at != failed && is_torn(at))
                    .collect());
            }
        }
    }

    /// Removes files whose every row is older, if they are summed up whole, and so are all that share sums with them: of
    /// sums that are of more than is left, nothing could be summed up again.
    fn remove_older(&self, from_ns: u64, done: &mut RolledUp) -> Result<(), Error> {
        let sources: Vec<Vec<String>> = self.files.iter().map(|file| sources(file)).collect();
        let is_summed = |name| self.sums.iter().any(|one| one.has(name));
        let is_done = |file: &usize| sources[*file].iter().all(is_summed);
        let old: Vec<bool> = self.files.iter().map(|file| is_older(file, from_ns)).collect();
        for (at, file) in self.files.iter().enumerate() {
            let (with, _) = connected(at, &sources, &self.sums);
            if with.iter().all(|file| old[*file] && is_done(file)) {
                done.removed.push(remove(file)?);
            }
        }
        Ok(())
    }
}

/// Removes files of other data sets whose every row is older.
fn remove_others(files: &[&RecordedFile], from_ns: u64, done: &mut RolledUp) -> Result<(), Error> {
    for file in files {
        if is_older(file, from_ns) && has_times(file) {
            done.removed.push(remove(file)?);
        }
    }
    Ok(())
}

/// Whether every row of a file is older.
fn is_older(file: &RecordedFile, from_ns: u64) -> bool {
    let newer = file.scan().columns(["slot_start_ns"]).between(from_ns..u64::MAX);
    newer.pieces().next().is_none()
}

/// Whether it says when its rows were: one of somebody else may not.
fn has_times(file: &RecordedFile) -> bool {
    file.schema().is_ok_and(|schema| schema.column_with_name("slot_start_ns").is_some())
}

fn remove(file: &RecordedFile) -> Result<PathBuf, Error> {
    file.remove()?;
    Ok(PathBuf::from(&file.path))
}
