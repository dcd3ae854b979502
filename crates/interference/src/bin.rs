use crate::open_bin::{MOST_EXPOSURES, MOST_HELD};
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

/// Times that differ by less than this share of them are equal: they are summed in another order elsewhere.
const EQUAL: f32 = 1e-5;

impl Held {
    /// What a bin lists of those who held the core, each with the start of the slot in which it was first met: the first
    /// it met; of those that were met in the same slot, who held it longest.
    pub fn list(mut met: Vec<(u64, Self)>) -> Box<[Self]> {
        met.sort_by_key(|(first_ns, _)| *first_ns);
        let last_ns = met.get(MOST_HELD - 1).map_or(u64::MAX, |(first_ns, _)| *first_ns);
        let before = met.partition_point(|(first_ns, _)| *first_ns < last_ns);
        let most = met.partition_point(|(first_ns, _)| *first_ns <= last_ns);
        met.truncate(most);
        Self::list_in_order(met.into_iter().map(|(_, held)| held).collect(), before)
    }

    /// The same of a list whose first `before` were met in earlier slots than the others, which all were in one slot. None
    /// of those that are equal at its end is listed: only the order of rows would tell them apart, and nobody keeps that.
    pub(crate) fn list_in_order(mut met: Vec<Self>, before: usize) -> Box<[Self]> {
        if met.len() > MOST_HELD {
            met[before..].sort_by(|a, b| b.ns.total_cmp(&a.ns));
            let left_out = met[MOST_HELD].ns;
            met.truncate(MOST_HELD);
            let is_equal = |held: &Self| held.ns - left_out <= EQUAL * left_out;
            while met.len() > before && met.last().is_some_and(is_equal) {
                met.pop();
            }
        }
        met.into_boxed_slice()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn held(who: u32, ns: f32) -> Held {
        Held { subject: Subject(who), ns, low_ns: 0.0, high_ns: ns }
    }

    fn listed(met: Vec<(u64, Held)>) -> Vec<u32> {
        let mut who: Vec<u32> = Held::list(met).iter().map(|held| held.subject.0).collect();
        who.sort_unstable();
        who
    }

    #[test]
    fn who_is_listed_does_not_hang_on_the_order_in_which_those_of_one_slot_are_met() {
        // Six in the first slot; three of five more find room beside them, the longest, and nobody of the third slot.
        let mut met: Vec<(u64, Held)> = (0..6).map(|who| (1, held(who, 1.0))).collect();
        met.extend((6..11).map(|who| (2, held(who, who as f32))));
        met.push((3, held(11, 99.0)));
        for _ in 0..met.len() {
            met.rotate_left(1);
            assert_eq!(listed(met.clone()), [0, 1, 2, 3, 4, 5, 9, 10]);
        }
    }

    #[test]
    fn of_equals_at_the_end_of_the_list_none_is_told() {
        let mut met: Vec<(u64, Held)> = (0..7).map(|who| (1, held(who, 9.0))).collect();
        met.extend([(1, held(7, 5.0)), (1, held(8, 5.000_001)), (1, held(9, 0.0))]);
        assert_eq!(listed(met.clone()), [0, 1, 2, 3, 4, 5, 6]);
        met.remove(8);
        assert_eq!(listed(met), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
