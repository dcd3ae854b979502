//! Finished files into an object store.
//!
//! A recording that is meant for a store is written into a folder of this machine first, the spool. A thread looks
//! there for files that are whole, sends each under its own name, asks the store how long it is there, and only then
//! removes it here. It keeps no state of its own: what a crash or a dead store leaves in the spool goes out at the
//! next start, and a file that was sent just before a crash is sent again, to the same name with the same bytes.

use crate::Error;
use crate::recovery::{files_below, is_ours};
use crate::store::Store;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How often the spool is looked into.
const LOOK: Duration = Duration::from_secs(2);
/// After a failure it is tried again this much later, then twice as much, and so on.
const BACK_OFF: Duration = Duration::from_secs(2);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);
/// At the end, how often it is tried before the rest stays in the spool.
const LAST_TRIES: u32 = 3;

/// What goes where.
#[derive(Clone, Debug)]
pub struct UploadOptions {
    /// The store and the prefix in it, such as `s3://bucket/recordings`.
    pub url: String,
    /// The folder that the recording is written into.
    pub spool: PathBuf,
    /// Finished files that may wait there, in bytes. Beyond, the oldest are given up, and counted.
    pub most_bytes: u64,
    /// Told what goes wrong, once until it goes well again.
    pub on_error: fn(&Error),
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uploaded {
    /// Files in the store.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// Files that were given up because the spool was full.
    pub given_up: u64,
    /// Files that are still in the spool.
    pub left: u64,
    /// Why they are.
    pub error: Option<String>,
}

/// Sends finished files, on a thread of its own.
pub struct Uploader {
    end: Sender<()>,
    thread: JoinHandle<Uploaded>,
}

impl Uploader {
    /// Begins to send what is finished in the spool, and whatever will be.
    ///
    /// # Errors
    /// The URL is none, the store does not answer, or no thread can be started.
    pub fn start(options: UploadOptions) -> Result<Self, Error> {
        let mut work = Work::new(options)?;
        let spool = work.options.spool.clone();
        let (end, ended) = channel();
        let run = move || {
            let mut wait = LOOK;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = match work.sweep() {
                    Ok(()) => LOOK,
                    Err(_) if wait < BACK_OFF => BACK_OFF,
                    Err(_) => (2 * wait).min(LONGEST_BACK_OFF),
                };
            }
            work.finish()
        };
        let thread = Builder::new()
            .name("uploader".to_owned())
            .spawn(run)
            .map_err(|source| Error::Io { path: spool, source })?;
        Ok(Self { end, thread })
    }

    /// Sends what is left and ends. Finish the recording first.
    pub fn finish(self) -> Uploaded {
        let _ = self.end.send(());
        self.thread.join().unwrap_or_default()
    }
}

/// Sends everything that is finished in the spool now.
///
/// # Errors
/// The URL is none, or the store does not answer.
pub fn upload(options: UploadOptions) -> Result<Uploaded, Error> {
    Work::new(options).map(Work::finish)
}

/// Whether the store holds a run already, as far as the first thousand names tell.
///
/// # Errors
/// The URL is none, or the store does not answer.
pub(crate) fn holds_recordings(url: &str) -> Result<bool, Error> {
    const NAMES: usize = 1000;
    let store = Store::open(url)?;
    let names = store.some(NAMES)?;
    Ok(names.iter().any(|name| is_ours(Path::new(""), Path::new(store.below(name)))))
}

struct Work {
    options: UploadOptions,
    store: Store,
    done: Uploaded,
    told: Option<String>,
}

impl Work {
    fn new(options: UploadOptions) -> Result<Self, Error> {
        let store = Store::open(&options.url)?;
        Ok(Self { options, store, done: Uploaded::default(), told: None })
    }

    fn finish(mut self) -> Uploaded {
        for tried in 1..=LAST_TRIES {
            if self.sweep().is_ok() {
                break;
            }
            if tried < LAST_TRIES {
                #[allow(clippy::disallowed_methods)]
                // a store that is away has no event to wait for
                std::thread::sleep(BACK_OFF);
            }
        }
        self.done.left = self.waiting().len() as u64;
        self.done.error = self.told.filter(|_| self.done.left > 0);
        self.done
    }

    /// Sends what is finished, the oldest first. The first failure ends it: the others would fail alike.
    fn sweep(&mut self) -> Result<(), Error> {
        let sent = self.send_all();
        match &sent {
            Ok(()) => self.told = None,
            Err(error) => {
                // What it says may have the number of a request in it: once in a row is enough.
                if self.told.replace(error.to_string()).is_none() {
                    (self.options.on_error)(error);
                }
                self.give_up_oldest();
            }
        }
        sent
    }

    fn send_all(&mut self) -> Result<(), Error> {
        for file in self.waiting() {
            let bytes = self.send(&file)?;
            fs::remove_file(&file).map_err(|e| Error::io(&file, e))?;
            self.done.files += 1;
            self.done.bytes += bytes;
        }
        Ok(())
    }

    /// Finished files of ours, with what CSV files say about themselves, in the order of their names, which begin with
    /// their time.
    fn waiting(&self) -> Vec<PathBuf> {
        let spool = &self.options.spool;
        let is_finished = |file: &PathBuf| {
            let ending = file.extension().and_then(|ending| ending.to_str());
            let is_rows = matches!(ending, Some("csv" | "parquet"));
            (is_rows && is_ours(spool, file))
                || (ending == Some("json") && is_ours(spool, &file.with_extension("csv")))
        };
        let mut files: Vec<PathBuf> = files_below(spool).into_iter().filter(is_finished).collect();
        files.sort_by_key(|file| file.file_name().map(ToOwned::to_owned));
        files
    }

    fn send(&self, file: &Path) -> Result<u64, Error> {
        let below = file.strip_prefix(&self.options.spool).unwrap_or(file);
        let name = below.to_string_lossy();
        let mut input = File::open(file).map_err(|e| Error::io(file, e))?;
        self.store.write_file(&name, &mut input, file)
    }

    fn give_up_oldest(&mut self) {
        let size = |file: &PathBuf| fs::metadata(file).map_or(0, |about| about.len());
        let waiting = self.waiting();
        let mut bytes: u64 = waiting.iter().map(size).sum();
        for file in waiting {
            if bytes <= self.options.most_bytes {
                return;
            }
            bytes -= size(&file).min(bytes);
            if fs::remove_file(&file).is_ok() {
                self.done.given_up += 1;
            }
        }
    }
}
