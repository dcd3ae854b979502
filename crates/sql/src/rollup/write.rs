//! Files of sums, seconds and minutes side by side.

use super::kind::{Kind, Period};
use super::row::Rows;
use super::sum::{self, Sums};
use super::{REPLACED, ROLLED_UP, RolledUp, standing, table};
use crate::Error;
use crate::compact::{day, sources};
use crosstalk_recording::{COMPACTED_FROM, Metadata, ParquetFile, RecordedFile};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds that may still get rows: a file has them in flushes of half a second, slots of an idle core later.
const OPEN_SECONDS: usize = 10;

/// The file, by its place, that could not be read to its end.
pub(super) struct Failed {
    pub(super) at: usize,
    pub(super) why: String,
}

/// Where sums go.
pub(super) trait Destination {
    /// Sums up some files, in place of sums that stand. Where one of the files fails, nothing is left of it.
    fn sum_up(
        &mut self,
        kind: &'static Kind,
        files: &[&RecordedFile],
        replaced: &[&Path],
        done: &mut RolledUp,
    ) -> Result<Result<(), Failed>, Error>;
}

/// Sums up some files into a folder of this machine.
pub(super) fn sum_up(
    out: &Path,
    kind: &'static Kind,
    files: &[&RecordedFile],
    replaced: &[&Path],
    done: &mut RolledUp,
) -> Result<Result<(), Failed>, Error> {
    let Some(last) = files.last() else { return Ok(Ok(())) };
    let mut about = last.metadata().unwrap_or_default();
    let names: Vec<String> = files.iter().flat_map(|file| sources(file)).collect();
    about.set(ROLLED_UP, names);
    let below = |path: &&Path| path.strip_prefix(out).unwrap_or(path).to_owned();
    about.set(REPLACED, replaced.iter().map(below).collect::<Vec<PathBuf>>());
    let mark = mark();
    let day = date(files);
    let target = |period: Period| target(out, (kind, period), last, day.as_deref(), &mark);
    let mut written = Written {
        kind,
        seconds: create(kind, &target(Period::Second), &about)?,
        minutes: create(kind, &target(Period::Minute), &about)?,
        second: Sums::new(kind, Period::Second),
        minute: Sums::new(kind, Period::Minute),
        rows: 0,
    };
    for (at, file) in files.iter().enumerate() {
        if let Err(why) = written.add(file)? {
            written.give_up();
            return Ok(Err(Failed { at, why }));
        }
    }
    done.rows += written.rows;
    let [seconds, minutes] = written.finish()?;
    done.seconds = (done.seconds.0 + seconds.0, done.seconds.1 + seconds.1);
    done.minutes = (done.minutes.0 + minutes.0, done.minutes.1 + minutes.1);
    done.files += files.len();
    done.bytes += files.iter().map(|file| file.bytes).sum::<u64>();
    // Seconds last: as long as they are there, what they are of counts as summed up.
    let is_seconds = |path: &&&Path| path.starts_with(out.join(kind.per(Period::Second)));
    for path in
        replaced.iter().filter(|path| !is_seconds(path)).chain(replaced.iter().filter(is_seconds))
    {
        standing::remove(path)?;
    }
    Ok(Ok(()))
}

/// Where sums of a day go. No two have the same name, ever: sums that took the place of others go on saying so, and what
/// they name is removed.
fn target(
    out: &Path,
    (kind, period): (&Kind, Period),
    last: &RecordedFile,
    day: Option<&str>,
    mark: &str,
) -> PathBuf {
    let dataset = kind.per(period);
    let name = last.path.rsplit('/').next().unwrap_or(&last.path);
    let stamp = name.strip_prefix(kind.dataset).unwrap_or(name).trim_start_matches('-');
    let stamp = stamp.trim_end_matches(".parquet").trim_end_matches(".csv");
    let mut folder = out.join(dataset).join(run_folder(last));
    // Whoever asks for another day does not look into the folder of one.
    folder.extend(day);
    folder.join(format!("{dataset}-{stamp}-{mark}.parquet"))
}

fn mark() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}", now.as_nanos())
}

/// `node=` and `run=` of a file.
pub(super) fn run_folder(file: &RecordedFile) -> PathBuf {
    let folder = |key: &str| folder(file, key).unwrap_or_else(|| format!("{key}unknown"));
    Path::new(&folder("node=")).join(folder("run="))
}

/// The one day that files are of, as a folder: merged sums are then those of one.
fn date(files: &[&RecordedFile]) -> Option<String> {
    let mut days = files.iter().map(|file| date_of(file));
    let first = days.next()??;
    days.all(|day| day.as_ref() == Some(&first)).then_some(first)
}

/// The name of a file tells when its rows began. Only one that was merged has those of that day alone.
fn date_of(file: &RecordedFile) -> Option<String> {
    let named = || {
        file.metadata().ok()?.get(COMPACTED_FROM)?;
        let day = day(&file.path).filter(|day| day.len() == 8 && day.is_ascii())?;
        Some(format!("date={}-{}-{}", &day[..4], &day[4..6], &day[6..]))
    };
    folder(file, "date=").or_else(named)
}

fn folder(file: &RecordedFile, key: &str) -> Option<String> {
    Path::new(&file.path).ancestors().find_map(|folder| {
        folder.file_name()?.to_str().filter(|name| name.starts_with(key)).map(str::to_owned)
    })
}

fn create(kind: &Kind, target: &Path, about: &Metadata) -> Result<ParquetFile, Error> {
    let folder = target.parent().unwrap_or(target);
    fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
    Ok(ParquetFile::create(target, &table::schema(kind), about)?)
}

/// Puts a file without rows in the place of one, which says the same of itself.
pub(super) fn empty(kind: &Kind, path: &Path, about: &Metadata) -> Result<(), Error> {
    create(kind, path, about)?.finish()?;
    Ok(())
}

/// Files of sums being written, and what may still grow.
struct Written {
    kind: &'static Kind,
    seconds: ParquetFile,
    minutes: ParquetFile,
    second: Sums,
    minute: Sums,
    rows: u64,
}

impl Written {
    /// Adds a file. `Err` within says why it is not whole.
    fn add(&mut self, file: &RecordedFile) -> Result<Result<(), String>, Error> {
        for piece in file.scan().columns(self.kind.columns()).pieces() {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => return Ok(Err(error.to_string())),
            };
            match Rows::of(self.kind, &piece.batch) {
                Ok(rows) => rows.each(|row| self.second.add(row)),
                Err(why) => return Ok(Err(format!("{}: {why}", file.path))),
            }
            self.rows += piece.batch.num_rows() as u64;
            self.hand_over(OPEN_SECONDS, 2)?;
        }
        Ok(Ok(()))
    }

    /// Writes the oldest, until so many seconds and minutes are left.
    fn hand_over(&mut self, seconds: usize, minutes: usize) -> Result<(), Error> {
        let Self { kind, second, minute, .. } = self;
        let (into, then) = (&mut self.seconds, &mut self.minutes);
        second.hand_over(seconds, |start_ns, sums| {
            minute.merge(start_ns, &sums)?;
            write(kind, into, start_ns, &sums)
        })?;
        minute.hand_over(minutes, |start_ns, sums| write(kind, then, start_ns, &sums))
    }

    /// Rows and bytes of seconds, then of minutes.
    fn finish(mut self) -> Result<[(u64, u64); 2], Error> {
        self.hand_over(0, 0)?;
        let [minutes, seconds] = [self.minutes.finish()?, self.seconds.finish()?];
        Ok([(seconds.rows, seconds.bytes), (minutes.rows, minutes.bytes)])
    }

    fn give_up(self) {
        self.seconds.give_up();
        self.minutes.give_up();
    }
}

fn write(
    kind: &Kind,
    file: &mut ParquetFile,
    start_ns: i64,
    sums: &sum::Slot,
) -> Result<(), Error> {
    let batch = table::batch(kind, start_ns, sums).map_err(|e| Error::Engine(e.to_string()))?;
    Ok(file.write(&batch)?)
}

#[cfg(test)]
mod tests {
    use super::super::kind::KINDS;
    use super::*;
    use crosstalk_recording::Reader;

    #[test]
    fn only_what_is_of_one_day_for_sure_is_filed_under_it() {
        let merged = Metadata::default().with(COMPACTED_FROM, ["tasks-a.parquet"]);
        let name = "tasks-20261115T235959.000Z.parquet";
        for (folder, about, day) in [
            ("run=1", Metadata::default(), None),
            ("run=1", merged, Some("date=2026-11-15")),
            ("run=1/date=2026-11-16", Metadata::default(), Some("date=2026-11-16")),
        ] {
            let out = tempfile::tempdir().unwrap();
            empty(&KINDS[0], &out.path().join(folder).join(name), &about).unwrap();
            let reader = Reader::open([out.path().display().to_string()]).unwrap();
            let files: Vec<&RecordedFile> = reader.files().iter().collect();
            assert_eq!(date(&files).as_deref(), day, "{folder}");
        }
    }
}
