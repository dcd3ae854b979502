use serde::Serialize;
use std::collections::BTreeMap;

/// Through what time was really lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Lines driven out of the shared cache.
    Cache,
    /// The queue in front of memory.
    MemoryBandwidth,
    /// The clock that falls as cores wake.
    Frequency,
    /// The other thread of the core.
    SiblingThread,
    /// The core itself, held by somebody else.
    CpuTime,
    /// The core's own cache, cold after somebody else's turn.
    ColdCache,
}

/// What really happened to every task, by the tasks' numbers, over some time.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Seconds on a core.
    pub on_cpu_s: Vec<f64>,
    /// Seconds that the first lost to the second.
    pub lost_s: BTreeMap<(usize, usize, Cause), f64>,
}

impl Truth {
    pub(crate) fn new(tasks: usize) -> Self {
        Self { on_cpu_s: vec![0.0; tasks], lost_s: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, victim: usize, aggressor: usize, cause: Cause, ns: f64) {
        if ns != 0.0 {
            *self.lost_s.entry((victim, aggressor, cause)).or_default() += ns / 1e9;
        }
    }

    /// Adds what another stretch of time has.
    pub(crate) fn absorb(&mut self, other: Self) {
        for (sum, more) in self.on_cpu_s.iter_mut().zip(other.on_cpu_s) {
            *sum += more;
        }
        for (key, more) in other.lost_s {
            *self.lost_s.entry(key).or_default() += more;
        }
    }

    /// Seconds that work of the first took longer because of the second.
    #[must_use]
    pub fn dearer_s(&self, victim: usize, aggressor: usize) -> f64 {
        let of = |cause| self.lost_s.get(&(victim, aggressor, cause)).copied().unwrap_or(0.0);
        [Cause::Cache, Cause::MemoryBandwidth, Cause::Frequency, Cause::SiblingThread]
            .into_iter()
            .map(of)
            .sum()
    }

    /// Seconds that work of the first took longer because the core's own cache had gone cold in the second's turn.
    #[must_use]
    pub fn cold_s(&self, victim: usize, other: usize) -> f64 {
        self.lost_s.get(&(victim, other, Cause::ColdCache)).copied().unwrap_or(0.0)
    }

    /// Seconds that the first waited while the second held its core.
    #[must_use]
    pub fn waited_s(&self, victim: usize, holder: usize) -> f64 {
        self.lost_s.get(&(victim, holder, Cause::CpuTime)).copied().unwrap_or(0.0)
    }
}

/// A line of the labels: who lost how much to whom, through what, in which time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Label {
    /// The node.
    pub node: String,
    /// `window` for a stretch of time, `recording` for the whole.
    pub span: &'static str,
    /// From here, Unix nanoseconds.
    pub from_ns: u64,
    /// To here.
    pub to_ns: u64,
    /// Who lost.
    pub victim: String,
    /// Its process.
    pub victim_pid: u32,
    /// To whom.
    pub aggressor: String,
    /// Its process.
    pub aggressor_pid: u32,
    /// Through what.
    pub resource: Cause,
    /// Time lost.
    pub lost_seconds: f64,
    /// The victim's time on cores, and for `cpu_time` what it waited for them besides.
    pub victim_seconds: f64,
    /// The share of it that was lost.
    pub slowdown: f64,
}
