//! A folder of this machine: its files are merged into one beside it, and the two change names in one step.
//!
//! A crash before that leaves the recording as it was, one after it leaves rubbish that the next call takes away. What
//! came into the folder after it was listed goes back into it. The folder above is held meanwhile: two at once would take
//! what the other is writing for such rubbish.

use super::{Outcome, merge, merged_already, sources};
use crate::{Error, Options, Session, lock, rollup};
use crosstalk_recording::{FinishedRows, Reader, RecordedFile};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BUSY: &str = "another compact or rollup is at work on it: call again when it is done";

pub(super) async fn compact(folder: PathBuf, options: &Options) -> Result<Outcome, Error> {
    let left = |folder, because| Ok(Outcome::Left { folder, because });
    let above = rollup::sums_of(&folder).unwrap_or_else(|| above(&folder));
    let Some(_held) = lock::hold(&above)? else { return left(folder, BUSY.to_owned()) };
    if let Some(because) = tidy(&staged(&folder), &folder)? {
        return left(folder, because);
    }
    let mut reader = listed(&folder)?;
    if reason_to_leave(&folder, &reader).is_none() && rollup::sums_of(&folder).is_some() {
        // What a rollup that was cut off left beside its sums must not become one with them.
        rollup::settle(&folder)?;
        reader = listed(&folder)?;
    }
    if let Some(because) = reason_to_leave(&folder, &reader) {
        return left(folder, because);
    }
    let files: Vec<&RecordedFile> = reader.files().iter().collect();
    let session = super::session(&reader, options).await?;
    exchange(&session, folder, &files, options.memory).await
}

/// The files of a folder. A run may have folders of days below, which are merged each by itself.
fn listed(folder: &Path) -> Result<Arc<Reader>, Error> {
    let reader = Reader::open([folder.display().to_string()])?;
    let is_ours =
        |file: &RecordedFile| super::unit(file.path.as_ref()).is_some_and(|unit| unit == folder);
    Ok(Arc::new(reader.only(is_ours)))
}

fn reason_to_leave(folder: &Path, reader: &Reader) -> Option<String> {
    let files: Vec<&RecordedFile> = reader.files().iter().collect();
    if files.is_empty() {
        return Some("it holds nothing but folders of days".to_owned());
    }
    if files.iter().any(|file| !file.state.is_finished()) {
        let why =
            "it is being recorded, or was cut off: crosstalk recover finishes what a crash left";
        return Some(why.to_owned());
    }
    if let Some(why) = merged_already(&files) {
        return Some(why.to_owned());
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
pub(crate) fn everything(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder { left.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found
}

async fn exchange(
    session: &Session,
    folder: PathBuf,
    files: &[&RecordedFile],
    memory: usize,
) -> Result<Outcome, Error> {
    let staged = staged(&folder);
    fs::create_dir_all(&staged).map_err(|e| Error::io(&staged, e))?;
    let merged = merge::merged(session, &staged, files, memory).await;
    let merged = merged.inspect_err(|_| drop(fs::remove_dir_all(&staged)))?;
    let days = match merged {
        Ok(days) => days,
        Err(because) => {
            let _ = fs::remove_dir_all(&staged);
            return Ok(Outcome::Left { folder, because });
        }
    };
    sync(&staged)?;
    if let Some(because) = unlike(&days) {
        let _ = fs::remove_dir_all(&staged);
        return Ok(Outcome::Left { folder, because });
    }
    renameat_with(CWD, staged.as_path(), CWD, folder.as_path(), RenameFlags::EXCHANGE)
        .map_err(|e| Error::io(&folder, e.into()))?;
    sync(&above(&folder))?;
    // What is left there then is looked at by the next call.
    let _ = tidy(&staged, &folder)?;
    Ok(Outcome::merged(folder, files, &days))
}

/// Why merged files are not as they were written, if they are not: from here on the others would be gone.
fn unlike(days: &[FinishedRows]) -> Option<String> {
    days.iter().find_map(|day| {
        let shown = day.path.display();
        match recorded(&day.path).map(|files| files.first().map(RecordedFile::rows)) {
            Ok(Some(Ok(Some(rows)))) if rows == day.rows => None,
            Ok(Some(Ok(rows))) => Some(format!("{shown} has {rows:?} rows, not {}", day.rows)),
            Ok(Some(Err(error))) | Err(error) => Some(error.to_string()),
            Ok(None) => Some(format!("{shown} is gone")),
        }
    })
}

/// Takes away what was staged: merged files that never took their place, or those that they were made of. Of anything
/// else the folder has no row, so it came after the folder was listed and goes back there. `Some` says why everything
/// is as it was: without knowing what each file of the folder holds, nothing is known to be there twice.
fn tidy(staged: &Path, folder: &Path) -> Result<Option<String>, Error> {
    if !staged.exists() {
        return Ok(None);
    }
    let mut held = BTreeSet::new();
    for file in recorded(folder)? {
        if let Err(error) = file.metadata() {
            let staged = staged.display();
            return Ok(Some(format!("{error}; {staged} is left as well, which may hold its rows")));
        }
        held.extend(sources(&file));
    }
    for path in everything(staged) {
        let is_passing = path.extension() == Some("new".as_ref());
        if is_passing || rows_of(&path)?.iter().any(|source| held.contains(source)) {
            fs::remove_file(&path).map_err(|e| Error::io(&path, e))?;
            continue;
        }
        let back = folder.join(path.strip_prefix(staged).unwrap_or(&path));
        if let Some(above) = back.parent() {
            fs::create_dir_all(above).map_err(|e| Error::io(above, e))?;
        }
        renameat_with(CWD, path.as_path(), CWD, back.as_path(), RenameFlags::NOREPLACE)
            .map_err(|e| Error::io(&path, e.into()))?;
    }
    fs::remove_dir_all(staged).map_err(|e| Error::io(staged, e))?;
    Ok(None)
}

/// The files as the recorder wrote them that something staged holds rows of.
fn rows_of(path: &Path) -> Result<Vec<String>, Error> {
    if let Some(file) = recorded(path)?.first() {
        return Ok(sources(file));
    }
    // What a CSV file says of itself goes where its rows go.
    let rows = match path.extension() == Some("json".as_ref()) {
        true => path.with_extension("csv"),
        false => path.to_owned(),
    };
    Ok(rows.file_name().and_then(|n| n.to_str()).map(str::to_owned).into_iter().collect())
}

/// The finished files at a place.
fn recorded(place: &Path) -> Result<Vec<RecordedFile>, crosstalk_recording::Error> {
    let files = match Reader::open([place.display().to_string()]) {
        Ok(reader) => reader.files().to_vec(),
        Err(crosstalk_recording::Error::NothingThere { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    Ok(files.into_iter().filter(|file| file.state.is_finished()).collect())
}

/// The folder that a folder is in.
pub(crate) fn above(folder: &Path) -> PathBuf {
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    above.unwrap_or(Path::new(".")).to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_recording::{COMPACTED_FROM, Metadata, ParquetFile};
    use datafusion::arrow::datatypes::Schema;

    fn write(path: &Path, made_of: &[&str]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let about = match made_of {
            [] => Metadata::default(),
            names => Metadata::default().with(COMPACTED_FROM, names),
        };
        let file = ParquetFile::create(path, &Arc::new(Schema::empty()), &about).unwrap();
        file.finish().unwrap();
    }

    #[test]
    fn what_came_into_a_folder_while_it_was_merged_is_in_it_afterwards() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("date=2026-11-15");
        let staged = staged(&folder);
        // As it is after the folders changed names.
        write(&folder.join("tasks-1.parquet"), &["tasks-1.parquet", "tasks-2.csv"]);
        write(&staged.join("hour=05/tasks-1.parquet"), &[]);
        for name in ["tasks-2.csv", "tasks-2.json", "tasks-3.csv", "tasks-3.json"] {
            fs::write(staged.join("hour=05").join(name), "").unwrap();
        }
        assert_eq!(tidy(&staged, &folder).unwrap(), None);
        assert!(!staged.exists());
        let mut left = everything(&folder);
        left.sort();
        let names = ["hour=05/tasks-3.csv", "hour=05/tasks-3.json", "tasks-1.parquet"];
        assert_eq!(left, names.map(|name| folder.join(name)));
    }

    #[test]
    fn merged_files_that_never_took_their_place_are_taken_away() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("date=2026-11-15");
        let staged = staged(&folder);
        write(&folder.join("hour=05/tasks-1.parquet"), &[]);
        write(&folder.join("hour=06/tasks-2.parquet"), &[]);
        write(&staged.join("tasks-1.parquet"), &["tasks-1.parquet", "tasks-2.parquet"]);
        fs::write(staged.join("tasks-9.parquet.new"), "half").unwrap();
        assert_eq!(tidy(&staged, &folder).unwrap(), None);
        assert!(!staged.exists());
        assert_eq!(everything(&folder).len(), 2);
    }

    #[test]
    fn merged_files_of_which_a_source_was_removed_since_do_not_double_the_others() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("date=2026-11-15");
        let staged = staged(&folder);
        write(&folder.join("hour=06/tasks-2.parquet"), &[]);
        write(&staged.join("tasks-1.parquet"), &["tasks-1.parquet", "tasks-2.parquet"]);
        assert_eq!(tidy(&staged, &folder).unwrap(), None);
        assert!(!staged.exists());
        assert_eq!(everything(&folder), [folder.join("hour=06/tasks-2.parquet")]);
    }

    #[test]
    fn where_a_file_cannot_be_read_nothing_is_taken_away() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("date=2026-11-15");
        let staged = staged(&folder);
        write(&staged.join("hour=05/tasks-1.parquet"), &[]);
        write(&staged.join("hour=05/tasks-2.parquet"), &[]);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("tasks-1.parquet"), "half of what was merged").unwrap();
        let why = tidy(&staged, &folder).unwrap().unwrap();
        assert!(why.contains("tasks-1.parquet") && why.contains(".compacting"), "{why}");
        assert_eq!((everything(&staged).len(), everything(&folder).len()), (2, 1));
    }

    #[test]
    fn merged_files_that_are_not_as_they_were_written_do_not_take_their_place() {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("tasks-1.parquet");
        write(&path, &[]);
        let day = |rows| FinishedRows { path: path.clone(), rows, bytes: 0 };
        assert_eq!(unlike(&[day(0)]), None);
        assert!(unlike(&[day(7)]).unwrap().contains("not 7"));
        fs::write(&path, "half").unwrap();
        assert!(unlike(&[day(0)]).unwrap().contains("tasks-1.parquet"));
    }
}
