use crate::child::wait_readable;
use crate::metrics::NodeMetrics;
use crate::session::{End, Session};
use crate::time::LocalTime;
use crosstalk_host::BackOff;
use rustix::event::{PollFd, PollFlags};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What to run, and how much misbehaviour to bear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerConfig {
    /// The program. It is run directly, never through a shell.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// How often it was told to print a row.
    pub interval: Duration,
    /// Without a row for so long it hangs, and is started anew.
    pub silence: Duration,
    /// Longer lines are dropped. A row of a large machine with all cores is some 60 kB.
    pub longest_line: usize,
    /// A child that prints more bytes in a second floods, and is started anew.
    pub most_bytes_per_second: usize,
    /// Pause before starting anew; doubled each time a run gave no row at all.
    pub back_off: Duration,
    /// The longest pause.
    pub longest_back_off: Duration,
    /// How long a child that is asked to end may take before it is killed.
    pub grace: Duration,
}

impl RunnerConfig {
    /// `pcm` without its per-core columns.
    #[must_use]
    pub fn pcm(interval: Duration) -> Self {
        Self::of("pcm", &["-nc"], interval)
    }

    /// `pcm-memory`.
    #[must_use]
    pub fn pcm_memory(interval: Duration) -> Self {
        Self::of("pcm-memory", &[], interval)
    }

    fn of(program: &str, more: &[&str], interval: Duration) -> Self {
        let mut args = vec![interval.as_secs_f64().to_string(), "-csv".to_owned()];
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        Self {
            program: program.into(),
            args,
            interval,
            // PCM takes seconds to program the counters of a large machine.
            silence: Duration::from_secs(10) + interval * 5,
            longest_line: 256 * 1024,
            most_bytes_per_second: 8 * 1024 * 1024,
            back_off: Duration::from_secs(1),
            longest_back_off: Duration::from_secs(60),
            grace: Duration::from_secs(2),
        }
    }
}

/// A row of a running PCM.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// When it arrived: date it by this.
    pub arrived: Instant,
    /// The time it covers, up to its arrival.
    pub covers: Duration,
    /// The node's metrics.
    pub metrics: NodeMetrics,
    /// The local time PCM printed.
    pub local_time: Option<LocalTime>,
}

/// What went wrong so far, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// The program could not be started.
    pub not_started: u64,
    /// The child ended by itself.
    pub ended: u64,
    /// The child printed no row for too long.
    pub hung: u64,
    /// The child printed too much.
    pub flooded: u64,
    /// The child printed so many bad lines that a new start was due.
    pub garbled: u64,
    /// Lines that should have been rows and were not.
    pub bad_lines: u64,
    /// Lines beyond the bound.
    pub long_lines: u64,
    /// The latest fault in words, with the last line of the child's standard error.
    pub latest: Option<String>,
    /// What would help against it, where that is known.
    pub latest_fix: Option<String>,
}

impl Faults {
    /// Sum over all kinds but lines: how often the child had to be started anew.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.not_started + self.ended + self.hung + self.flooded + self.garbled
    }
}

/// Runs a PCM command on a thread of its own for as long as it lives, through any number of
/// children. Dropping it ends the child and the thread.
///
/// After a `kill -9` of the whole process the kernel asks the child to end (SIGTERM).
///
/// ```no_run
/// use crosstalk_pcm::{Runner, RunnerConfig};
/// use std::time::Duration;
///
/// let config = RunnerConfig::pcm(Duration::from_secs(1));
/// let runner = Runner::start(config, |reading| println!("{:?}", reading.metrics.ipc))?;
/// # drop(runner);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Runner {
    faults: Arc<Mutex<Faults>>,
    /// Closing it is the signal to stop.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    /// Starts the thread; each reading is handed to `on_reading` on it.
    ///
    /// # Errors
    /// If the thread cannot be made. A program that is not there is no error but a fault: it may
    /// be installed later.
    pub fn start(
        config: RunnerConfig,
        on_reading: impl FnMut(Reading) + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let faults = Arc::new(Mutex::new(Faults::default()));
        let shared = Arc::clone(&faults);
        let thread = std::thread::Builder::new()
            .name("pcm".to_owned())
            .spawn(move || supervise(&config, &stopped, &shared, on_reading))?;
        Ok(Self { faults, stop: Some(stop), thread: Some(thread) })
    }

    /// What went wrong so far.
    #[must_use]
    pub fn faults(&self) -> Faults {
        locked(&self.faults).clone()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Plain counters are whole even if a thread died while it held them.
pub(crate) fn locked(faults: &Mutex<Faults>) -> MutexGuard<'_, Faults> {
    faults.lock().unwrap_or_else(PoisonError::into_inner)
}

fn supervise(
    config: &RunnerConfig,
    stopped: &UnixStream,
    faults: &Mutex<Faults>,
    mut on_reading: impl FnMut(Reading),
) {
    let mut back_off = BackOff::new(config.back_off, config.longest_back_off);
    loop {
        let mut rows = 0_u64;
        let end = Session::run(config, stopped, faults, |reading| {
            rows += 1;
            on_reading(reading);
        });
        if matches!(end, End::Stopped) {
            return;
        }
        end.count(config, &mut locked(faults));
        if rows > 0 {
            back_off.reset();
        }
        // The stream only ever becomes readable by being closed.
        let closed = wait_readable(&mut [PollFd::new(stopped, PollFlags::IN)], back_off.next());
        if closed.unwrap_or(true) {
            return;
        }
    }
}
