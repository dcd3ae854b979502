use crate::Metadata;
use crate::error::Error;
use crate::name::{self, Layout, Run, place};
use crate::part::{Format, Part};
use crate::recovery::{Recovered, first_run, recover};
use crate::table::record_batch;
use crosstalk_model::{Dataset, Table};
use serde::Serialize;
use std::fs::{self, File};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Where and how to write.
#[derive(Clone, Debug)]
pub struct RecordingOptions {
    /// The output folder.
    pub out: PathBuf,
    /// Whether the folder may hold other runs already.
    pub append: bool,
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
    pub dataset: &'static Dataset,
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
    /// The folder, locked.
    _claim: File,
    run: Run,
    metadata: Metadata,
    /// When the files were last told what is new.
    described: Instant,
    is_news: bool,
    open: Vec<OpenFile>,
    closing: Vec<Closing>,
    finished: Vec<FinishedFile>,
}

struct OpenFile {
    dataset: &'static Dataset,
    part: Part,
    start_ns: u64,
    rows: u64,
}

/// A file being finished beside the recording: converting to Parquet may take seconds.
struct Closing {
    dataset: &'static Dataset,
    rows: u64,
    work: JoinHandle<Result<PathBuf, Error>>,
}

/// Files are named after the millisecond they begin in.
const NAMES_DIFFER_NS: u64 = 1_000_000;

/// What is new is written down this often at most, so that a crash costs little of it.
const DESCRIBE: Duration = Duration::from_secs(2);

impl Recording {
    /// Finishes what an earlier recording left in the folder and claims it for `run`. Files are opened
    /// with [`Recording::open`].
    ///
    /// # Errors
    /// The folder cannot be written, or holds a recording already and nothing may be added to it.
    pub fn create(
        options: RecordingOptions,
        run: Run,
        metadata: Metadata,
    ) -> Result<(Self, Recovered), Error> {
        let unwritable = |source| Error::Unwritable { path: options.out.clone(), source };
        fs::create_dir_all(&options.out).map_err(unwritable)?;
        let claim = File::open(&options.out).map_err(unwritable)?;
        // Held as long as we write, so that of two that start at once the second is refused.
        let alone = if options.append { claim.try_lock_shared() } else { claim.try_lock() };
        if !options.append {
            let found = alone.is_err().then(|| "one that is being written".to_owned());
            if let Some(run) = found.or_else(|| first_run(&options.out)) {
                return Err(Error::Occupied { path: options.out, run });
            }
        }
        let recovered = recover(&options.out);
        let metadata = metadata.with("node", run.node()).with("run", run.id());
        let recording = Self {
            options,
            _claim: claim,
            run,
            metadata,
            described: Instant::now(),
            is_news: false,
            open: Vec::new(),
            closing: Vec::new(),
            finished: Vec::new(),
        };
        Ok((recording, recovered))
    }

    /// Who records.
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Opens a file for `dataset`, whose rows begin at `start_ns`; nothing if there is one.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn open(&mut self, dataset: &'static Dataset, start_ns: u64) -> Result<(), Error> {
        if self.position(dataset).is_none() {
            let file = self.open_file(dataset, start_ns)?;
            self.open.push(file);
        }
        Ok(())
    }

    /// Says something about the recording, in the files open now and those to come.
    pub fn note(&mut self, key: &str, value: impl Serialize) {
        self.is_news |= self.metadata.set(key, value);
    }

    /// Appends a table; when this returns, a kill -9 no longer costs it.
    ///
    /// # Errors
    /// No file is open for its data set, or it cannot be written.
    pub fn write(&mut self, table: Table) -> Result<(), Error> {
        let dataset = table.dataset;
        let index = self.position(dataset).ok_or(Error::NotOpen { dataset: dataset.name })?;
        if table.rows == 0 {
            return Ok(());
        }
        if self.is_due(&self.open[index], table.first_slot_ns) {
            // Slots of a core that was idle come late: named after one of them, a file could bear the name of one that
            // was sent away, and take its place in the store.
            let after_ns = self.open[index].start_ns.saturating_add(NAMES_DIFFER_NS);
            let next = self.open_file(dataset, table.first_slot_ns.max(after_ns))?;
            let full = std::mem::replace(&mut self.open[index], next);
            self.close(full)?;
        }
        // The part of a file that cannot be finished now stays, for `recover`; new rows are not its fault.
        if let Err(error) = self.collect_closed(false) {
            self.note("unfinished", error.to_string());
        }
        if self.is_news && self.described.elapsed() >= DESCRIBE {
            self.describe()?;
        }
        let rows = table.rows as u64;
        let encode = |e| Error::encode(&self.options.out, &e);
        let batch = record_batch(table).map_err(encode)?;
        let file = &mut self.open[index];
        file.part.write(&batch)?;
        file.rows += rows;
        Ok(())
    }

    /// Closes everything and returns all finished files, oldest first.
    ///
    /// # Errors
    /// A file cannot be finished; its part stays.
    pub fn finish(mut self) -> Result<Vec<FinishedFile>, Error> {
        let mut failed = self.collect_closed(true).err();
        // One after the other, since each takes memory to finish; one that fails keeps no other from it.
        for file in std::mem::take(&mut self.open) {
            let closed = self.close(file).and_then(|()| self.collect_closed(true));
            failed = failed.or(closed.err());
        }
        failed.map_or(Ok(self.finished), Err)
    }

    fn position(&self, dataset: &Dataset) -> Option<usize> {
        self.open.iter().position(|file| file.dataset.name == dataset.name)
    }

    fn open_file(&self, dataset: &'static Dataset, start_ns: u64) -> Result<OpenFile, Error> {
        let options = &self.options;
        let at = place(&options.out, dataset, &self.run, options.layout, start_ns);
        let part = Part::create(options.format, dataset, at, &self.about(dataset))?;
        Ok(OpenFile { dataset, part, start_ns, rows: 0 })
    }

    fn about(&self, dataset: &Dataset) -> Metadata {
        self.metadata.clone().with_table(dataset)
    }

    fn describe(&mut self) -> Result<(), Error> {
        (self.described, self.is_news) = (Instant::now(), false);
        self.open.iter().try_for_each(|file| file.part.describe(&self.about(file.dataset)))
    }

    fn is_due(&self, file: &OpenFile, next_ns: u64) -> bool {
        // A table of the hour before comes late, and stays with those of its time.
        let hour_changed = name::hour(next_ns) > name::hour(file.start_ns);
        file.rows > 0
            && (file.part.bytes() >= self.options.rotate_bytes
                || next_ns.saturating_sub(file.start_ns)
                    >= self.options.rotate_after.as_nanos() as u64
                || (self.options.layout == Layout::Hive && hour_changed))
    }

    fn close(&mut self, file: OpenFile) -> Result<(), Error> {
        let OpenFile { dataset, part, rows, .. } = file;
        part.describe(&self.about(dataset).with("rows", rows))?;
        let work = thread::spawn(move || part.finish(rows));
        self.closing.push(Closing { dataset, rows, work });
        Ok(())
    }

    fn collect_closed(&mut self, wait: bool) -> Result<(), Error> {
        let (done, busy) = std::mem::take(&mut self.closing)
            .into_iter()
            .partition(|closing| wait || closing.work.is_finished());
        self.closing = busy;
        let done: Vec<Closing> = done;
        let mut failed = None;
        for closing in done {
            let path = closing.work.join().unwrap_or_else(|_| {
                let path = self.options.out.clone();
                Err(Error::Encode { path, reason: "the encoder stopped unexpectedly".into() })
            });
            match path {
                Ok(path) => {
                    let bytes = fs::metadata(&path).map_or(0, |meta| meta.len());
                    let (dataset, rows) = (closing.dataset, closing.rows);
                    self.finished.push(FinishedFile { dataset, path, rows, bytes });
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
