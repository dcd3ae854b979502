//! A Parquet file being written: `STEM.arrows.part`, an Arrow IPC stream that needs no footer.

use crate::error::Error;
use crate::part::{Paths, create_locked};
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
        dataset: Dataset,
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
        self.stream.write(batch).map_err(|e| Error::encode(&self.paths.with(ENDING), &e))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.stream.get_ref().metadata().map_or(0, |meta| meta.len())
    }

    pub(crate) fn finish(mut self) -> Result<PathBuf, Error> {
        let part = self.paths.with(ENDING);
        self.stream.finish().map_err(|e| Error::encode(&part, &e))?;
        // The stream's file, and with it the lock, is kept until the Parquet file stands.
        publish(&self.paths)
    }
}

/// Finishes a part that its writer left behind: every whole table in it.
pub(crate) fn recover(paths: &Paths) -> Result<PathBuf, Error> {
    publish(paths)
}

fn publish(paths: &Paths) -> Result<PathBuf, Error> {
    let (part, finished, new) =
        (paths.with(ENDING), paths.with(".parquet"), paths.with(".parquet.tmp"));
    // A finished file beside its part: the crash came between the rename and the removal.
    if !finished.exists() {
        if let Err(error) = parquet::convert(&part, &new) {
            let _ = fs::remove_file(&new);
            return Err(error);
        }
        fs::rename(&new, &finished).map_err(|e| Error::io(&new, e))?;
        paths.sync_folder()?;
    }
    fs::remove_file(&part).map_err(|e| Error::io(&part, e))?;
    Ok(finished)
}
