use crate::error::Error;
use crate::name::{self, Layout};
use crate::part::{Format, Part};
use crate::recovery::{Recovered, recover};
use crate::{Metadata, name::place};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use crosstalk_model::Dataset;
use std::fs;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Where and how to write.
#[derive(Clone, Debug)]
pub struct RecordingOptions {
    /// The output folder.
    pub out: PathBuf,
    /// The format of finished files.
    pub format: Format,
    /// How files are laid out.
    pub layout: Layout,
    /// A file is closed when it has grown to this size (of the part, before Parquet's encoding).
    pub rotate_bytes: u64,
    /// A file is closed when it spans this much time.
    pub rotate_after: Duration,
}

/// A file that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedFile {
    /// Its data set.
    pub dataset: Dataset,
    /// Where it is.
    pub path: PathBuf,
    /// How many rows it holds.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
}

/// Writes data sets below one folder.
pub struct Recording {
    options: RecordingOptions,
    metadata: Metadata,
    open: Vec<OpenFile>,
    closing: Vec<Closing>,
    finished: Vec<FinishedFile>,
}

struct OpenFile {
    dataset: Dataset,
    part: Part,
    start_ns: u64,
    rows: u64,
}

/// A file being finished beside the recording: converting to Parquet may take seconds.
struct Closing {
    dataset: Dataset,
    rows: u64,
    work: JoinHandle<Result<PathBuf, Error>>,
}

impl Recording {
    /// Finishes what an earlier recording left in the folder, then opens a file for each of
    /// `datasets`. To the metadata it adds what the columns mean.
    pub fn create(
        options: RecordingOptions,
        datasets: &[Dataset],
        metadata: Metadata,
        start_ns: u64,
    ) -> Result<(Self, Recovered), Error> {
        fs::create_dir_all(&options.out)
            .map_err(|source| Error::Unwritable { path: options.out.clone(), source })?;
        let recovered = recover(&options.out);
        let metadata = metadata.with_tables(datasets);
        let mut recording =
            Self { options, metadata, open: Vec::new(), closing: Vec::new(), finished: Vec::new() };
        for &dataset in datasets {
            let file = recording.open_file(dataset, start_ns)?;
            recording.open.push(file);
        }
        Ok((recording, recovered))
    }

    /// Appends a table of `dataset`; when this returns, a kill -9 no longer costs it.
    pub fn write(&mut self, dataset: Dataset, batch: &RecordBatch) -> Result<(), Error> {
        let Some(index) = self.open.iter().position(|file| file.dataset == dataset) else {
            return Ok(());
        };
        let Some(first_ns) = first_slot(batch) else { return Ok(()) };
        if self.is_due(&self.open[index], first_ns) {
            let next = self.open_file(dataset, first_ns)?;
            let full = std::mem::replace(&mut self.open[index], next);
            self.close(full);
        }
        self.collect_closed(false)?;
        let file = &mut self.open[index];
        file.part.write(batch)?;
        file.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Closes everything and returns all finished files, oldest first.
    pub fn finish(mut self) -> Result<Vec<FinishedFile>, Error> {
        for file in std::mem::take(&mut self.open) {
            self.close(file);
        }
        self.collect_closed(true)?;
        Ok(self.finished)
    }

    fn open_file(&self, dataset: Dataset, start_ns: u64) -> Result<OpenFile, Error> {
        let at = place(&self.options.out, dataset, self.options.layout, start_ns);
        let metadata = self.metadata.clone().with("dataset", dataset.name());
        let part = Part::create(self.options.format, dataset, at, &metadata)?;
        Ok(OpenFile { dataset, part, start_ns, rows: 0 })
    }

    fn is_due(&self, file: &OpenFile, next_ns: u64) -> bool {
        let hour_changed = name::hour(next_ns) != name::hour(file.start_ns);
        file.rows > 0
            && (file.part.bytes() >= self.options.rotate_bytes
                || next_ns.saturating_sub(file.start_ns)
                    >= self.options.rotate_after.as_nanos() as u64
                || (self.options.layout == Layout::Hive && hour_changed))
    }

    fn close(&mut self, file: OpenFile) {
        let OpenFile { dataset, part, rows, .. } = file;
        self.closing.push(Closing { dataset, rows, work: thread::spawn(move || part.finish()) });
    }

    fn collect_closed(&mut self, wait: bool) -> Result<(), Error> {
        let (done, busy) = std::mem::take(&mut self.closing)
            .into_iter()
            .partition(|closing| wait || closing.work.is_finished());
        self.closing = busy;
        let done: Vec<Closing> = done;
        for closing in done {
            let path = closing.work.join().unwrap_or_else(|_| {
                let path = self.options.out.clone();
                Err(Error::Encode { path, reason: "the encoder stopped unexpectedly".into() })
            })?;
            let bytes = fs::metadata(&path).map_or(0, |meta| meta.len());
            let (dataset, rows) = (closing.dataset, closing.rows);
            self.finished.push(FinishedFile { dataset, path, rows, bytes });
        }
        Ok(())
    }
}

/// The earliest slot of a table; `None` when it is empty.
fn first_slot(batch: &RecordBatch) -> Option<u64> {
    batch.column(0).as_primitive::<UInt64Type>().values().iter().min().copied()
}
