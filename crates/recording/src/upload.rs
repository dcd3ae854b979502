//! Finished files into an object store.
//!
//! A recording that is meant for a store is written into a folder of this machine first, the spool. A thread looks
//! there for files that are whole, sends each under its own name, asks the store how long it is there, and only then
//! removes it here. It keeps no state of its own: what a crash or a dead store leaves in the spool goes out at the
//! next start. Whether such a file was sent before the crash nobody knows, so the store is asked first.

use crate::Error;
use crate::recovery::{files_below, is_ours};
use crate::sent::Sent;
use crate::store::Store;
use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How often the spool is looked into.
const LOOK: Duration = Duration::from_secs(2);
/// After a failure it is tried again this much later, then twice as much, and so on.
const BACK_OFF: Duration = Duration::from_secs(2);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);
/// At the end, how often it is tried before the rest stays in the spool.
const LAST_TRIES: u32 = 3;
/// And for how long: after it no other try begins.
const LAST_TRIES_WITHIN: Duration = Duration::from_secs(60);

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
    failing: Option<String>,
    /// Files that may be there: found at the start, or sent without a good answer.
    suspects: HashSet<PathBuf>,
    sent: Sent,
}

impl Work {
    fn new(options: UploadOptions) -> Result<Self, Error> {
        let store = Store::open_to_send(&options.url)?;
        let suspects = waiting(&options.spool).into_iter().collect();
        let (done, sent) = (Uploaded::default(), Sent::default());
        Ok(Self { options, store, done, failing: None, suspects, sent })
    }

    fn finish(mut self) -> Uploaded {
        let began = Instant::now();
        for tried in 1..=LAST_TRIES {
            if self.sweep().is_ok() || tried == LAST_TRIES || began.elapsed() >= LAST_TRIES_WITHIN {
                break;
            }
            #[allow(clippy::disallowed_methods)]
            // a store that is away has no event to wait for
            std::thread::sleep(BACK_OFF);
        }
        self.done.left = waiting(&self.options.spool).len() as u64;
        self.done.error = self.failing.filter(|_| self.done.left > 0);
        self.done
    }

    /// Sends what is finished, the oldest first. A failure of the store ends it: the others would fail alike.
    fn sweep(&mut self) -> Result<(), Error> {
        let sent = self.send_all();
        match &sent {
            Ok(()) => self.failing = None,
            Err(error) => {
                // What it says may have the number of a request in it: once in a row is enough.
                if self.failing.replace(error.to_string()).is_none() {
                    (self.options.on_error)(error);
                }
                self.give_up_oldest();
            }
        }
        sent
    }

    /// What is wrong with one file, or with the folder that it goes to, holds up no other; the first of it is the answer.
    fn send_all(&mut self) -> Result<(), Error> {
        let mut sent = Ok(());
        for file in waiting(&self.options.spool) {
            let Err(error) = self.send_and_remove(&file) else { continue };
            let is_for_all = matches!(
                error,
                Error::Store { .. } | Error::Denied { .. } | Error::Unreachable { .. }
            );
            sent = sent.and(Err(error));
            if is_for_all {
                break;
            }
        }
        sent
    }

    fn send_and_remove(&mut self, file: &Path) -> Result<(), Error> {
        // Until it is gone from here, an attempt may have been all it needs.
        let may_be_there = !self.suspects.insert(file.to_owned());
        let bytes = self.send(file, may_be_there)?;
        fs::remove_file(file).map_err(|e| Error::io(file, e))?;
        self.suspects.remove(file);
        self.done.files += 1;
        self.done.bytes += bytes;
        Ok(())
    }

    fn send(&mut self, file: &Path, may_be_there: bool) -> Result<u64, Error> {
        let below = file.strip_prefix(&self.options.spool).unwrap_or(file);
        let name = below.to_string_lossy();
        let mut input = File::open(file).map_err(|e| Error::io(file, e))?;
        let bytes = input.metadata().map_err(|e| Error::io(file, e))?.len();
        if may_be_there && self.sent.is_there(&self.store, &name, bytes)? {
            return Ok(bytes);
        }
        self.store.write_file(&name, &mut input, file)
    }

    /// Rows go with what they say about themselves: one without the other is of no use.
    fn give_up_oldest(&mut self) {
        let size = |file: &PathBuf| fs::metadata(file).map_or(0, |about| about.len());
        let waiting = waiting(&self.options.spool);
        let mut bytes: u64 = waiting.iter().map(size).sum();
        for together in waiting.chunk_by(|a, b| a.with_extension("") == b.with_extension("")) {
            if bytes <= self.options.most_bytes {
                return;
            }
            for file in together {
                bytes -= size(file).min(bytes);
                if fs::remove_file(file).is_ok() {
                    self.suspects.remove(file);
                    self.done.given_up += 1;
                }
            }
        }
    }
}

/// Finished files of ours, the oldest first, each CSV file behind what it says about itself: a reader that finds the
/// rows finds that, too.
fn waiting(spool: &Path) -> Vec<PathBuf> {
    let is_finished = |file: &PathBuf| {
        let ending = file.extension().and_then(|ending| ending.to_str());
        let is_rows = matches!(ending, Some("csv" | "parquet"));
        (is_rows && is_ours(spool, file))
            || (ending == Some("json") && is_ours(spool, &file.with_extension("csv")))
    };
    let mut files: Vec<PathBuf> = files_below(spool).into_iter().filter(is_finished).collect();
    files.sort_by_cached_key(|file| {
        let stem = file.with_extension("");
        let name = stem.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stamp = name.split_once('-').map_or(name, |(_, stamp)| stamp).to_owned();
        (stamp, stem, file.extension() != Some("json".as_ref()))
    });
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of 10 bytes: two of slots, of which the second is the newest of all, and one of tasks.
    fn spool() -> tempfile::TempDir {
        let spool = tempfile::tempdir().unwrap();
        for (dataset, name) in [
            ("slots", "slots-20261115T215000.000Z.csv"),
            ("slots", "slots-20261115T215000.000Z.json"),
            ("slots", "slots-20261115T220500.000Z.parquet"),
            ("tasks", "tasks-20261115T220000.000Z.csv"),
            ("tasks", "tasks-20261115T220000.000Z.json"),
        ] {
            let folder = spool.path().join(dataset).join("node=a/run=r");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), "0123456789").unwrap();
        }
        spool
    }

    fn names(spool: &Path) -> Vec<String> {
        let name = |file: PathBuf| file.file_name().unwrap().to_str().unwrap().to_owned();
        waiting(spool).into_iter().map(name).collect()
    }

    #[test]
    fn the_oldest_of_all_data_sets_goes_first_and_what_a_file_says_of_itself_before_it() {
        let spool = spool();
        let expected = [
            "slots-20261115T215000.000Z.json",
            "slots-20261115T215000.000Z.csv",
            "tasks-20261115T220000.000Z.json",
            "tasks-20261115T220000.000Z.csv",
            "slots-20261115T220500.000Z.parquet",
        ];
        assert_eq!(names(spool.path()), expected);
    }

    #[test]
    fn what_is_wrong_in_one_folder_of_the_store_holds_up_no_other_file() {
        let spool = spool();
        let options = UploadOptions {
            url: "memory:///rec".to_owned(),
            spool: spool.path().to_owned(),
            most_bytes: u64::MAX,
            on_error: |_| {},
        };
        let mut work = Work::new(options).unwrap();
        let put = |name: &str| {
            let mut text = vec![b"neither JSON nor Parquet".to_vec()].into_iter();
            work.store.write(name, &mut || Ok(text.next().unwrap_or_default())).unwrap();
        };
        put("slots/node=a/run=r/~exchange.json");
        put("tasks/node=a/run=r/tasks-20261115T210000.000Z.parquet");
        let error = work.sweep().unwrap_err().to_string();
        assert!(error.contains("slots/node=a/run=r/~exchange.json"), "{error}");
        assert_eq!(work.done.files, 2, "those of tasks, beside an object that is no Parquet");
        assert!(names(spool.path()).iter().all(|name| name.starts_with("slots")));
    }

    #[test]
    fn a_full_spool_gives_up_the_oldest_rows_with_what_they_say_of_themselves() {
        let spool = spool();
        let options = UploadOptions {
            url: "memory:///".to_owned(),
            spool: spool.path().to_owned(),
            most_bytes: 45,
            on_error: |_| {},
        };
        let mut work = Work::new(options).unwrap();
        work.give_up_oldest();
        assert_eq!(work.done.given_up, 2);
        assert_eq!(names(spool.path())[0], "tasks-20261115T220000.000Z.json");
        work.options.most_bytes = 15;
        work.give_up_oldest();
        assert_eq!(names(spool.path()), ["slots-20261115T220500.000Z.parquet"]);
    }
}
