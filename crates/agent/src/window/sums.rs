//! Readings of tasks summed up, and turned into metrics: pure.

use crosstalk_model::TaskReading;

/// Sums over any number of readings. A counter is summed only over readings that have it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) on_cpu_ns: u64,
    pub(super) runq_wait_ns: Option<u64>,
    pub(super) switches: u64,
    pub(super) page_faults: u64,
    pub(super) cycles: Option<u64>,
    pub(super) instructions: Option<u64>,
    pub(super) llc_misses: Option<u64>,
    freq_weighted: f64,
    freq_ns: u64,
}

impl Sums {
    /// Of somebody who was on no core: no time, switches or faults, nor waits if those are measured.
    pub(super) fn idle(waits: bool) -> Self {
        Self { runq_wait_ns: waits.then_some(0), ..Self::default() }
    }

    pub(super) fn add(&mut self, task: &TaskReading) {
        self.on_cpu_ns += task.on_cpu_ns;
        self.switches += u64::from(task.switches);
        self.page_faults += u64::from(task.page_faults);
        grow(&mut self.runq_wait_ns, task.runq_wait_ns);
        grow(&mut self.cycles, task.cycles);
        grow(&mut self.instructions, task.instructions);
        grow(&mut self.llc_misses, task.llc_misses);
        if let Some(freq) = task.freq_mhz {
            self.freq_weighted += f64::from(freq) * task.on_cpu_ns as f64;
            self.freq_ns += task.on_cpu_ns;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.on_cpu_ns += other.on_cpu_ns;
        self.switches += other.switches;
        self.page_faults += other.page_faults;
        grow(&mut self.runq_wait_ns, other.runq_wait_ns);
        grow(&mut self.cycles, other.cycles);
        grow(&mut self.instructions, other.instructions);
        grow(&mut self.llc_misses, other.llc_misses);
        self.freq_weighted += other.freq_weighted;
        self.freq_ns += other.freq_ns;
    }

    /// The values of the counters' metrics over the `measured_ns` that are known, with the share of
    /// processor time given.
    pub(super) fn values(&self, cpu_util: Option<f64>, measured_ns: u64) -> Vec<Option<f64>> {
        let per_second = |count: u64| count as f64 * 1e9 / measured_ns as f64;
        vec![
            cpu_util,
            ratio(self.instructions, self.cycles),
            (self.freq_ns > 0).then(|| self.freq_weighted / self.freq_ns as f64),
            ratio(self.llc_misses, self.instructions).map(|misses| misses * 1e3),
            self.runq_wait_ns.map(|wait| wait as f64 / measured_ns as f64),
            Some(per_second(self.switches)),
            Some(per_second(self.page_faults)),
        ]
    }
}

fn grow(sum: &mut Option<u64>, by: Option<u64>) {
    if let Some(by) = by {
        *sum = Some(sum.unwrap_or(0) + by);
    }
}

/// Absent if either is, and over nothing.
fn ratio(of: Option<u64>, to: Option<u64>) -> Option<f64> {
    let (of, to) = of.zip(to)?;
    (to > 0).then(|| of as f64 / to as f64)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crosstalk_model::{Comm, ProcessId};

    pub(in crate::window) fn task(slot_start_ns: u64, core: u32, on_cpu_ns: u64) -> TaskReading {
        TaskReading {
            slot_start_ns,
            process: ProcessId { pid: 7, start_ns: 1 },
            parent: None,
            comm: Comm::from_bytes(*b"redis-server\0\0\0\0"),
            core,
            freq_mhz: None,
            cycles: None,
            instructions: None,
            llc_misses: None,
            on_cpu_ns,
            runq_wait_ns: Some(10),
            switches: 2,
            voluntary_switches: 1,
            page_faults: 1,
            migrations: None,
            multiplexed: None,
            cgroup_id: 1,
        }
    }

    #[test]
    fn without_counters_ratios_are_absent_and_not_zero() {
        let mut sums = Sums::default();
        sums.add(&task(0, 0, 500));
        assert_eq!(
            sums.values(Some(0.5), 1_000),
            [Some(0.5), None, None, None, Some(0.01), Some(2e6), Some(1e6)]
        );
    }

    #[test]
    fn rest_is_zero_of_what_is_counted_and_no_ratio() {
        let zero = Some(0.0);
        let idle = Sums::idle(true).values(zero, 1_000);
        assert_eq!(idle, [zero, None, None, None, zero, zero, zero]);
        assert_eq!(Sums::idle(false).values(zero, 1_000)[4], None);
    }

    #[test]
    fn with_counters_ratios_are_of_the_sums_and_frequency_is_weighted_by_time() {
        let mut sums = Sums::default();
        for (ns, freq, cycles, instructions, misses) in
            [(100, 1_000, 100, 300, 3), (300, 3_000, 900, 700, 7)]
        {
            let mut task = task(0, 0, ns);
            task.freq_mhz = Some(freq);
            (task.cycles, task.instructions, task.llc_misses) =
                (Some(cycles), Some(instructions), Some(misses));
            let mut one = Sums::default();
            one.add(&task);
            sums.merge(&one);
        }
        let values = sums.values(None, 1_000);
        assert_eq!(values[..4], [None, Some(1.0), Some(2_500.0), Some(10.0)]);
    }
}
