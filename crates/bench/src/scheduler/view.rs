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
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Time it wanted a core, and had one or waited, as far as it was split among those it waited for.
    pub wanted_ns: f64,
    /// Of that, the time each other container held the core it waited for, by index.
    pub waited_for: BTreeMap<u32, f64>,
    /// What it says it got done, and when it said so.
    pub done: Option<(u64, f64)>,
    /// Bytes it moved to and from memory, by L3 cache; empty where that is not measured.
    pub moved: BTreeMap<u32, u64>,
    /// In how much time it did.
    pub moved_ns: u64,
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

/// What of its loss to one aggressor a victim may have won back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Who causes it, by index.
    pub aggressor: u32,
    /// The signal it was seen by.
    pub signal: Signal,
}

/// Less than this of wanted time tells nothing.
const LEAST_WANTED_NS: f64 = 2e8;

impl Vitals {
    /// Bytes it has moved to and from memory in a second since `before`, by L3 cache; empty where that is not known.
    pub fn traffic_since(&self, before: &Self) -> BTreeMap<u32, f64> {
        let seconds = self.moved_ns.saturating_sub(before.moved_ns) as f64 / 1e9;
        let then = |cache: &u32| before.moved.get(cache).copied().unwrap_or(0);
        let rate = |(cache, bytes): (&u32, &u64)| {
            (*cache, bytes.saturating_sub(then(cache)) as f64 / seconds)
        };
        self.moved.iter().filter(|_| seconds > 0.0).map(rate).collect()
    }

    /// How fast it was between `before` and now as far as the aggressor matters, in a unit that only compares with
    /// itself. `None` when the time between tells nothing.
    ///
    /// A loss of processor time is measured whole: what the aggressor held of the time that was wanted. So neither
    /// strangers that come to the core nor the victim's own phases are taken for the aggressor's. Any other loss makes
    /// work dearer: then it is what the victim says it got done, else the signal, for the time it had a core.
    pub fn speed_since(&self, before: &Self, loss: Loss) -> Option<f64> {
        if loss.signal == Signal::RunQueueWait {
            let wanted = self.wanted_ns - before.wanted_ns;
            let of = |vitals: &Self| vitals.waited_for.get(&loss.aggressor).copied().unwrap_or(0.0);
            let held = (of(self) - of(before)).max(0.0);
            return (wanted >= LEAST_WANTED_NS).then(|| (1.0 - held / wanted).max(0.0));
        }
        let grown = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let on_cpu = grown(self.on_cpu_ns, before.on_cpu_ns);
        let ratio = |part: f64, whole: f64| (whole > 0.0 && part > 0.0).then(|| part / whole);
        if let (Some((then_ns, then)), Some((now_ns, now))) = (before.done, self.done) {
            let seconds = now_ns.checked_sub(then_ns)? as f64 / 1e9;
            let had = ratio(on_cpu, on_cpu + grown(self.wait_ns, before.wait_ns))?;
            return (seconds > 0.0).then(|| (now - then) / seconds / had);
        }
        match loss.signal {
            Signal::RunQueueWait => None,
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
