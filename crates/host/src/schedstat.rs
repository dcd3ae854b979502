use crate::HostRoot;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How long and how often a thread ran, as `/proc/PID/task/TID/schedstat` adds it up: when it is switched out and at
/// every tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedstat {
    /// Time on a processor.
    pub ran_ns: u64,
    /// How often it got one.
    pub runs: u64,
}

impl Schedstat {
    /// Reads the text; `None` where it does not hold the numbers.
    ///
    /// ```
    /// use crosstalk_host::Schedstat;
    ///
    /// assert_eq!(Schedstat::parse("70 5 3\n"), Some(Schedstat { ran_ns: 70, runs: 3 }));
    /// assert_eq!(Schedstat::parse("70 5"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (ran, _waited, runs) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some(Self { ran_ns: ran.ok()?, runs: runs.ok()? })
    }

    /// Whether this kernel adds up how long tasks wait for a core (CONFIG_SCHED_INFO).
    #[must_use]
    pub fn is_kept(host: &HostRoot) -> bool {
        host.path("/proc/self/schedstat").exists()
    }
}

/// A thread's `schedstat`, kept open since it is looked at often.
#[derive(Debug)]
pub struct SchedstatFile(File);

impl SchedstatFile {
    /// Opens that of a thread.
    ///
    /// # Errors
    /// The thread has exited, or there are too many open files.
    pub fn open(host: &HostRoot, pid: u32, tid: u32) -> io::Result<Self> {
        File::open(host.path(format!("/proc/{pid}/task/{tid}/schedstat"))).map(Self)
    }

    /// What it says now.
    ///
    /// # Errors
    /// The thread has exited.
    pub fn read(&self) -> io::Result<Option<Schedstat>> {
        let mut text = [0; 96];
        let length = self.0.read_at(&mut text, 0)?;
        Ok(std::str::from_utf8(&text[..length]).ok().and_then(Schedstat::parse))
    }
}
