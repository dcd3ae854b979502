//! A CSV file being written: `STEM.csv.part`.

use crate::csv;
use crate::error::Error;
use crate::part::{Paths, create_locked};
use crate::schema::arrow_schema;
use arrow_array::RecordBatch;
use crosstalk_model::Dataset;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

pub(crate) const ENDING: &str = ".csv.part";

pub(crate) struct CsvPart {
    paths: Paths,
    file: File,
    text: Vec<u8>,
    bytes: u64,
}

impl CsvPart {
    pub(crate) fn create(paths: &Paths, dataset: &Dataset) -> Result<Self, Error> {
        let file = create_locked(&paths.with(ENDING), &paths.with(".csv"))?;
        let mut part = Self { paths: paths.clone(), file, text: Vec::new(), bytes: 0 };
        csv::header(&arrow_schema(dataset), &mut part.text);
        part.flush()?;
        Ok(part)
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        csv::rows(batch, &mut self.text);
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.file.write_all(&self.text).map_err(|e| {
            // Half a table is no table: what is told to be lost must not come back by recovery.
            let _ = self.file.set_len(self.bytes);
            self.text.clear();
            Error::io(&self.paths.with(ENDING), e)
        })?;
        self.bytes += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn finish(self) -> Result<PathBuf, Error> {
        publish(&self.paths, &self.file)
    }
}

/// Finishes a part that its writer left behind: whole lines only.
pub(crate) fn recover(paths: &Paths, mut file: File) -> Result<PathBuf, Error> {
    let part = paths.with(ENDING);
    let io = |e| Error::io(&part, e);
    let end = last_line_end(&mut file).map_err(io)?;
    file.set_len(end).map_err(io)?;
    publish(paths, &file)
}

/// The metadata is renamed first: a finished CSV always has it.
fn publish(paths: &Paths, file: &File) -> Result<PathBuf, Error> {
    let (part, finished) = (paths.with(ENDING), paths.with(".csv"));
    file.sync_all().map_err(|e| Error::io(&part, e))?;
    if finished.exists() {
        return Err(Error::io(&finished, io::ErrorKind::AlreadyExists.into()));
    }
    paths.publish_about()?;
    fs::rename(&part, &finished).map_err(|e| Error::io(&part, e))?;
    paths.sync_folder()?;
    Ok(finished)
}

/// The offset just behind the last line end.
fn last_line_end(file: &mut File) -> io::Result<u64> {
    const STEP: u64 = 64 * 1024;
    let mut end = file.metadata()?.len();
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        Read::by_ref(file).take(end - start).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|&b| b == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}
