//! Numbers training runs.
//!
//! A run ends where training starts anew: at a start event, or where the iteration goes back. What
//! makes that hard is that several pods report the same run, that shippers deliver late and twice,
//! and that a pod's clock is its own. So:
//!
//! - an iteration goes back only against what the same reporter said in this run, or, for one that
//!   has said nothing yet, against the run;
//! - a start opens a run only if the current one has iterations, so every rank may print it;
//! - what is older than the newest sighting of the current run is late: it belongs to the run of
//!   its time and opens none.
//!
//! Pure functions; the store calls them inside its transaction.

use std::collections::{BTreeSet, HashMap};

/// What was seen of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Training starts.
    Start,
    /// An iteration was reported.
    Iteration(i64),
}

/// One run of a workload. Times are nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its number, from 1.
    pub serial: i64,
    /// When it was first seen.
    pub started_at: i64,
    /// When it was last seen.
    pub last_at: i64,
    /// The lowest iteration seen.
    pub first_iteration: Option<i64>,
    /// The highest iteration seen.
    pub last_iteration: Option<i64>,
}

/// Where a sighting belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// To the current run.
    Join,
    /// To a new run.
    Open,
    /// To the run of its time.
    Late,
}

/// Decides where a sighting belongs. `own` is the reporter's last iteration in the current run.
///
/// ```
/// use crosstalk_store::run::{Decision, Run, Seen, decide};
/// let run = Run { serial: 1, started_at: 0, last_at: 50, first_iteration: Some(1), last_iteration: Some(9) };
/// assert_eq!(decide(Some(&run), Some(9), 60, Seen::Iteration(10)), Decision::Join);
/// assert_eq!(decide(Some(&run), Some(9), 60, Seen::Iteration(5)), Decision::Open);
/// assert_eq!(decide(Some(&run), Some(9), 40, Seen::Iteration(5)), Decision::Late);
/// assert_eq!(decide(Some(&run), Some(9), 60, Seen::Start), Decision::Open);
/// ```
pub fn decide(current: Option<&Run>, own: Option<i64>, at: i64, seen: Seen) -> Decision {
    let Some(run) = current else { return Decision::Open };
    if at < run.last_at {
        return Decision::Late;
    }
    let anew = match seen {
        Seen::Start => run.last_iteration.is_some(),
        Seen::Iteration(iteration) => {
            own.or(run.last_iteration).is_some_and(|last| iteration < last)
        }
    };
    if anew { Decision::Open } else { Decision::Join }
}

/// The latest runs of one workload, and how far each reporter is in them.
#[derive(Clone, Debug, Default)]
pub struct History {
    runs: Vec<Run>,
    reporters: HashMap<(i64, String), i64>,
    touched: BTreeSet<i64>,
}

/// What became of a sighting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The run's number.
    pub serial: i64,
    /// Whether it was opened by this sighting.
    pub opened: bool,
}

impl History {
    /// A history from stored runs, in any order, and `(serial, reporter, last iteration)`.
    pub fn new(
        mut runs: Vec<Run>,
        reporters: impl IntoIterator<Item = (i64, String, i64)>,
    ) -> History {
        runs.sort_by_key(|run| run.serial);
        let reporters = reporters.into_iter().map(|(serial, name, last)| ((serial, name), last));
        History { runs, reporters: reporters.collect(), touched: BTreeSet::new() }
    }

    /// The runs, oldest first.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The runs that sightings were assigned to since this history was made.
    pub fn touched(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| self.touched.contains(&run.serial))
    }

    /// The reporters: `(serial, reporter, last iteration)`.
    pub fn reporters(&self) -> impl Iterator<Item = (i64, &str, i64)> {
        self.reporters.iter().map(|((serial, name), last)| (*serial, name.as_str(), *last))
    }

    /// Assigns a sighting to a run and remembers it.
    pub fn assign(&mut self, reporter: &str, at: i64, seen: Seen) -> Assigned {
        let current = self.runs.last();
        let serial = current.map_or(0, |run| run.serial);
        let own = self.reporters.get(&(serial, reporter.to_owned())).copied();
        let decision = decide(current, own, at, seen);
        let index = match decision {
            Decision::Join => self.runs.len() - 1,
            Decision::Late => self.runs.iter().rposition(|run| run.started_at <= at).unwrap_or(0),
            Decision::Open => {
                self.runs.push(Run {
                    serial: serial + 1,
                    started_at: at,
                    last_at: at,
                    first_iteration: None,
                    last_iteration: None,
                });
                self.runs.len() - 1
            }
        };
        let run = &mut self.runs[index];
        self.touched.insert(run.serial);
        run.last_at = run.last_at.max(at);
        run.started_at = run.started_at.min(at);
        if let Seen::Iteration(iteration) = seen {
            run.first_iteration =
                Some(run.first_iteration.map_or(iteration, |first| first.min(iteration)));
            run.last_iteration =
                Some(run.last_iteration.map_or(iteration, |last| last.max(iteration)));
            let own = self.reporters.entry((run.serial, reporter.to_owned())).or_insert(iteration);
            *own = (*own).max(iteration);
        }
        Assigned { serial: run.serial, opened: decision == Decision::Open }
    }
}
