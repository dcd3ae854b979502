//! What a scheduler sees.

use crate::roster::Member;
use crosstalk_interference::{Resource, Signal};
use std::collections::BTreeMap;

/// A container that is slowed by others, as the last seconds show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowed {
    /// Whose loss it is, by index.
    pub victim: u32,
    /// Who causes it, by index; several that cannot be told apart.
    pub aggressors: Vec<u32>,
    /// Share of the victim's time that is lost.
    pub slowdown: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Through what.
    pub resource: Resource,
    /// By which signal.
    pub signal: Signal,
    /// Probability that it is none of chance's.
    pub confidence: f64,
}

/// Sums of a container since it started; their differences are what it did in between.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vitals {
    /// Up to here, Unix nanoseconds.
    pub at_ns: u64,
    /// Time on a core.
    pub on_cpu_ns: u64,
    /// Time waited for one.
    pub wait_ns: u64,
    /// Times it blocked by itself.
    pub wakeups: u64,
    /// Cycles, where they are counted.
    pub cycles: u64,
    /// Instructions, where they are counted.
    pub instructions: u64,
    /// What it says it got done, and when it said so.
    pub done: Option<(u64, f64)>,
}

/// Everything a scheduler knows at a time.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Who runs.
    pub running: Vec<Member>,
    /// Who is slowed.
    pub slowed: Vec<Slowed>,
    /// How everybody fares, by index.
    pub vitals: BTreeMap<u32, Vitals>,
}

impl Vitals {
    /// How fast it was between `before` and now, in a unit that only compares with itself: by its own account, else by
    /// the signal that a loss was seen by. `None` when the time between tells nothing.
    pub fn speed_since(&self, before: &Self, signal: Signal) -> Option<f64> {
        if let (Some((then_ns, then)), Some((now_ns, now))) = (before.done, self.done) {
            let seconds = now_ns.checked_sub(then_ns)? as f64 / 1e9;
            return (seconds > 0.0).then(|| (now - then) / seconds);
        }
        let grown = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let on_cpu = grown(self.on_cpu_ns, before.on_cpu_ns);
        let ratio = |part: f64, whole: f64| (whole > 0.0 && part > 0.0).then(|| part / whole);
        match signal {
            Signal::RunQueueWait => ratio(on_cpu, on_cpu + grown(self.wait_ns, before.wait_ns)),
            Signal::CyclesPerInstruction => ratio(
                grown(self.instructions, before.instructions),
                grown(self.cycles, before.cycles),
            ),
            Signal::Frequency => ratio(grown(self.cycles, before.cycles), on_cpu),
            Signal::TimePerWakeup | Signal::Progress => {
                ratio(grown(self.wakeups, before.wakeups), on_cpu)
            }
        }
    }
}
