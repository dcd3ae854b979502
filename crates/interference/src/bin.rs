use crate::open_bin::MOST_EXPOSURES;
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

impl Exposure {
    /// What a bin lists of the time its victim had neighbours beside it: for each, or for everybody without a seat
    /// (`None`), the victim's time multiplied by their cores. Beyond what a bin holds, the least are summed.
    pub fn list(
        beside: impl IntoIterator<Item = (Option<Subject>, Way, f64)>,
        time_ns: f64,
    ) -> Box<[Self]> {
        let one = |(subject, way, ns_cores): (Option<Subject>, Way, f64)| Self {
            subject: subject.unwrap_or(Subject::OTHERS),
            way,
            cores: (ns_cores / time_ns) as f32,
        };
        let mut list: Vec<Self> = beside.into_iter().map(one).collect();
        if list.len() > MOST_EXPOSURES {
            list.sort_by(|a, b| b.cores.total_cmp(&a.cores));
            let rest: f32 = list.drain(MOST_EXPOSURES - 1..).map(|one| one.cores).sum();
            list.push(Self { subject: Subject::OTHERS, way: Way::Cache, cores: rest });
        }
        list.into_boxed_slice()
    }
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
    /// Holders of the core that a bin lists, the first it met.
    pub const MOST_HELD: usize = crate::open_bin::MOST_HELD;

    /// Time on cores, and nothing else known yet.
    pub(crate) fn of_time(start_ns: u64, on_cpu_ns: f64) -> Self {
        Self { progress: None, ..Self::of_work(start_ns, on_cpu_ns, 0.0, Vec::new()) }
    }

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
