//! A Parquet file being written: `STEM.arrows.part`, an Arrow IPC stream that needs no footer.

use crate::error::Error;
use crate::part::{PASSING, Paths, create_locked};
use crate::{Metadata, parquet, schema};
use arrow_array::RecordBatch;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::ArrowError;
use crosstalk_model::Dataset;
use std::fs::{self, File};
use std::path::PathBuf;

pub(crate) const ENDING: &str = ".arrows.part";

pub(crate) struct ArrowPart {
    paths: Paths,
    stream: StreamWriter<File>,
}

impl ArrowPart {
    pub(crate) fn create(
        paths: &Paths,
        dataset: &Dataset,
        metadata: &Metadata,
    ) -> Result<Self, Error> {
        let part = paths.with(ENDING);
        let file = create_locked(&part, &paths.with(".parquet"))?;
        let schema = schema::with_metadata(dataset, metadata);
        let open = || -> Result<_, ArrowError> {
            let options = IpcWriteOptions::try_new(64, false, MetadataVersion::V5)?
                .try_with_compression(Some(CompressionType::ZSTD))?;
            StreamWriter::try_new_with_options(file, &schema, options)
        };
        let stream = open().map_err(|e| Error::encode(&part, &e))?;
        Ok(Self { paths: paths.clone(), stream })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let before = self.bytes();
        self.stream.write(batch).map_err(|e| {
            // Half a table is no table: what is told to be lost must not come back by recovery.
            let _ = self.stream.get_ref().set_len(before);
            Error::encode(&self.paths.with(ENDING), &e)
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.stream.get_ref().metadata().map_or(0, |meta| meta.len())
    }

    pub(crate) fn finish(mut self, rows: u64) -> Result<PathBuf, Error> {
        let part = self.paths.with(ENDING);
        self.stream.finish().map_err(|e| Error::encode(&part, &e))?;
        // The stream's file, and with it the lock, is kept until the Parquet file stands.
        publish(&self.paths, Some(rows))
    }
}

/// Finishes a part that its writer left behind: every whole table in it.
pub(crate) fn recover(paths: &Paths) -> Result<PathBuf, Error> {
    // Its writer may have closed it before it died.
    let counted = paths.about().and_then(|about| about.get("rows")?.as_u64());
    publish(paths, counted)
}

/// The part goes only when a file with exactly its rows is safe on disk; `rows` is what its writer
/// counted, if it still lives or had counted.
fn publish(paths: &Paths, rows: Option<u64>) -> Result<PathBuf, Error> {
    let (part, finished, new) =
        (paths.with(ENDING), paths.with(".parquet"), paths.with(PASSING[1]));
    // A finished file beside its part: the crash came between the rename and the removal.
    let is_new = !finished.exists();
    let (held, file) = if is_new {
        (parquet::convert(&part, &new, paths.about()), &new)
    } else {
        (parquet::whole_rows(&part), &finished)
    };
    let compared = held.and_then(|held| {
        let stands = parquet::finished_rows(file)?;
        let expected = rows.unwrap_or(held);
        let (part, path) = (part.clone(), finished.clone());
        if (stands, held) == (expected, expected) {
            Ok(())
        } else {
            Err(Error::RowsDiffer { part, path, expected, stands })
        }
    });
    if let Err(error) = compared {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    if is_new {
        fs::rename(&new, &finished).map_err(|e| Error::io(&new, e))?;
    }
    paths.sync_folder()?;
    fs::remove_file(&part).map_err(|e| Error::io(&part, e))?;
    paths.remove_about();
    Ok(finished)
}
