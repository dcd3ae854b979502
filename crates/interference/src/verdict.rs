use crate::Subject;

/// Through what a victim lost time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The neighbour drives the victim's data out of a shared cache: misses rise with it.
    Cache,
    /// Memory answers more slowly: cost rises without more misses, or the probe slows as well.
    MemoryBandwidth,
    /// Cache or memory; nothing measured tells which.
    CacheOrMemory,
    /// The neighbour held the core that the victim waited for.
    CpuTime,
    /// The core ran at a lower frequency.
    Frequency,
    /// The neighbour ran on the other hardware thread of the victim's core.
    SiblingThread,
}

impl Resource {
    /// As it stands in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::MemoryBandwidth => "memory bandwidth",
            Self::CacheOrMemory => "cache or memory",
            Self::CpuTime => "cpu time",
            Self::Frequency => "frequency",
            Self::SiblingThread => "sibling hyper-thread",
        }
    }
}

/// By what the victim's loss was measured, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Signal {
    /// Cycles per instruction.
    CyclesPerInstruction,
    /// Time on the core per unit of work, as the victim itself counts it.
    Progress,
    /// Time on the core per voluntary switch.
    TimePerWakeup,
    /// Cycles per nanosecond.
    Frequency,
    /// Waiting for a core.
    RunQueueWait,
}

impl Signal {
    /// As it stands in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CyclesPerInstruction => "cycles per instruction",
            Self::Progress => "progress",
            Self::TimePerWakeup => "time per wake-up",
            Self::Frequency => "frequency",
            Self::RunQueueWait => "run-queue wait",
        }
    }
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Bins that were compared.
    pub bins: usize,
    /// Mean exposure in cores over them; of CPU time, seconds waited.
    pub exposure: f64,
    /// Rise of the logarithm of cost for one core of exposure.
    pub effect_per_core: f64,
    /// The effect over its standard error.
    pub t: f64,
    /// The same for misses per instruction.
    pub misses_t: Option<f64>,
    /// The same for the cost of the memory probe.
    pub probe_t: Option<f64>,
}

/// A victim lost time to somebody.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Who lost.
    pub victim: Subject,
    /// To whom: one, or several that cannot be told apart.
    pub aggressors: Vec<Subject>,
    /// The aggressor was beside the victim from here, Unix nanoseconds.
    pub from_ns: u64,
    /// Until here.
    pub to_ns: u64,
    /// Share of the victim's time between the two that it would not have needed.
    pub slowdown: f64,
    /// Lower end of the 95 % interval of `slowdown`.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Time lost in all.
    pub lost_seconds: f64,
    /// Through what.
    pub resource: Resource,
    /// By which signal.
    pub signal: Signal,
    /// Probability that the effect is none of chance's, after counting how many pairs were looked at.
    pub confidence: f64,
    /// What it rests on.
    pub evidence: Evidence,
}

/// Why nothing can be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Because {
    /// Too few bins in which the victim did measurable work.
    TooShort,
    /// Nothing measured says what a unit of the victim's work costs.
    NoSignal,
    /// The same, but the probe says that these neighbours make memory slow for anybody: by how much they slow this
    /// victim is not known.
    OnlyProbe,
    /// The neighbours were never at rest, or never changed: there is nothing to compare with.
    NeverQuiet,
    /// No neighbour ran beside it long enough.
    ExposureTooSmall,
    /// Neighbours rise and fall so much alike that neither one nor their sum stands out.
    Collinear,
}

impl Because {
    /// The reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::TooShort => "too short: too few bins in which it did measurable work",
            Self::NoSignal => "no signal: no counters, no progress, and it hardly ever sleeps",
            Self::OnlyProbe => {
                "only the probe tells: memory answers more slowly beside these neighbours, but nothing of its own says by \
                 how much that slows it (no counters, no progress, and it hardly ever sleeps)"
            }
            Self::NeverQuiet => "never quiet: the neighbours ran alike throughout",
            Self::ExposureTooSmall => "exposure too small: hardly anybody ran beside it",
            Self::Collinear => "collinear: neighbours cannot be told apart",
        }
    }
}

/// A victim, or a victim and some neighbours, of whom nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannotTell {
    /// Who might have lost.
    pub victim: Subject,
    /// The neighbours in question; empty when it is all of them.
    pub neighbours: Vec<Subject>,
    /// Why.
    pub because: Because,
}

/// Everything that was concluded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Losses with a culprit, greatest first.
    pub verdicts: Vec<Verdict>,
    /// What could not be judged.
    pub cannot_tell: Vec<CannotTell>,
}
