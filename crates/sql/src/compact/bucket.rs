//! A folder of an object store: its objects are merged here, put there beside them, and exchanged by a note
//! ([`crosstalk_recording::Exchange`]), after which readers take the new ones.

use super::{Outcome, merge, merged_already};
use crate::{Error, Options, rollup};
use crosstalk_recording::{Exchange, Patience, Reader, RecordedFile, Unsettled, settle};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// What is left of exchanges of before is ended first; `options` and `patience` are for what follows.
pub(super) async fn compact(
    place: &str,
    options: &Options,
    patience: Patience,
) -> Result<Vec<Outcome>, Error> {
    let unsettled = settled(place, patience).await?;
    let all = waited({
        let place = place.to_owned();
        move || Reader::open([place])
    })
    .await?;
    let mut outcomes = Vec::new();
    let units = super::units(&all);
    for folder in units.iter().cloned() {
        if rollup::sums_of(&folder).is_some() {
            let because = "sums in an object store stay as rollup puts them".to_owned();
            outcomes.push(Outcome::Left { folder, because });
            continue;
        }
        let shown = folder.display().to_string();
        let known = unsettled.iter().find(|one| one.folder == shown);
        outcomes.push(match known {
            Some(Unsettled { because, .. }) => Outcome::Left { folder, because: because.clone() },
            None => one(&all, folder, options).await?,
        });
    }
    // Those whose files are not to be read are not among them.
    for Unsettled { folder, because } in unsettled {
        let folder = PathBuf::from(folder);
        if !units.contains(&folder) {
            outcomes.push(Outcome::Left { folder, because });
        }
    }
    // Those that have just been merged, where no reader is waited for.
    if patience.readers.is_zero() {
        settled(place, patience).await?;
    }
    Ok(outcomes)
}

async fn settled(place: &str, patience: Patience) -> Result<Vec<Unsettled>, Error> {
    let place = place.to_owned();
    waited(move || settle(&place, patience)).await
}

/// Asking an object store waits, which a thread of the engine must not.
async fn waited<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, crosstalk_recording::Error> + Send + 'static,
) -> Result<T, Error> {
    Ok(spawn_blocking(work).await.map_err(|e| Error::Engine(e.to_string()))??)
}

async fn one(all: &Reader, folder: PathBuf, options: &Options) -> Result<Outcome, Error> {
    let reader =
        Arc::new(all.only(|file| super::unit(file.path.as_ref()).as_ref() == Some(&folder)));
    let files: Vec<&RecordedFile> = reader.files().iter().collect();
    let left = |folder, because: &str| Ok(Outcome::Left { folder, because: because.to_owned() });
    if files.iter().any(|file| !file.state.is_finished()) {
        return left(
            folder,
            "it holds a file that is not finished, which the recorder never sends",
        );
    }
    let asked = reader.clone();
    let already = waited(move || Ok(merged_already(&asked.files().iter().collect::<Vec<_>>())));
    if let Some(because) = already.await? {
        return left(folder, because);
    }
    let session = super::session(&reader, options).await?;
    let here = tempfile::tempdir().map_err(|e| Error::io(&std::env::temp_dir(), e))?;
    let days = match merge::merged(&session, here.path(), &files, options.memory).await? {
        Ok(days) => days,
        Err(because) => return Ok(Outcome::Left { folder, because }),
    };
    let outcome = Outcome::merged(folder.clone(), &files, &days);
    let paths: Vec<PathBuf> = days.into_iter().map(|day| day.path).collect();
    let (files, within) = (reader.clone(), folder.clone());
    let exchanged = waited(move || exchange(&files, &within.display().to_string(), &paths)).await?;
    match exchanged {
        Ok(()) => Ok(outcome),
        Err(because) => Ok(Outcome::Left { folder, because }),
    }
}

/// `Err` within says why the folder is as it was.
fn exchange(
    old: &Reader,
    folder: &str,
    new: &[PathBuf],
) -> Result<Result<(), String>, crosstalk_recording::Error> {
    let old: Vec<&RecordedFile> = old.files().iter().collect();
    let Some((bucket, _, _)) = old.first().and_then(|file| file.object()) else {
        return Ok(Err("it is not in an object store".to_owned()));
    };
    let name = folder.strip_prefix(bucket).unwrap_or(folder).trim_start_matches('/');
    let Some(mut exchange) = Exchange::begin(old[0], name)? else {
        return Ok(Err("somebody else has begun to merge it".to_owned()));
    };
    for path in new {
        if let Err(error) = exchange.put(path) {
            exchange.give_up();
            return Err(error);
        }
    }
    Ok(exchange.commit(&old).map_err(|error| error.to_string()))
}
