//! How right verdicts are, where the truth is known; for tests and for the accuracy page only.
//!
//! [`simulated`] has scenarios of every [`Kind`] from the contention model, judged in memory; [`real`] has trials of the
//! built-in workloads on this machine, the truth by their own schedule and progress. A [`Score`] is precision, recall,
//! error and intervals, ours beside CPI2's rule and PRM's fences on the same data, and [`page`] writes it all down.

mod kind;
pub mod page;
pub mod real;
mod score;
pub mod simulated;

pub use kind::Kind;
pub use score::{Rival, Score, share};
