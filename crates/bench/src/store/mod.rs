//! What a run leaves on disk: a folder with what it was, what happened, and everything that was measured.

mod events;
mod passwords;
mod run_dir;

pub use events::{Event, EventKind, EventLog, OddEnd, odd_ends, read_events};
pub use run_dir::{Machine, Outcome, RanContainer, RanRound, RunDir, RunRecord, RunStore};
