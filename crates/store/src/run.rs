//! Numbers training runs.
//!
//! A run ends where training starts anew: at a start event, or where the iteration goes back. What
//! makes that hard is that several pods report the same run, that shippers deliver late and twice,
//! and that a pod's clock is its own. So:
//!
//! - a reporter is late only by its own clock, and goes back only against what it said itself in
//!   this run;
//! - each reporter may say once in a run that training starts: the second time it has restarted;
//! - a reporter that is new to the run and behind it is a rank whose clock or log lags, as long as
//!   the others go on; when they have gone silent, it is a restart;
//! - what is late belongs to the run of its time and opens none.
//!
//! Pure functions; the store calls them inside its transaction.

use std::collections::{BTreeSet, HashMap};

const SECOND: i64 = 1_000_000_000;

/// A run that has said nothing for so long is silent, where it is not known how often it speaks.
const SILENT: i64 = 10 * SECOND;

/// Bounds of that time where it is known: clocks may differ by the first, and a restart of a
/// training that rarely prints takes longer than the second.
const SHORTEST_SILENCE: i64 = SECOND;
const LONGEST_SILENCE: i64 = 60 * SECOND;

/// What was seen of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Training starts.
    Start,
    /// An iteration was reported.
    Iteration(i64),
}

/// One run of a workload. Times are nanoseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Time between the latest two lines of one reporter.
    pub line_interval: Option<i64>,
}

impl Run {
    /// Whether two lines have failed to come by this time.
    fn is_silent(&self, at: i64) -> bool {
        let enough = self.line_interval.map_or(SILENT, |interval| {
            interval.saturating_mul(2).clamp(SHORTEST_SILENCE, LONGEST_SILENCE)
        });
        at.saturating_sub(self.last_at) >= enough
    }

    /// Whether this is no more than the run has already seen.
    fn is_past(&self, seen: Seen) -> bool {
        self.last_iteration.is_some_and(|last| match seen {
            Seen::Start => true,
            Seen::Iteration(iteration) => iteration < last,
        })
    }
}

/// How far a reporter is in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Its highest iteration.
    pub last_iteration: Option<i64>,
    /// Its newest line.
    pub last_at: i64,
    /// When it last said that training starts.
    pub start_at: Option<i64>,
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

/// Decides where a sighting belongs. `own` is what the reporter said before in the current run.
///
/// ```
/// use crosstalk_store::run::{Decision, Progress, Run, Seen, decide};
/// let run = Run { serial: 1, last_at: 50, first_iteration: Some(1), last_iteration: Some(9), ..Run::default() };
/// let own = Progress { last_iteration: Some(9), last_at: 50, start_at: None };
/// let by_itself = |at, seen| decide(Some(&run), Some(&own), at, seen);
/// assert_eq!(by_itself(60, Seen::Iteration(10)), Decision::Join);
/// assert_eq!(by_itself(60, Seen::Iteration(5)), Decision::Open);
/// assert_eq!(by_itself(40, Seen::Iteration(5)), Decision::Late);
/// assert_eq!(by_itself(60, Seen::Start), Decision::Open);
/// let by_another = |at, seen| decide(Some(&run), None, at, seen);
/// assert_eq!(by_another(60, Seen::Iteration(5)), Decision::Join);
/// assert_eq!(by_another(60_000_000_000, Seen::Iteration(5)), Decision::Open);
/// ```
pub fn decide(current: Option<&Run>, own: Option<&Progress>, at: i64, seen: Seen) -> Decision {
    let Some(run) = current else { return Decision::Open };
    let anew = match own {
        Some(own) if at < own.last_at => return Decision::Late,
        None if at < run.last_at => return Decision::Late,
        Some(own) => match (seen, own.last_iteration) {
            // Told again.
            (Seen::Start, _) if own.start_at == Some(at) => return Decision::Late,
            (Seen::Start, Some(_)) => true,
            // Only some ranks print iterations, and it may be others that print the start.
            (Seen::Start, None) => run.is_past(seen),
            // No training restarts within the same instant: it is an older line told again.
            (Seen::Iteration(now), Some(last)) if now < last && at == own.last_at => {
                return Decision::Late;
            }
            (Seen::Iteration(now), Some(last)) => now < last,
            (Seen::Iteration(_), None) => run.is_past(seen) && run.is_silent(at),
        },
        None => run.is_past(seen) && run.is_silent(at),
    };
    if anew { Decision::Open } else { Decision::Join }
}

/// The latest runs of one workload, and how far each reporter is in them.
#[derive(Clone, Debug, Default)]
pub struct History {
    runs: Vec<Run>,
    reporters: HashMap<String, Vec<(i64, Progress)>>,
    touched: BTreeSet<i64>,
    touched_reporters: BTreeSet<(i64, String)>,
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
    /// A history from stored runs, in any order, and `(serial, reporter, progress)`.
    pub fn new(
        mut runs: Vec<Run>,
        reporters: impl IntoIterator<Item = (i64, String, Progress)>,
    ) -> History {
        runs.sort_by_key(|run| run.serial);
        let mut history = History { runs, ..History::default() };
        for (serial, name, progress) in reporters {
            history.reporters.entry(name).or_default().push((serial, progress));
        }
        history
    }

    /// The runs, oldest first.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The runs that sightings were assigned to since this history was made.
    pub fn touched(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| self.touched.contains(&run.serial))
    }

    /// The reporters: `(serial, reporter, progress)`.
    pub fn reporters(&self) -> impl Iterator<Item = (i64, &str, Progress)> {
        self.reporters.iter().flat_map(|(name, runs)| {
            runs.iter().map(move |(serial, progress)| (*serial, name.as_str(), *progress))
        })
    }

    /// Those of the reporters whose progress changed since this history was made.
    pub fn touched_reporters(&self) -> impl Iterator<Item = (i64, &str, Progress)> {
        self.touched_reporters.iter().filter_map(|(serial, name)| {
            Some((*serial, name.as_str(), *self.progress(*serial, name)?))
        })
    }

    fn progress(&self, serial: i64, reporter: &str) -> Option<&Progress> {
        let runs = self.reporters.get(reporter)?;
        runs.iter().find(|(known, _)| *known == serial).map(|(_, progress)| progress)
    }

    /// The newest time known of a reporter in the current run, or else of the run.
    pub fn last_at(&self, reporter: &str) -> Option<i64> {
        let run = self.runs.last()?;
        Some(self.progress(run.serial, reporter).map_or(run.last_at, |own| own.last_at))
    }

    /// Assigns a sighting to a run and remembers it.
    pub fn assign(&mut self, reporter: &str, at: i64, seen: Seen) -> Assigned {
        let current = self.runs.last();
        let serial = current.map_or(0, |run| run.serial);
        let decision = decide(current, self.progress(serial, reporter), at, seen);
        let index = match decision {
            Decision::Join => self.runs.len() - 1,
            Decision::Late => self.of_its_time(reporter, at, seen),
            Decision::Open => {
                // A training that restarts goes on to print as often as before.
                let line_interval = current.and_then(|run| run.line_interval);
                self.runs.push(Run {
                    serial: serial + 1,
                    started_at: at,
                    last_at: at,
                    line_interval,
                    ..Run::default()
                });
                self.runs.len() - 1
            }
        };
        self.note(index, reporter, at, seen);
        Assigned { serial: self.runs[index].serial, opened: decision == Decision::Open }
    }

    /// The place of the run that was current at this time. By a clock that is behind the others' a
    /// restart lies before the run it opened, but after what the same clock says of the run before.
    fn of_its_time(&self, reporter: &str, at: i64, seen: Seen) -> usize {
        let index = self.runs.iter().rposition(|run| run.started_at <= at).unwrap_or(0);
        let own = self.progress(self.runs[index].serial, reporter);
        let restarted = own.filter(|own| own.last_at < at).is_some_and(|own| match seen {
            Seen::Start => own.last_iteration.is_some(),
            Seen::Iteration(iteration) => own.last_iteration.is_some_and(|last| iteration < last),
        });
        if restarted { (index + 1).min(self.runs.len() - 1) } else { index }
    }

    fn note(&mut self, index: usize, reporter: &str, at: i64, seen: Seen) {
        let run = &mut self.runs[index];
        self.touched.insert(run.serial);
        self.touched_reporters.insert((run.serial, reporter.to_owned()));
        run.last_at = run.last_at.max(at);
        run.started_at = run.started_at.min(at);
        let known = self.reporters.entry(reporter.to_owned()).or_default();
        let place = known.iter().position(|(serial, _)| *serial == run.serial);
        let place = place.unwrap_or_else(|| {
            let progress = Progress { last_iteration: None, last_at: at, start_at: None };
            known.push((run.serial, progress));
            known.len() - 1
        });
        let own = &mut known[place].1;
        match seen {
            Seen::Start => own.start_at = own.start_at.max(Some(at)),
            Seen::Iteration(iteration) => {
                if own.last_iteration.is_some_and(|last| last < iteration) && own.last_at < at {
                    run.line_interval = Some(at.saturating_sub(own.last_at));
                }
                own.last_iteration = own.last_iteration.max(Some(iteration));
                run.first_iteration =
                    Some(run.first_iteration.map_or(iteration, |first| first.min(iteration)));
                run.last_iteration = run.last_iteration.max(Some(iteration));
            }
        }
        own.last_at = own.last_at.max(at);
    }
}
