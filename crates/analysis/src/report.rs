use crate::picture::Picture;
use crate::training::TrainingReport;
use serde::{Deserialize, Serialize};

/// Everything that was concluded from recordings.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// One for each node and run.
    pub runs: Vec<RunReport>,
    /// Training runs whose iterations were given, and what made the slow ones slow.
    pub training: Vec<TrainingReport>,
    /// What could not be read, or not be used, and why.
    pub unread: Vec<String>,
    /// Whether an engine failed to gather what is known of a run: `unread` says why. Whoever gets the report from another
    /// program gets this as its exit code.
    #[serde(skip)]
    pub has_failed: bool,
}

impl Report {
    /// All verdicts, the greatest loss first.
    pub fn verdicts(&self) -> Vec<&NamedVerdict> {
        let mut all: Vec<&NamedVerdict> = self.runs.iter().flat_map(|run| &run.verdicts).collect();
        all.sort_by(|a, b| b.lost_seconds.total_cmp(&a.lost_seconds));
        all
    }

    /// Everybody of whom nothing can be said.
    pub fn cannot_tell(&self) -> Vec<&Unsaid> {
        self.runs.iter().flat_map(|run| &run.cannot_tell).collect()
    }

    /// Whether there was anything to judge by.
    pub fn is_from_nothing(&self) -> bool {
        self.runs.iter().all(|run| run.rows == 0)
    }
}

/// What was concluded from one run.
#[derive(Debug, Default, Serialize)]
pub struct RunReport {
    /// The node.
    pub node: String,
    /// The run.
    pub run: String,
    /// Rows of tasks read.
    pub rows: u64,
    /// Rows, of tasks and of what is read beside them, that came too late in their file to be placed.
    pub late_rows: u64,
    /// Slots with tasks.
    pub slots: u64,
    /// Slots with tasks in which rows had been lost, from which nothing is concluded.
    pub lossy_slots: u64,
    /// From the first slot, Unix nanoseconds.
    pub from_ns: u64,
    /// To the end of the last.
    pub to_ns: u64,
    /// Who lost time to whom.
    pub verdicts: Vec<NamedVerdict>,
    /// Losses too small to be told one by one.
    pub small_losses: SmallLosses,
    /// Of whom nothing can be said, and why.
    pub cannot_tell: Vec<Unsaid>,
    /// What whoever reads a verdict should know about the recording.
    pub caveats: Vec<String>,
    /// What a report draws, if one was asked for.
    #[serde(skip)]
    pub pictures: Vec<Picture>,
    /// What of it could not be read.
    #[serde(skip)]
    pub unread: Vec<String>,
}

impl RunReport {
    /// Its length.
    pub fn seconds(&self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }
}

/// Losses below a thousandth of a run's length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SmallLosses {
    /// Each below this.
    pub below_seconds: f64,
    /// How many.
    pub verdicts: usize,
    /// What they come to.
    pub lost_seconds: f64,
}

/// A verdict, by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedVerdict {
    /// Who lost.
    pub victim: String,
    /// To whom; several that cannot be told apart are joined by " + ".
    pub aggressor: String,
    /// The same one by one: a name may have any signs in it.
    pub aggressors: Vec<String>,
    /// From here, Unix nanoseconds.
    pub from_ns: u64,
    /// To here.
    pub to_ns: u64,
    /// Share of the victim's time that it would not have needed.
    pub slowdown: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Time lost in all.
    pub lost_seconds: f64,
    /// Through what.
    pub resource: &'static str,
    /// By which signal.
    pub signal: &'static str,
    /// What it rests on.
    pub evidence: Evidence,
    /// The node.
    pub node: String,
    /// The run.
    pub run: String,
    /// Probability that it is none of chance's.
    pub confidence: f64,
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Bins of 40 ms that were compared.
    pub bins: usize,
    /// Mean exposure in cores; of CPU time, seconds waited.
    pub exposure: f64,
    /// Rise of the logarithm of cost for one core of exposure.
    pub effect_per_core: f64,
    /// The effect over its standard error.
    pub t: f64,
    /// The same for misses per instruction, where they were counted.
    pub misses_t: Option<f64>,
    /// The same for the cost of the memory probe, where it ran.
    pub probe_t: Option<f64>,
}

/// Somebody of whom nothing can be said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unsaid {
    /// Who might have lost.
    pub victim: String,
    /// The neighbours in question; empty when it is all of them.
    pub neighbours: Vec<String>,
    /// Why.
    pub because: &'static str,
    /// The node.
    pub node: String,
    /// The run.
    pub run: String,
}
