//! How many tasks want a core at this moment.

use crate::{HostError, HostRoot};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const FILE: &str = "/proc/loadavg";

/// Tasks that run or wait for a core, on the whole machine and now: no average, and no steps of a clock tick, unlike
/// everything `/proc/stat` has. Kept open, since it is looked at often.
#[derive(Debug)]
pub struct RunQueue {
    file: File,
    path: PathBuf,
}

impl RunQueue {
    /// Opens the host's `/proc/loadavg`.
    ///
    /// # Errors
    /// It is not there, or may not be read.
    pub fn open(host: &HostRoot) -> Result<Self, HostError> {
        let path = host.path(FILE);
        match File::open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(source) => Err(HostError { path, source }),
        }
    }

    /// Tasks that run or want to, the calling one included.
    ///
    /// # Errors
    /// The file cannot be read, or does not say.
    pub fn runnable(&self) -> Result<u32, HostError> {
        self.read(parse, "names no runnable tasks")
    }

    /// Changes with every birth of a thread.
    ///
    /// # Errors
    /// The file cannot be read, or does not say.
    pub fn forks(&self) -> Result<Forks, HostError> {
        self.read(parse_forks, "names no last thread")
    }

    fn read<T>(&self, parse: fn(&str) -> Option<T>, without: &str) -> Result<T, HostError> {
        let mut text = [0; 128];
        let failed = |source| HostError { path: self.path.clone(), source };
        let bytes = self.file.read_at(&mut text, 0).map_err(failed)?;
        let found = std::str::from_utf8(&text[..bytes]).ok().and_then(parse);
        found.ok_or_else(|| failed(io::Error::new(ErrorKind::InvalidData, without)))
    }
}

/// How many threads there are and the number that was given out last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forks {
    threads: u32,
    last: u32,
}

/// The fourth field, such as `1/105`. The caller runs, so that none is no answer (some sandboxes say so).
fn parse(text: &str) -> Option<u32> {
    let (runnable, _all) = text.split_ascii_whitespace().nth(3)?.split_once('/')?;
    runnable.parse().ok().filter(|runnable| *runnable > 0)
}

/// `3/105 21880`: 105 threads, the last of which is 21880. Where that is 0, the kernel does not count (some sandboxes).
fn parse_forks(text: &str) -> Option<Forks> {
    let mut words = text.split_ascii_whitespace().skip(3);
    let (_runnable, threads) = words.next()?.split_once('/')?;
    let (threads, last) = (threads.parse().ok()?, words.next()?.parse().ok()?);
    (last > 0).then_some(Forks { threads, last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_field_counts_who_wants_a_core() {
        assert_eq!(parse("2.30 2.11 1.22 3/105 21880\n"), Some(3));
        for text in ["", "0.00 0.00 0.00 0/0 0", "1 2 3 4 5", "1 2 3 x/5 6", "1 2 3 -1/5 6"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_birth_changes_the_last_two_numbers_and_who_runs_does_not() {
        let forks = |text| parse_forks(text);
        assert_eq!(forks("2.3 2.1 1.2 3/105 21880\n"), forks("2.4 2.1 1.2 1/105 21880\n"));
        assert_ne!(forks("2.3 2.1 1.2 3/105 21880\n"), forks("2.3 2.1 1.2 3/105 21881\n"));
        for text in ["", "0.00 0.00 0.00 0/0 0", "1 2 3 4 5", "1 2 3 4/5"] {
            assert_eq!(forks(text), None, "{text}");
        }
    }

    #[test]
    fn whoever_asks_is_counted_and_a_host_elsewhere_is_asked_itself() {
        assert!(RunQueue::open(&HostRoot::default()).unwrap().runnable().unwrap() >= 1);
        let elsewhere = tempfile::tempdir().unwrap();
        let host = HostRoot::new(elsewhere.path());
        let error = RunQueue::open(&host).unwrap_err().to_string();
        assert!(error.contains("proc/loadavg"), "{error}");
        std::fs::create_dir(elsewhere.path().join("proc")).unwrap();
        let file = elsewhere.path().join("proc/loadavg");
        std::fs::write(&file, "0.1 0.1 0.1 7/9 3\n").unwrap();
        let queue = RunQueue::open(&host).unwrap();
        assert_eq!(queue.runnable().unwrap(), 7);
        std::fs::write(&file, "").unwrap();
        assert!(queue.runnable().is_err());
    }
}
