//! Trials on this machine: built-in victims and neighbours on and off by a schedule, the truth by that schedule.

mod outcome;
mod plan;
mod tally;
mod truth;

pub use outcome::{NamedPair, Outcome, PairOutcome, ProbeCounts, Said};
pub use plan::{Plan, PlannedLoad};
pub use tally::{LEAST_GUILT, MUST_FIND, Tally};
pub use truth::{Diary, Effect, effect};
