//! The words of Crosstalk as types: slots, subjects, readings and the columns of every data set.
//!
//! This crate does no I/O and knows neither the kernel nor a file format. Sources produce its
//! readings, consumers take them, and both agree here on names, units and what "absent" means.

mod batch;
mod cache;
mod comm;
mod coverage;
mod dataset;
pub mod metric;
mod probe;
mod slot;
mod steal;
mod subject;
mod task;

pub use batch::{Batch, Table};
pub use cache::{CacheReading, CacheScope, CacheState};
pub use comm::Comm;
pub use coverage::SlotCoverage;
pub use dataset::{Column, Dataset, Int, Kind, Row, Texts, Values, finite};
pub use metric::{Metric, Total};
pub use probe::{ProbeBlindness, ProbeReading, ProbeState};
pub use slot::{SlotLength, SlotLengthError};
pub use steal::StealRow;
pub use subject::{Placement, ProcessId, SubjectKey, SubjectKind};
pub use task::{TaskReading, TaskRow};
