use crate::{Subject, Way};

/// How much of a neighbour a victim had beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exposure {
    /// The neighbour.
    pub subject: Subject,
    /// What they share.
    pub way: Way,
    /// Cores the neighbour kept busy while the victim ran: sum over slots of the victim's time in the slot,
    /// times the neighbour's share of the slot on other cores, over the victim's time.
    pub cores: f32,
}

/// How long a neighbour held the core a victim waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// The neighbour.
    pub subject: Subject,
    /// The best estimate.
    pub ns: f32,
    /// At least.
    pub low_ns: f32,
    /// At most.
    pub high_ns: f32,
}

/// One victim in one bin: all that verdicts are made from.
///
/// A query engine can make these from recordings as well as [`crate::Observer`] does.
#[derive(Clone, Debug, PartialEq)]
pub struct Bin {
    /// Start, Unix nanoseconds.
    pub start_ns: u64,
    /// Time on cores.
    pub on_cpu_ns: f64,
    /// Times it blocked by itself.
    pub voluntary_switches: f64,
    /// Counters, where they were read.
    pub counted: Option<Counted>,
    /// Units of work it says it finished.
    pub progress: Option<f64>,
    /// Share of time stolen on its cores.
    pub stolen: Option<f64>,
    /// Mean frequency while it ran.
    pub freq_mhz: Option<f64>,
    /// Time waited for a core, less its own throttling.
    pub wait_ns: f64,
    /// Mean of the logarithms of the probe's costs; only the probe's bins have it.
    pub(crate) probe: Option<f64>,
    /// Neighbours beside it, its own other threads among them.
    pub exposures: Box<[Exposure]>,
    /// Who held the core while it waited.
    pub held: Box<[Held]>,
}

impl Bin {
    /// Work of the victim's own counting: from a start, some time, and the units that were finished in it. For whoever
    /// knows steps of work, such as the iterations of a training run, and who was beside them.
    pub fn of_work(start_ns: u64, time_ns: f64, units: f64, exposures: Vec<Exposure>) -> Self {
        Self {
            start_ns,
            on_cpu_ns: time_ns,
            voluntary_switches: 0.0,
            counted: None,
            progress: Some(units),
            stolen: None,
            freq_mhz: None,
            wait_ns: 0.0,
            probe: None,
            exposures: exposures.into_boxed_slice(),
            held: Box::default(),
        }
    }
}

/// Sums of counters over the rows that have them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    /// CPU cycles.
    pub cycles: f64,
    /// Retired instructions.
    pub instructions: f64,
    /// Time on cores in those rows.
    pub on_cpu_ns: f64,
    /// Last-level-cache misses, if every row has them.
    pub llc_misses: Option<f64>,
}
