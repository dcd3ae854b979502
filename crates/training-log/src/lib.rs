//! Reads training performance out of log lines: iteration, loss, throughput, memory and the rest,
//! whichever trainer printed them.
//!
//! A line is split into fields and each field is looked up by its name, so a field that is missing,
//! extra or in another place costs that field and not the line. [`Parser`] does that; [`Stream`] puts
//! together what stands on several lines; [`explain`] shows it for a whole file; [`timestamp`] reads the times that log shippers send.
//!
//! This crate never does I/O but for [`explain`]'s reader and writer, never panics on any line,
//! never makes up a value: what a line does not say is absent.

mod alias;
mod ansi;
mod assemble;
mod context;
mod explain;
mod format;
mod key;
mod metric;
mod number;
mod parser;
mod pattern;
mod performance;
mod scan;
mod spelling;
mod stream;
pub mod timestamp;
mod unit;

pub use explain::{Explanation, Style, Summary, explain};
pub use format::Format;
pub use metric::Metric;
pub use parser::{MAX_LINE, Outcome, Parser, Reason};
pub use pattern::Pattern;
pub use performance::{Anomaly, MAX_EXTRA_FIELDS, Performance};
pub use stream::Stream;

/// What can be wrong with what a caller hands in.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The expression of a pattern cannot be read.
    #[error("log pattern {name:?}: {source}")]
    Expression {
        /// The pattern's name.
        name: String,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
    /// The pattern has no group for the iteration.
    #[error(
        "log pattern {name:?}: no group gives the iteration; name one (?P<current_iteration>...)"
    )]
    NoIterationGroup {
        /// The pattern's name.
        name: String,
    },
    /// The pattern has nothing but an iteration.
    #[error(
        "log pattern {name:?}: no named group besides the iteration; name one, such as (?P<lm_loss>...)"
    )]
    NoMetricGroup {
        /// The pattern's name.
        name: String,
    },
    /// The text is not a time.
    #[error("{text:?} is not a time: {why}")]
    Time {
        /// The text, cut short if it is long.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
}
