//! A folder of this machine: its files are merged into one beside it, and the two change names in one step.
//!
//! A crash before that leaves the recording as it was, one after it leaves rubbish that the next call takes away.

use super::{Outcome, is_one_already, merge};
use crate::{Error, Options, Session};
use crosstalk_recording::{Reader, RecordedFile};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) async fn compact(folder: PathBuf, options: &Options) -> Result<Outcome, Error> {
    let reader = Arc::new(Reader::open([folder.display().to_string()])?);
    let files: Vec<&RecordedFile> = reader.files().iter().collect();
    if let Some(because) = reason_to_leave(&folder, &files) {
        return Ok(Outcome::Left { folder, because });
    }
    let session = Session::over(&reader, options).await?;
    exchange(&session, folder, &files).await
}

fn reason_to_leave(folder: &Path, files: &[&RecordedFile]) -> Option<String> {
    if files.iter().any(|file| !file.state.is_finished()) {
        let why =
            "it is being recorded, or was cut off: crosstalk recover finishes what a crash left";
        return Some(why.to_owned());
    }
    if is_one_already(files) {
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

async fn exchange(
    session: &Session,
    folder: PathBuf,
    files: &[&RecordedFile],
) -> Result<Outcome, Error> {
    let staged = staged(&folder);
    // What a crash left there was never, or is no longer, part of the recording.
    let _ = fs::remove_dir_all(&staged);
    fs::create_dir_all(&staged).map_err(|e| Error::io(&staged, e))?;
    let merged = merge::merged(session, &staged, files).await;
    let merged = merged.inspect_err(|_| drop(fs::remove_dir_all(&staged)))?;
    let days = match merged {
        Ok(days) => days,
        Err(because) => {
            let _ = fs::remove_dir_all(&staged);
            return Ok(Outcome::Left { folder, because });
        }
    };
    sync(&staged)?;
    renameat_with(CWD, staged.as_path(), CWD, folder.as_path(), RenameFlags::EXCHANGE)
        .map_err(|e| Error::io(&folder, e.into()))?;
    folder.parent().map_or(Ok(()), sync)?;
    fs::remove_dir_all(&staged).map_err(|e| Error::io(&staged, e))?;
    Ok(Outcome::merged(folder, files, &days))
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
