//! A workload's own progress: what it says it got done, from a file.
//!
//! Four kinds of files are told apart by what is in them: JSON lines as `crosstalk workload` prints them, a CSV with a
//! time and a number of units, a training log, and the answer of the processor's `GET /workloads/UID/training`.

mod feed;
mod json;
mod log;
mod read;
mod whose;

pub(crate) use feed::Feed;
pub(crate) use whose::{Census, whose};

use std::fmt;

/// Points beyond this many are joined in pairs.
const MOST_POINTS: usize = 200_000;
/// Iterations beyond this many are counted, not looked at.
const MOST_ITERATIONS: usize = 20_000;

/// Whose progress, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Whose; where the file says it by its process id, this need not.
    pub name: Option<String>,
    /// The file.
    pub path: String,
    pub(crate) pid: Option<i64>,
    /// When units were said to be done, and how many since the time before; in order.
    pub(crate) points: Vec<Point>,
    /// Iterations of a training run, in order; empty if it is none.
    pub(crate) iterations: Vec<Iteration>,
    /// Iterations for which there was no room.
    pub(crate) left_out: usize,
}

/// Units done by a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) at_ns: u64,
    pub(crate) units: f64,
}

/// Iterations of a training run that one line tells of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Iteration {
    /// The last of them.
    pub(crate) number: u64,
    /// How many.
    pub(crate) count: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    /// How long one took.
    pub(crate) seconds: f64,
}

/// Why progress cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProgressError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// It holds no progress.
    #[error("{path}: {reason}")]
    NoProgress {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// Nobody says whose it is.
    #[error(
        "{path}: whose progress is this? say --progress NAME={path}, NAME being a process id or a name as the \
         table of verdicts has it, such as \"trainer\" or \"trainer (4711)\""
    )]
    Whose {
        /// The file.
        path: String,
    },
}

impl Progress {
    /// Reads `[NAME=]FILE`. Times without a zone are this many seconds ahead of UTC.
    ///
    /// # Errors
    /// The file cannot be read, holds no progress, or nobody says whose it is.
    pub fn open(argument: &str, zone_seconds: i64) -> Result<Self, ProgressError> {
        let (name, path) = match argument.split_once('=') {
            // A path may have a "=" of its own: node=a/run=b.
            Some((name, path)) if !std::path::Path::new(argument).exists() => (Some(name), path),
            _ => (None, argument),
        };
        let mut progress = read::read(path, zone_seconds)?;
        progress.name = name.map(str::to_owned);
        if progress.name.is_none() && progress.pid.is_none() {
            return Err(ProgressError::Whose { path: path.to_owned() });
        }
        Ok(progress)
    }

    fn new(path: &str) -> Self {
        let (points, iterations) = (Vec::new(), Vec::new());
        Self { name: None, path: path.to_owned(), pid: None, points, iterations, left_out: 0 }
    }

    fn add(&mut self, at_ns: u64, units: f64) {
        if !units.is_finite() || units < 0.0 {
            return;
        }
        if self.points.len() >= MOST_POINTS {
            let joined = self.points.chunks(2).map(|pair| Point {
                at_ns: pair[pair.len() - 1].at_ns,
                units: pair.iter().map(|point| point.units).sum(),
            });
            self.points = joined.collect();
        }
        self.points.push(Point { at_ns, units });
    }

    fn add_iterations(&mut self, mut iterations: Vec<Iteration>) {
        self.left_out = iterations.len().saturating_sub(MOST_ITERATIONS);
        iterations.truncate(MOST_ITERATIONS);
        for iteration in &iterations {
            self.add(iteration.end_ns, iteration.count as f64);
        }
        self.iterations = iterations;
    }

    /// Its time, from the first to the last point.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        Some((self.points.first()?.at_ns, self.points.last()?.at_ns))
    }
}

/// Whose it is, as a person would say it.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.pid) {
            (Some(name), _) => f.write_str(name),
            (None, Some(pid)) => write!(f, "process {pid}"),
            (None, None) => f.write_str("somebody"),
        }
    }
}
