//! The small files of each day merged into large ones, sorted by time, in one step that readers see whole.
//!
//! What is merged is a folder: that of a run, or of a day of it where it is filed by days. The merged files are written
//! into a folder beside it that no reader looks into, checked row for row, and the two change names in one step. A
//! crash before that leaves the recording as it was, one after it leaves rubbish that the next call takes away.

use crate::{Error, Options, Session};
use crosstalk_recording::{Metadata, ParquetFile, Reader, RecordedFile, State};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DAY_NS: i64 = 86_400_000_000_000;
/// Columns that rows of a second are sorted by, where a data set has them: neighbours are then alike.
const KEYS: [&str; 7] =
    ["pid", "process_start_ns", "cgroup_id", "l3_domain", "resource", "core", "slot_start_ns"];

/// Which files a merged one was made of, in what it says of itself.
const SOURCES: &str = "compacted_from";

/// The files as the recorder wrote them that a file holds the rows of: itself, or those it was merged from.
pub(crate) fn sources(file: &RecordedFile) -> Vec<String> {
    let about = file.metadata().unwrap_or_default();
    let merged = about.get(SOURCES).and_then(|names| names.as_array());
    let merged = merged.map(|names| names.iter().filter_map(|n| n.as_str()).map(str::to_owned));
    let own = || file.path.rsplit('/').next().unwrap_or(&file.path).to_owned();
    merged.map_or_else(|| vec![own()], Iterator::collect)
}

/// What became of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its files are one a day now.
    Merged {
        /// The folder.
        folder: PathBuf,
        /// Files before and after.
        files: (usize, usize),
        /// Rows, as many as before.
        rows: u64,
        /// Bytes before and after.
        bytes: (u64, u64),
    },
    /// It was left as it is.
    Left {
        /// The folder.
        folder: PathBuf,
        /// Why.
        because: String,
    },
}

/// Merges what is small below `place`.
///
/// # Errors
/// There is no recording, or it is in an object store, where nothing can be exchanged in one step.
pub async fn compact(place: &str, options: &Options) -> Result<Vec<Outcome>, Error> {
    if place.contains("://") {
        return Err(Error::Refused(format!(
            "{place}: an object store cannot exchange many objects in one step; compact the folder before it is uploaded"
        )));
    }
    let all = Reader::open([place])?;
    let folders: BTreeSet<PathBuf> =
        all.files().iter().filter_map(|file| unit(Path::new(&file.path))).collect();
    let mut outcomes = Vec::new();
    for folder in folders {
        let place = folder.display().to_string();
        let reader = Arc::new(Reader::open([&place])?);
        let files: Vec<&RecordedFile> = reader.files().iter().collect();
        let outcome = match reason_to_leave(&folder, &files) {
            Some(because) => Outcome::Left { folder, because },
            None => {
                let session = Session::over(&reader, options).await?;
                merge(&session, &folder, &files).await?
            }
        };
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// The folder whose files are merged: that of a day, or of a run.
fn unit(file: &Path) -> Option<PathBuf> {
    let named = |key: &str| {
        let is_it = |folder: &&Path| {
            folder.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(key))
        };
        file.ancestors().skip(1).find(is_it).map(Path::to_owned)
    };
    named("date=").or_else(|| named("run="))
}

fn reason_to_leave(folder: &Path, files: &[&RecordedFile]) -> Option<String> {
    if files.iter().any(|file| !file.state.is_finished()) {
        let why =
            "it is being recorded, or was cut off: crosstalk recover finishes what a crash left";
        return Some(why.to_owned());
    }
    let is_merged = |file: &&RecordedFile| file.state == State::Parquet;
    if files.len() == 1 && files.iter().all(is_merged) {
        return Some("it is one file already".to_owned());
    }
    // The whole folder is exchanged: what is not ours would be gone.
    let ours = |path: &PathBuf| {
        let is_file = |path: &Path| files.iter().any(|file| Path::new(&file.path) == path);
        is_file(path)
            || is_file(&path.with_extension("csv")) && path.extension() == Some("json".as_ref())
    };
    let strange = everything(folder).into_iter().find(|path| !ours(path));
    strange.map(|path| format!("{} is no file of a recording", path.display()))
}

/// Every file below a folder.
fn everything(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder { left.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found
}

async fn merge(
    session: &Session,
    folder: &Path,
    files: &[&RecordedFile],
) -> Result<Outcome, Error> {
    let staged = staged(folder);
    // What a crash left there was never, or is no longer, part of the recording.
    let _ = fs::remove_dir_all(&staged);
    fs::create_dir_all(&staged).map_err(|e| Error::io(&staged, e))?;
    let merged = write(session, &staged, files).await;
    let days = merged.inspect_err(|_| drop(fs::remove_dir_all(&staged)))?;
    let read = rows(session, files).await?;
    let written: u64 = days.iter().map(|day| day.rows).sum();
    let unread = session.notes.take();
    if read != written || !unread.is_empty() {
        let _ = fs::remove_dir_all(&staged);
        let because = unread
            .first()
            .cloned()
            .unwrap_or_else(|| format!("{written} rows were written where {read} were read"));
        return Ok(Outcome::Left { folder: folder.to_owned(), because });
    }
    sync(&staged)?;
    renameat_with(CWD, staged.as_path(), CWD, folder, RenameFlags::EXCHANGE)
        .map_err(|e| Error::io(folder, e.into()))?;
    folder.parent().map_or(Ok(()), sync)?;
    fs::remove_dir_all(&staged).map_err(|e| Error::io(&staged, e))?;
    Ok(Outcome::Merged {
        folder: folder.to_owned(),
        files: (files.len(), days.len()),
        rows: written,
        bytes: (files.iter().map(|file| file.bytes).sum(), days.iter().map(|day| day.bytes).sum()),
    })
}

/// Beside the folder, with a name that no reader looks into.
fn staged(folder: &Path) -> PathBuf {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    folder.with_file_name(format!(".{name}.compacting"))
}

/// So that a crash of the machine does not lose the exchange.
fn sync(folder: &Path) -> Result<(), Error> {
    fs::File::open(folder).and_then(|f| f.sync_all()).map_err(|e| Error::io(folder, e))
}

async fn rows(session: &Session, files: &[&RecordedFile]) -> Result<u64, Error> {
    let query = format!("SELECT count(*) FROM {}", files[0].dataset);
    let answer = session.collect(&query).await?;
    let count = answer.first().and_then(|batch| {
        batch.column(0).as_primitive_opt::<Int64Type>().filter(|c| !c.is_empty())
    });
    Ok(count.map_or(0, |column| column.value(0).max(0) as u64))
}

/// The file of the day at hand, and those of days before.
struct Day {
    file: Option<(i64, ParquetFile)>,
    whole: Vec<crosstalk_recording::FinishedRows>,
}

async fn write(
    session: &Session,
    staged: &Path,
    files: &[&RecordedFile],
) -> Result<Vec<crosstalk_recording::FinishedRows>, Error> {
    let about = about(files);
    let table = session.context.table(files[0].dataset.as_str()).await?;
    let own = |name: &str| name != "node" && name != "run";
    let names: Vec<String> = table.schema().fields().iter().map(|f| f.name().clone()).collect();
    let columns: Vec<String> =
        names.iter().filter(|name| own(name)).map(|name| format!("\"{name}\"")).collect();
    let keys = KEYS.iter().filter(|key| names.iter().any(|name| name == *key));
    let keys: Vec<String> = keys.map(|key| format!("\"{key}\"")).collect();
    let query = format!(
        "SELECT {} FROM {} ORDER BY slot_start_ns - slot_start_ns % 1000000000, {}",
        columns.join(", "),
        files[0].dataset,
        keys.join(", ")
    );
    let mut day = Day { file: None, whole: Vec::new() };
    session
        .run(&query, |batch| {
            let batch = crate::query::plainly(&batch).map_err(|e| Error::Engine(e.to_string()))?;
            day.add(&batch, staged, files[0], &about)
        })
        .await?;
    day.close()?;
    Ok(day.whole)
}

impl Day {
    /// Adds rows in time order, each day to its file.
    fn add(
        &mut self,
        batch: &RecordBatch,
        staged: &Path,
        first: &RecordedFile,
        about: &Metadata,
    ) -> Result<(), Error> {
        let wrong = || Error::Engine(format!("{}: it has no slot_start_ns", first.path));
        let slots = batch.column_by_name("slot_start_ns").ok_or_else(wrong)?;
        let slots = slots.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
        let mut at = 0;
        while at < batch.num_rows() {
            let day = slots.value(at).div_euclid(DAY_NS);
            let same = (at..batch.num_rows())
                .take_while(|row| slots.value(*row).div_euclid(DAY_NS) == day)
                .count();
            if self.file.as_ref().is_none_or(|(open, _)| *open != day) {
                self.close()?;
                let name = name(&first.dataset, slots.value(at));
                let file = ParquetFile::create(&staged.join(name), &batch.schema(), about)?;
                self.file = Some((day, file));
            }
            if let Some((_, file)) = &mut self.file {
                file.write(&batch.slice(at, same))?;
            }
            at += same;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        if let Some((_, file)) = self.file.take() {
            self.whole.push(file.finish()?);
        }
        Ok(())
    }
}

/// As the recorder calls files: by their first slot.
fn name(dataset: &str, slot_ns: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(slot_ns.into()).unwrap_or_default();
    let millis = time.subsec_nanosecond() / 1_000_000;
    format!("{dataset}-{}.{millis:03}Z.parquet", time.strftime("%Y%m%dT%H%M%S"))
}

/// What the merged files say of themselves: what the last one did, which knows of every loss before it.
fn about(files: &[&RecordedFile]) -> Metadata {
    let mut said = files.iter().rev().filter_map(|file| file.metadata().ok()).peekable();
    let mut about = said.peek().cloned().unwrap_or_default();
    if said.any(|one| one.get("recovered").is_some()) {
        about.set("recovered", true);
    }
    let sources: Vec<String> = files.iter().flat_map(|file| sources(file)).collect();
    about.with(SOURCES, sources)
}
