use crate::scheduler::Loss;
use std::time::Duration;

/// What is going on between a victim and an aggressor.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    /// Looks in a row that showed a loss.
    pub(super) in_a_row: u32,
    /// Levers that were tried, or that cannot help here.
    pub(super) tried: Vec<usize>,
    pub(super) state: State,
}

#[derive(Clone, Debug, Default)]
pub(super) enum State {
    /// Nothing is done, or what was done is taken back.
    #[default]
    Suspected,
    /// A lever is pulled and not judged yet.
    Trying(Trial),
    /// It helped. It did not at so many looks in a row since.
    Kept(Trial, u32),
    /// Nothing helps.
    GaveUp,
}

/// A lever that is pulled.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) lever: usize,
    pub(super) since: Duration,
    /// The same, Unix nanoseconds.
    pub(super) since_ns: u64,
    /// How fast the victim was.
    pub(super) before: f64,
    /// How fast it would be with nobody in its way.
    pub(super) expected: f64,
    pub(super) loss: Loss,
}

impl Trial {
    /// What of its loss the victim has won back.
    pub(super) fn recovered(&self, after: f64) -> f64 {
        (after - self.before) / (self.expected - self.before).max(f64::MIN_POSITIVE)
    }
}

impl Case {
    /// The lever that is pulled now.
    pub(super) fn pulled(&self) -> Option<usize> {
        match &self.state {
            State::Trying(trial) | State::Kept(trial, _) => Some(trial.lever),
            State::Suspected | State::GaveUp => None,
        }
    }
}
