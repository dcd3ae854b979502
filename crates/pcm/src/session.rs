//! One life of a child: from its start to whatever ends it.

use crate::child::{ChildGroup, wait_readable};
use crate::csv::{CsvParser, Row};
use crate::error::PcmError;
use crate::lines::Lines;
use crate::runner::{Faults, Reading, RunnerConfig, locked};
use crosstalk_host::WithFix;
use rustix::event::{PollFd, PollFlags};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// So many bad lines in a row are not a hiccup.
const MOST_BAD_LINES: u32 = 50;
/// So many rows that do not fit the header mean that a new header is needed.
const MOST_MISFITS: u32 = 3;
/// Quiet after which a row whose line end has not come is taken as it is.
const SETTLED: Duration = Duration::from_millis(50);
/// The end of the child's standard error kept for messages.
const LAST_WORDS: usize = 200;

/// Why a life ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The runner is being dropped.
    Stopped,
    NotStarted(String),
    Ended {
        how: String,
        last_words: String,
    },
    Hung,
    Flooded,
    Garbled(PcmError),
}

impl End {
    pub(crate) fn count(self, config: &RunnerConfig, faults: &mut Faults) {
        faults.latest_fix = match &self {
            Self::Garbled(error) => error.fix().map(str::to_owned),
            _ => None,
        };
        let (count, what) = match self {
            Self::Stopped => return,
            Self::NotStarted(error) => (&mut faults.not_started, format!("not started: {error}")),
            Self::Ended { how, last_words } if last_words.is_empty() => (&mut faults.ended, how),
            Self::Ended { how, last_words } => (&mut faults.ended, format!("{how}: {last_words}")),
            Self::Hung => {
                (&mut faults.hung, format!("no row for {} s", config.silence.as_secs_f64()))
            }
            Self::Flooded => {
                let most = config.most_bytes_per_second;
                (
                    &mut faults.flooded,
                    format!("printed more than {most} bytes or too many rows in a second"),
                )
            }
            Self::Garbled(error) => (&mut faults.garbled, error.to_string()),
        };
        *count += 1;
        faults.latest = Some(format!("{}: {what}", config.program.display()));
    }
}

pub(crate) struct Session<'a, F> {
    config: &'a RunnerConfig,
    faults: &'a Mutex<Faults>,
    on_reading: F,
    parser: CsvParser,
    lines: Lines,
    last_words: Vec<u8>,
    last_row: Instant,
    bad_lines: u32,
    misfits: u32,
    /// Start of the second in which bytes and rows are counted, and the counts.
    second: (Instant, usize, u32),
}

impl<F: FnMut(Reading)> Session<'_, F> {
    pub(crate) fn run(
        config: &RunnerConfig,
        stopped: &UnixStream,
        faults: &Mutex<Faults>,
        on_reading: F,
    ) -> End {
        let mut command = Command::new(&config.program);
        command.args(&config.args);
        let child = match ChildGroup::spawn(command, config.grace) {
            Ok(child) => child,
            Err(error) => return End::NotStarted(error.to_string()),
        };
        let now = Instant::now();
        let mut session = Session {
            config,
            faults,
            on_reading,
            parser: CsvParser::new(config.interval),
            lines: Lines::new(config.longest_line),
            last_words: Vec::new(),
            last_row: now,
            bad_lines: 0,
            misfits: 0,
            second: (now, 0, 0),
        };
        session.follow(child, stopped)
    }

    fn follow(&mut self, mut child: ChildGroup, stopped: &UnixStream) -> End {
        let mut buffer = vec![0; 64 * 1024];
        let mut stderr_open = true;
        loop {
            let silent_for = self.last_row.elapsed();
            let Some(patience) = self.config.silence.checked_sub(silent_for) else {
                return End::Hung;
            };
            let unfinished = self.parser.is_whole_row(&self.lines.partial());
            let limit = if unfinished { patience.min(SETTLED) } else { patience };
            let mut fds = vec![
                PollFd::new(stopped, PollFlags::IN),
                PollFd::new(&child.stdout, PollFlags::IN),
            ];
            if stderr_open {
                fds.push(PollFd::new(&child.stderr, PollFlags::IN));
            }
            let Ok(ready) = wait_readable(&mut fds, limit) else { return End::Stopped };
            let has_event = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
            let (stop, out, err) = (has_event(0), has_event(1), has_event(2));
            drop(fds);
            if stop {
                return End::Stopped;
            }
            if !ready && unfinished {
                let line = self.lines.partial().into_owned();
                self.lines.finish_partial();
                self.take_line(&line);
            }
            if err {
                let read = child.stderr.read(&mut buffer).unwrap_or(0);
                stderr_open = read > 0;
                self.keep_last_words(&buffer[..read]);
            }
            if out {
                let read = child.stdout.read(&mut buffer).unwrap_or(0);
                if read == 0 {
                    let how = child.end();
                    return End::Ended { how, last_words: self.last_words() };
                }
                if let Err(end) = self.take_output(&buffer[..read]) {
                    return end;
                }
            }
        }
    }

    fn take_output(&mut self, bytes: &[u8]) -> Result<(), End> {
        if self.second.0.elapsed() >= Duration::from_secs(1) {
            self.second = (Instant::now(), 0, 0);
        }
        self.second.1 += bytes.len();
        let mut lines = std::mem::replace(&mut self.lines, Lines::new(0));
        let long_before = lines.too_long();
        let mut bad = None;
        lines.feed(bytes, |line| {
            if bad.is_none() {
                bad = self.take_line(line);
            }
        });
        locked(self.faults).long_lines += lines.too_long() - long_before;
        self.lines = lines;
        let most_rows = 20 + (10.0 / self.config.interval.as_secs_f64()) as u32;
        if self.second.1 > self.config.most_bytes_per_second || self.second.2 > most_rows {
            return Err(End::Flooded);
        }
        bad.map_or(Ok(()), |error| Err(End::Garbled(error)))
    }

    /// Parses a line; an error comes back only once there were too many.
    fn take_line(&mut self, line: &str) -> Option<PcmError> {
        match self.parser.line(line) {
            Ok(Some(row)) => {
                self.take_row(row);
                None
            }
            Ok(None) => None,
            Err(error) => {
                locked(self.faults).bad_lines += 1;
                self.bad_lines += 1;
                if !matches!(error, PcmError::NotARow { .. }) {
                    self.misfits += 1;
                }
                let too_many = self.bad_lines >= MOST_BAD_LINES || self.misfits >= MOST_MISFITS;
                too_many.then_some(error)
            }
        }
    }

    fn take_row(&mut self, row: Row) {
        let arrived = Instant::now();
        self.last_row = arrived;
        self.second.2 += 1;
        (self.bad_lines, self.misfits) = (0, 0);
        let Row { metrics, covers, local_time } = row;
        (self.on_reading)(Reading { arrived, covers, metrics, local_time });
    }

    fn keep_last_words(&mut self, bytes: &[u8]) {
        self.last_words.extend_from_slice(&bytes[bytes.len().saturating_sub(LAST_WORDS)..]);
        let surplus = self.last_words.len().saturating_sub(LAST_WORDS);
        self.last_words.drain(..surplus);
    }

    fn last_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.last_words);
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("").to_owned()
    }
}
