use super::truth::Effect;
use serde::{Deserialize, Serialize};

/// What came of one trial: a line of the results file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Which trial.
    pub number: u64,
    /// What fixed it.
    pub seed: u64,
    /// Where it was recorded.
    #[serde(default)]
    pub machine: String,
    /// Which build judged it: outcomes of different ones are not mixed.
    #[serde(default)]
    pub build: String,
    /// Seconds recorded.
    pub seconds: f64,
    /// Rows of tasks recorded.
    pub rows: u64,
    /// Every victim with every neighbour whose truth is known.
    pub pairs: Vec<PairOutcome>,
    /// Verdicts on the trial's victims that name somebody who is no part of it.
    pub strangers: Vec<Said>,
    /// Verdicts on others than the trial's victims, of which the truth is not known.
    pub beyond: usize,
    /// Pairs that CPI2's rule named.
    pub cpi2: Vec<NamedPair>,
    /// Pairs that PRM's fences named.
    pub fences: Vec<NamedPair>,
    /// What the probe said against the schedule of those who take memory.
    pub probe: ProbeCounts,
    /// Why nothing could be said of the trial's victims.
    pub cannot_tell: Vec<String>,
    /// Share of the recording's time that the hypervisor stole from the machine.
    pub stolen: Option<f64>,
}

/// A victim and a neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairOutcome {
    /// Such as `chase 32 MiB`.
    pub victim: String,
    /// Such as `stream`.
    pub neighbour: String,
    /// Both are on one core: they cannot run side by side.
    pub same_core: bool,
    /// The truth over the verdict's time, or over all of it.
    pub truth: Effect,
    /// The verdict through cache or memory, if there is one.
    pub said: Option<Said>,
    /// The verdict on waiting for the core, if there is one.
    pub waited: Option<Said>,
    /// CPI2's rule names them.
    pub cpi2: bool,
    /// PRM's fences name them.
    pub fences: bool,
}

/// A verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// To whom, as it was told.
    pub aggressor: String,
    /// Neighbours named with this one, because they cannot be told apart.
    pub group: usize,
    /// Share of the victim's time.
    pub slowdown: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Through what.
    pub resource: String,
    /// By what.
    pub signal: String,
}

/// A pair that a rival named, by the trial's words; others are `stranger`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedPair {
    /// Who suffers.
    pub victim: String,
    /// Who is said to cause it.
    pub neighbour: String,
}

/// Verdicts of the probe, by what was on in the second before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeCounts {
    /// Contended, and a stream or thrash was on.
    pub contended_on: u64,
    /// Contended, and none was.
    pub contended_off: u64,
    /// Quiet, though one was on.
    pub quiet_on: u64,
    /// Quiet, and none was.
    pub quiet_off: u64,
    /// It could not say.
    pub unknown: u64,
}
