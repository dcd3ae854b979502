//! Recordings into verdicts: who slowed whom, by how much, how sure that is, and what could not be told.
//!
//! [`analyze`] reads every run of a recording once, in the order of its slots, and hands them to the core in
//! `crosstalk-interference`. What is kept meanwhile is two seconds of rows and the core's own bins, so memory does
//! not grow with the length of a recording. A file that cannot be read is named and the rest is analysed.
//! [`Progress`] is a workload's own account of what it got done, the best signal after hardware counters;
//! [`html`] makes a page of it all.
//!
//! It draws no conclusion of its own, and never says anything of a run without tasks.

mod ahead;
mod brief;
mod close_up;
mod conclude;
mod decode;
mod gathered;
mod gauge;
pub mod html;
mod in_slots;
mod machine;
mod ordered;
mod pass;
pub mod perfetto;
mod picture;
mod progress;
mod report;
mod retold;
mod runs;
mod spans;
mod subjects;
mod tasks;
mod time;
mod timeline;
mod training;
mod waiting;

pub use close_up::{CloseUp, CoreLane};
pub use gathered::{Asked, Gather, OwnQuota, Statistic, Take, analyze_gathered};
pub use picture::{Distribution, Lane, Picture};
pub use progress::{Progress, ProgressError};
pub use report::{Evidence, NamedVerdict, Report, RunReport, SmallLosses, Unsaid};
pub use subjects::SubjectKind;
pub use training::{Cause, SlowIteration, TrainingReport};

use crate::gauge::Gauge;
use crate::runs::{RunFiles, overlaps};
use crosstalk_interference::{Observer, Subject};
use crosstalk_recording::{Error, Reader};
use std::ops::Range;

/// What is asked of a recording.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Who victims and aggressors are.
    pub subject: SubjectKind,
    /// Only slots that begin in this time, Unix nanoseconds.
    pub time: Option<Range<u64>>,
    /// What workloads say about their own progress.
    pub progress: Vec<Progress>,
    /// Whether to keep what a report draws.
    pub pictures: bool,
}

/// How far reading has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Rows of tasks.
    pub rows: u64,
    /// Bytes of their files, estimated within a file.
    pub bytes: u64,
    /// Bytes there are.
    pub total_bytes: u64,
}

/// Reads recordings at `places` (folders, files, object stores) and says who slowed whom. `tell` is told how far it
/// has come.
///
/// # Errors
/// There is no recording at one of the places.
pub fn analyze(
    places: &[String],
    question: &Question,
    tell: impl FnMut(Read),
) -> Result<Report, Error> {
    analyze_with(places, question, tell, &mut |_, _| {})
}

/// Shown the statistics of a run before its verdicts, and how its subjects are called: for other rules on the same data.
pub type Look<'a> = &'a mut dyn FnMut(&Observer, &dyn Fn(Subject) -> String);

/// The same, with a look at the statistics of every run.
///
/// # Errors
/// There is no recording at one of the places.
pub fn analyze_with(
    places: &[String],
    question: &Question,
    mut tell: impl FnMut(Read),
    look: Look<'_>,
) -> Result<Report, Error> {
    let reader = Reader::open(distinct(places))?;
    let files = RunFiles::find(&reader);
    let mut gauge = Gauge::new(files.bytes());
    let mut report = Report { unread: files.unread.clone(), ..Report::default() };
    let mut spans = Vec::new();
    let mut seen: Vec<Vec<training::Seen>> = question.progress.iter().map(|_| vec![]).collect();
    let mut refused: Vec<Option<String>> = question.progress.iter().map(|_| None).collect();
    let mut used = vec![false; question.progress.len()];
    for key in files.keys() {
        let passed = pass::run(&files, &key, question, &mut gauge, &mut tell, look);
        let run = passed.report;
        report.unread.extend(run.unread.iter().cloned());
        if run.rows == 0 {
            if run.unread.is_empty() {
                let name = format!("node {}, run {}", key.node, key.run);
                report.unread.push(format!("{name}: no rows in the time asked for"));
            }
            continue;
        }
        for (at, progress) in passed.progress.into_iter().enumerate() {
            match progress {
                Ok(iterations) => {
                    used[at] = true;
                    seen[at].extend(iterations);
                }
                Err(why) => refused[at] = Some(why),
            }
        }
        spans.push((key, run.from_ns, run.to_ns));
        report.runs.push(run);
    }
    let same_time = overlaps(&files, &spans);
    for ((key, ..), run) in spans.iter().zip(&mut report.runs) {
        run.caveats.extend(same_time.get(key).cloned());
    }
    for (at, progress) in question.progress.iter().enumerate() {
        if let (false, Some(why)) = (used[at], &refused[at]) {
            report.unread.push(format!("{}: {why}", progress.path));
        } else if used[at] && !progress.iterations.is_empty() {
            report.training.push(training::explain(progress, &seen[at]));
        }
    }
    if files.keys().is_empty() {
        let found = reader.datasets().join(", ");
        report.unread.push(format!(
            "{}: no data set tasks, only {found}: verdicts need who ran when, which crosstalk record writes",
            places.join(", ")
        ));
    }
    report.unread.dedup();
    Ok(report)
}

/// The places without repetition, however they are spelled.
fn distinct(places: &[String]) -> Vec<&String> {
    let mut known = Vec::new();
    let is_new = |place: &&String| {
        let real = std::fs::canonicalize(place).unwrap_or_else(|_| place.into());
        let is_new = !known.contains(&real);
        known.push(real);
        is_new
    };
    places.iter().filter(is_new).collect()
}
