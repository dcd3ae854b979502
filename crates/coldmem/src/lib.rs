//! Cold memory: how much of what counts as used is really used.
//!
//! Page cache counts as used although most of it may be idle, or as free although some of it is hot. This
//! crate tells how long memory has been idle, for the node and every cgroup, and what is used when only
//! the hot part counts ([`Policy`]).
//!
//! Data sets: coldmem (ages) and memory (usage). Ages come from one of four back ends ([`Backend`]), which [`probe`] looks for: kidled of Alibaba's and
//! Anolis' kernels, DAMON, MGLRU, and, where none of these is there, bounds: what at most can be cold,
//! from `memory.stat`. A bound is never taken for a measurement.
//!
//! # What it never does
//! It reclaims nothing, touches no DAMON set-up of somebody else, and changes nothing at all unless DAMON or the
//! ageing of MGLRU is asked for.

mod advice;
mod age;
mod backend;
mod charged;
pub mod damon;
mod kidled;
pub mod mglru;
mod own;
mod policy;
mod row;
mod show;
mod source;
mod survey;
mod surveyor;
mod usage_row;

pub use advice::{Advice, advise};
pub use age::{AgeCell, Ages, ColdBoundary, Kind, UnknownKind};
pub use backend::{Backend, Probed, UnknownBackend, WarmUp, probe};
pub use charged::{MemoryStat, NodeMemory};
pub use kidled::{IdleFile, IdleFileError, IdleInfo, IdleInfoError, IdleRow, Problem};
pub use policy::{Charged, Policy, UnknownPolicy, Usage, remainder};
pub use row::ColdRow;
pub use show::{ShowError, Shown, show};
pub use source::{ABOUT, ColdSource, PlaceOf};
pub use survey::{Group, Survey};
pub use surveyor::{Choice, Surveyor};
pub use usage_row::{UsageRow, system_usage};
