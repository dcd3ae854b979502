//! Rows of a millisecond summed up to seconds and minutes, per process: exact sums, and sketches of how single slots
//! and waits were distributed.
//!
//! A second pass over the same folder takes only files that were not summed up yet. Rows add up: where a second is in
//! two files it has two rows, whose sums are the second's and whose sketches merge.

mod row;
mod sum;
mod table;

use crate::Error;
use crate::compact::sources;
use crosstalk_recording::{Metadata, ParquetFile, Reader, RecordedFile};
use row::Rows;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use sum::{Period, Sums};

/// Seconds that may still get rows: a file has them in flushes of half a second, slots of an idle core later.
const OPEN_SECONDS: usize = 10;
const SOURCES: &str = "rolled_up";

/// What was done for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledUp {
    /// The node.
    pub node: String,
    /// The run.
    pub run: String,
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
    /// Files that were older than was to be kept, and are gone.
    pub removed: Vec<PathBuf>,
    /// What could not be read.
    pub unread: Vec<String>,
}

/// Sums up the finished files of tasks at `place` that were not yet. With `keep_from_ns`, those whose every row is
/// older, and that are summed up whole, are removed.
///
/// # Errors
/// There is no recording, it is in an object store, or sums cannot be written.
pub fn rollup(
    place: &str,
    out: Option<&Path>,
    keep_from_ns: Option<u64>,
) -> Result<Vec<RolledUp>, Error> {
    if place.contains("://") && (out.is_none() || keep_from_ns.is_some()) {
        return Err(Error::Refused(format!(
            "{place}: sums of what is in an object store go into a folder: --out DIR, without --keep"
        )));
    }
    let reader = Reader::open([place])?;
    let out = out.unwrap_or(Path::new(place));
    let done = summed_up(out);
    let mut runs: BTreeMap<(String, String), Vec<&RecordedFile>> = BTreeMap::new();
    for file in reader.files().iter().filter(|file| file.dataset == "tasks") {
        if file.state.is_finished() {
            runs.entry((file.node.clone(), file.run.clone())).or_default().push(file);
        }
    }
    let mut all = Vec::new();
    for ((node, run), files) in runs {
        let is_done = |source: &String| done.contains(&(node.clone(), run.clone(), source.clone()));
        let (mut old, mut new, mut mixed) = (Vec::new(), Vec::new(), Vec::new());
        for file in files {
            let sources = sources(file);
            match sources.iter().filter(|source| is_done(source)).count() {
                0 => new.push(file),
                all if all == sources.len() => old.push(file),
                _ => mixed.push(format!(
                    "{}: it was merged from files that are summed up and others that are not",
                    file.path
                )),
            }
        }
        let mut one = sum_up(&reader, out, &node, &run, &new)?;
        one.unread.extend(mixed);
        if let Some(from_ns) = keep_from_ns {
            let whole = new.iter().filter(|_| one.unread.is_empty());
            for file in old.iter().chain(whole) {
                one.removed.extend(remove_if_older(file, from_ns, &reader)?);
            }
        }
        all.push(one);
    }
    Ok(all)
}

fn name(file: &RecordedFile) -> String {
    file.path.rsplit('/').next().unwrap_or(&file.path).to_owned()
}

/// The files that sums in a folder say they are of, by node and run.
fn summed_up(out: &Path) -> BTreeSet<(String, String, String)> {
    let mut known = BTreeSet::new();
    let Ok(reader) = Reader::open([out.display().to_string()]) else { return known };
    // Seconds are given their name last: what they say is there in minutes too.
    let sums = reader.files().iter().filter(|file| file.dataset == Period::Second.dataset());
    for file in sums {
        let about = file.metadata().unwrap_or_default();
        let names = about.get(SOURCES).and_then(|names| names.as_array());
        for name in names.into_iter().flatten().filter_map(|name| name.as_str()) {
            known.insert((file.node.clone(), file.run.clone(), name.to_owned()));
        }
    }
    known
}

fn sum_up(
    reader: &Reader,
    out: &Path,
    node: &str,
    run: &str,
    files: &[&RecordedFile],
) -> Result<RolledUp, Error> {
    let mut done = RolledUp {
        node: node.to_owned(),
        run: run.to_owned(),
        files: files.len(),
        rows: 0,
        bytes: files.iter().map(|file| file.bytes).sum(),
        seconds: (0, 0),
        minutes: (0, 0),
        removed: Vec::new(),
        unread: Vec::new(),
    };
    let Some(last) = files.last() else { return Ok(done) };
    let mut about = last.metadata().unwrap_or_default();
    let names: Vec<String> = files.iter().flat_map(|file| sources(file)).collect();
    about.set(SOURCES, names);
    let target = |period: Period| target(out, period, last);
    let mut seconds = Written::create(&target(Period::Second), &about)?;
    let mut minutes = Written::create(&target(Period::Minute), &about)?;
    let mut open = Sums::new(Period::Second);
    let mut minute = Sums::new(Period::Minute);
    let chosen: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let scan = reader.scan("tasks").files(|file| chosen.contains(file.path.as_str()));
    for piece in scan.columns(row::columns()).pieces() {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                done.unread.push(error.to_string());
                continue;
            }
        };
        done.rows += piece.batch.num_rows() as u64;
        match Rows::of(&piece.batch) {
            Ok(rows) => rows.each(|row| open.add(row)),
            Err(why) => done.unread.push(format!("{}: {why}", piece.file.path)),
        }
        open.hand_over(OPEN_SECONDS, |start_ns, sums| {
            minute.merge(start_ns, &sums)?;
            seconds.write(start_ns, &sums)
        })?;
        minute.hand_over(2, |start_ns, sums| minutes.write(start_ns, &sums))?;
    }
    open.hand_over(0, |start_ns, sums| {
        minute.merge(start_ns, &sums)?;
        seconds.write(start_ns, &sums)
    })?;
    minute.hand_over(0, |start_ns, sums| minutes.write(start_ns, &sums))?;
    done.minutes = minutes.finish()?;
    done.seconds = seconds.finish()?;
    Ok(done)
}

/// Where sums of a run go: named after the last file they are of, which no two have.
fn target(out: &Path, period: Period, last: &RecordedFile) -> PathBuf {
    let dataset = period.dataset();
    let stamp = name(last);
    let stamp = stamp.strip_prefix("tasks-").unwrap_or(&stamp);
    let stamp = stamp.trim_end_matches(".parquet").trim_end_matches(".csv").to_owned();
    let folder = |key: &str| {
        let of = Path::new(&last.path).ancestors().find_map(|folder| {
            folder.file_name()?.to_str().filter(|name| name.starts_with(key)).map(str::to_owned)
        });
        of.unwrap_or_else(|| format!("{key}unknown"))
    };
    out.join(dataset)
        .join(folder("node="))
        .join(folder("run="))
        .join(format!("{dataset}-{stamp}.parquet"))
}

/// A file of sums being written.
struct Written {
    file: ParquetFile,
}

impl Written {
    fn create(target: &Path, about: &Metadata) -> Result<Self, Error> {
        let folder = target.parent().unwrap_or(target);
        fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        Ok(Self { file: ParquetFile::create(target, &table::schema(), about)? })
    }

    fn write(&mut self, start_ns: i64, sums: &sum::Slot) -> Result<(), Error> {
        let batch = table::batch(start_ns, sums).map_err(|e| Error::Engine(e.to_string()))?;
        Ok(self.file.write(&batch)?)
    }

    fn finish(self) -> Result<(u64, u64), Error> {
        let whole = self.file.finish()?;
        Ok((whole.rows, whole.bytes))
    }
}

/// Removes a file whose every row is older, and what lies beside it.
fn remove_if_older(
    file: &RecordedFile,
    from_ns: u64,
    reader: &Reader,
) -> Result<Option<PathBuf>, Error> {
    let newer = reader
        .scan("tasks")
        .files(|one| one.path == file.path)
        .columns(["slot_start_ns"])
        .between(from_ns..u64::MAX)
        .pieces()
        .next();
    if newer.is_some() {
        return Ok(None);
    }
    let path = PathBuf::from(&file.path);
    fs::remove_file(&path).map_err(|e| Error::io(&path, e))?;
    let _ = fs::remove_file(path.with_extension("json"));
    Ok(Some(path))
}
