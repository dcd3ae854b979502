//! Recordings into verdicts: who slowed whom, by how much, how sure that is, and what could not be told.
//!
//! [`analyze`] reads every run of a recording once, in the order of its slots, and hands them to the core in
//! `crosstalk-interference`. What is kept meanwhile is two seconds of rows and the core's own bins, so memory does
//! not grow with the length of a recording. A file that cannot be read is named and the rest is analysed.
//!
//! It draws no conclusion of its own, and never says anything of a run without tasks.

mod ordered;
mod pass;
mod report;
mod subjects;
mod waiting;

pub use report::{Report, RunReport, Told, Unsaid};
pub use subjects::SubjectKind;

use crosstalk_interference::{Observer, Subject};
use crosstalk_recording::{Error, Reader};
use std::collections::BTreeSet;
use std::ops::Range;

/// What is asked of a recording.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Who victims and aggressors are.
    pub subject: SubjectKind,
    /// Only slots that begin in this time, Unix nanoseconds.
    pub time: Option<Range<u64>>,
}

/// Reads recordings at `places` (folders, files, object stores) and says who slowed whom. `progress` is told the rows
/// read so far.
///
/// # Errors
/// There is no recording at one of the places.
pub fn analyze(
    places: &[String],
    question: &Question,
    progress: impl FnMut(u64),
) -> Result<Report, Error> {
    analyze_with(places, question, progress, &mut |_, _| {})
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
    mut progress: impl FnMut(u64),
    look: Look<'_>,
) -> Result<Report, Error> {
    let reader = Reader::open(places)?;
    let tasks = reader.scan("tasks");
    let runs: BTreeSet<(String, String)> =
        tasks.chosen().iter().map(|file| (file.node.clone(), file.run.clone())).collect();
    let mut report = Report::default();
    let mut rows = 0;
    for (node, run) in runs {
        let told = pass::run(
            &reader,
            (&node, &run),
            question,
            &mut |more| {
                rows += more;
                progress(rows);
            },
            look,
        );
        report.unread.extend(told.unread.iter().cloned());
        report.runs.push(told);
    }
    if report.runs.is_empty() {
        report.unread.push("no data set tasks: record with crosstalk record".to_owned());
    }
    report.unread.dedup();
    Ok(report)
}
