//! A training run's slow iterations: who was active beside the trainer then, on which node, and how much of what the
//! iteration took too long that explains.

mod beside;
mod explain;

pub(crate) use beside::{Beside, Sum};
pub(crate) use explain::{Seen, explain};

use serde::Serialize;

/// A training run, and what made its slow iterations slow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrainingReport {
    /// The file its iterations come from.
    pub file: String,
    /// Who trains.
    pub trainer: String,
    /// Nodes whose recordings the trainer is in.
    pub nodes: Vec<String>,
    /// Lines about iterations.
    pub iterations: usize,
    /// Those that a recording covers.
    pub covered: usize,
    /// How long one usually takes.
    pub median_seconds: f64,
    /// From here on one is slow.
    pub slow_from_seconds: f64,
    /// How many were slow.
    pub slow: usize,
    /// What the slow ones took longer than usual, in all.
    pub excess_seconds: f64,
    /// Who made them slow, over all slow ones, the greatest first.
    pub causes: Vec<Cause>,
    /// The slow ones, the slowest first; at most 1000.
    pub slowest: Vec<SlowIteration>,
    /// What could not be told, and why.
    pub cannot_tell: Vec<String>,
    /// Every iteration for a picture: when it ended and how long one took; thinned to 2000.
    #[serde(skip)]
    pub(crate) course: Vec<(u64, f64)>,
}

/// An iteration that took too long.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowIteration {
    /// Its number; the last, where a line tells of several.
    pub iteration: u64,
    /// From here, Unix nanoseconds.
    pub from_ns: u64,
    /// To here.
    pub to_ns: u64,
    /// How long it took.
    pub seconds: f64,
    /// How much longer than usual.
    pub excess_seconds: f64,
    /// Who made it slow.
    pub causes: Vec<Cause>,
    /// Share of the excess that nobody here explains; absent where nothing can be told.
    pub unexplained: Option<f64>,
    /// Why nothing can be told.
    pub cannot_tell: Option<String>,
}

/// A neighbour that made iterations slow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// The node.
    pub node: String,
    /// The neighbour; several that cannot be told apart are joined by " + ".
    pub neighbour: String,
    /// Through what.
    pub resource: &'static str,
    /// By which signal its effect is known.
    pub signal: &'static str,
    /// Time it cost beyond what it usually costs.
    pub seconds: f64,
    /// Share of the excess.
    pub share: f64,
    /// Lower end of the 95 % interval of the share.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}
