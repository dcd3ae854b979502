//! The benchmark driver: experiments described in a file, run on schedule, recorded whole, judged, and mitigated.
//!
//! An [`Experiment`] is read with all its mistakes told at once. [`run`] makes everything ready, gives all
//! containers one common zero, starts and stops them on time, records every source of the pipeline meanwhile, and
//! leaves nothing behind but the run's folder: on success, failure and a signal, and after a kill -9 by [`clean`] or the
//! next start. [`result`] says what a run shows: how much slower each container was beside others than alone, and what
//! a mitigation won back.
//!
//! What can be added in one file each: a collector ([`collectors`]), a scheduler ([`scheduler`]), a lever of the
//! adaptive one ([`scheduler::levers`]), a runtime ([`runtime`]).
//!
//! It judges nothing by itself: who slows whom is said by `crosstalk-interference`, and what a workload got done by the
//! workload.

/// What the guide shows must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/bench.md")]
struct Guide;

mod clean;
pub mod collectors;
mod error;
pub mod experiment;
mod identity;
pub mod influx;
pub mod live;
pub mod plan;
pub mod result;
mod roster;
mod run;
pub mod runtime;
pub mod scheduler;
pub mod store;
mod watch;

pub use clean::{Cleaned, clean};
pub use error::Error;
pub use experiment::Experiment;
pub use identity::{Driver, PREFIX, Standing, Whose};
pub use roster::{Allocated, Allocation, Member, Roster, Stay, Used};
pub use run::{Options, run};
pub use watch::{Known, Watch};
