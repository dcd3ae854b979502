//! The data sets that are summed up, and how.

/// How long a row of sums is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Period {
    Second,
    Minute,
}

impl Period {
    pub(super) const BOTH: [Self; 2] = [Self::Second, Self::Minute];

    pub(super) const fn nanos(self) -> i64 {
        match self {
            Self::Second => 1_000_000_000,
            Self::Minute => 60_000_000_000,
        }
    }
}

/// A data set of which there are sums.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Its name.
    pub(super) dataset: &'static str,
    /// Its sums by the second, and by the minute.
    pub(super) sums: [&'static str; 2],
    /// Columns that say whose row it is.
    pub(super) keys: &'static [&'static str],
    /// Columns of text that are kept as they were last.
    pub(super) names: &'static [&'static str],
    /// Columns that are summed as they are.
    pub(super) summed: &'static [&'static str],
    /// Columns whose distribution is kept.
    pub(super) sketched: &'static [Sketched],
}

/// A column whose distribution is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sketched {
    pub(super) column: &'static str,
    /// How columns of it begin, and what they are in.
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// Smaller values are none.
    pub(super) least: i64,
}

/// More keys than any has.
pub(super) const MOST_KEYS: usize = 4;

/// What is summed up. The first is there always: what is done of a run besides is told with it.
pub(super) const KINDS: [Kind; 3] = [
    Kind {
        dataset: "tasks",
        sums: ["tasks_per_second", "tasks_per_minute"],
        keys: &["pid", "process_start_ns"],
        names: &["comm", "container_id", "container_name", "pod_namespace", "pod_name", "workload"],
        summed: &[
            "on_cpu_ns",
            "runq_wait_ns",
            "switches",
            "voluntary_switches",
            "migrations",
            "page_faults",
            "cycles",
            "instructions",
            "llc_misses",
        ],
        sketched: &[
            Sketched { column: "on_cpu_ns", name: "on_cpu", unit: "ns", least: 0 },
            // A slot in which no wait ended has none.
            Sketched { column: "runq_wait_ns", name: "wait", unit: "ns", least: 1 },
        ],
    },
    // Which time was lost, so that it is not taken for rest when the rows are gone.
    Kind {
        dataset: "slots",
        sums: ["slots_per_second", "slots_per_minute"],
        keys: &["core"],
        names: &[],
        summed: &["idle_ns", "events", "lost"],
        sketched: &[Sketched { column: "tick_late_ns", name: "tick_late", unit: "ns", least: 0 }],
    },
    // By group, too: what one value tells of several processes must be counted once afterwards as before.
    Kind {
        dataset: "cache",
        sums: ["cache_per_second", "cache_per_minute"],
        keys: &["pid", "process_start_ns", "l3_domain", "group_id"],
        names: &[
            "comm",
            "scope",
            "container_id",
            "container_name",
            "pod_namespace",
            "pod_name",
            "workload",
        ],
        summed: &["mbm_total_bytes", "mbm_local_bytes"],
        sketched: &[Sketched {
            column: "llc_occupancy_bytes",
            name: "llc_occupancy",
            unit: "bytes",
            least: 0,
        }],
    },
];

impl Kind {
    /// The data set of its sums.
    pub(super) const fn per(&self, period: Period) -> &'static str {
        match period {
            Period::Second => self.sums[0],
            Period::Minute => self.sums[1],
        }
    }

    /// Whose rows a data set has.
    pub(super) fn of(dataset: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.dataset == dataset)
    }

    /// Whose sums a data set is.
    pub(super) fn of_sums(dataset: &str) -> Option<(&'static Self, Period)> {
        let each = KINDS.iter().flat_map(|kind| Period::BOTH.map(|period| (kind, period)));
        each.into_iter().find(|(kind, period)| kind.per(*period) == dataset)
    }

    /// Whether a data set is its sums, by the second or the minute.
    pub(super) fn period(&self, dataset: &str) -> Option<Period> {
        Self::of_sums(dataset).filter(|(kind, _)| *kind == self).map(|(_, period)| period)
    }

    /// How the names of its sums begin.
    pub(super) fn prefix(&self) -> &'static str {
        self.sums[0].trim_end_matches("second")
    }

    /// Everything that is read.
    pub(super) fn columns(&self) -> impl Iterator<Item = &'static str> {
        let sketched = self.sketched.iter().map(|one| one.column);
        let all = self.keys.iter().chain(self.summed).chain(self.names).copied();
        let mut all: Vec<&str> = ["slot_start_ns"].into_iter().chain(all).chain(sketched).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_known_by_their_names_and_belong_to_one_data_set() {
        for kind in &KINDS {
            assert!(kind.keys.len() <= MOST_KEYS, "{}", kind.dataset);
            assert_eq!(kind.prefix(), format!("{}_per_", kind.dataset));
            assert_eq!(Kind::of(kind.dataset), Some(kind));
            for period in Period::BOTH {
                assert_eq!(Kind::of_sums(kind.per(period)), Some((kind, period)));
            }
        }
        assert_eq!((Kind::of("probe"), Kind::of_sums("tasks")), (None, None));
    }
}
