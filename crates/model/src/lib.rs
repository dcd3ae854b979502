//! The words of Crosstalk as types: slots, subjects, readings and the columns of every data set.
//!
//! This crate does no I/O and knows neither the kernel nor a file format. Sources produce its
//! readings, consumers take them, and both agree here on names, units and what "absent" means.

mod cache;
mod column;
mod comm;
mod coverage;
mod probe;
mod slot;
mod subject;
mod task;

pub use cache::{CacheReading, CacheScope, CacheState};
pub use column::{Column, Dataset, Kind};
pub use comm::Comm;
pub use coverage::SlotCoverage;
pub use probe::{ProbeBlindness, ProbeReading, ProbeState};
pub use slot::{SlotLength, SlotLengthError};
pub use subject::{Placement, ProcessId};
pub use task::TaskReading;
