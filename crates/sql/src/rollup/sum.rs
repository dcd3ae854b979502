use super::row::{NAMES, Row, SUMMED, WAIT};
use crate::Error;
use sketches_ddsketch::{Config, DDSketch};
use std::collections::{BTreeMap, HashMap};

/// How wrong a quantile of a sketch may be, in proportion.
const ACCURACY: f64 = 0.01;
/// Buckets of a sketch: from 1 ns to a minute takes 1250 of them.
const MOST_BUCKETS: u32 = 2_048;

/// How long a row of sums is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Period {
    Second,
    Minute,
}

impl Period {
    pub(super) const fn nanos(self) -> i64 {
        match self {
            Self::Second => 1_000_000_000,
            Self::Minute => 60_000_000_000,
        }
    }

    /// Whose sums a data set is.
    pub(super) fn of(dataset: &str) -> Option<Self> {
        [Self::Second, Self::Minute].into_iter().find(|period| period.dataset() == dataset)
    }

    pub(super) const fn dataset(self) -> &'static str {
        match self {
            Self::Second => "tasks_per_second",
            Self::Minute => "tasks_per_minute",
        }
    }
}

/// A process: its pid and when it began.
pub(super) type Process = (i64, i64);
/// Everybody in one second or minute.
pub(super) type Slot = BTreeMap<Process, Sum>;

/// What one process did.
#[derive(Clone)]
pub(super) struct Sum {
    /// As they were last.
    pub(super) names: [Option<String>; NAMES.len()],
    pub(super) rows: i64,
    pub(super) on_cpu_ns: i64,
    /// Absent where no row had it.
    pub(super) values: [Option<i64>; SUMMED.len()],
    /// Time on a core in a slot.
    pub(super) on_cpu: DDSketch,
    /// Waits that ended in a slot.
    pub(super) wait: DDSketch,
}

impl Sum {
    fn new() -> Self {
        let sketch = || DDSketch::new(Config::new(ACCURACY, MOST_BUCKETS, 1.0));
        Self {
            names: Default::default(),
            rows: 0,
            on_cpu_ns: 0,
            values: Default::default(),
            on_cpu: sketch(),
            wait: sketch(),
        }
    }

    fn add(&mut self, row: &Row<'_>) {
        self.rows += 1;
        self.on_cpu_ns += row.on_cpu_ns;
        self.on_cpu.add(row.on_cpu_ns as f64);
        for (sum, value) in self.values.iter_mut().zip(row.values) {
            if let Some(value) = value {
                *sum.get_or_insert(0) += value;
            }
        }
        if let Some(wait_ns) = row.values[WAIT].filter(|ns| *ns > 0) {
            self.wait.add(wait_ns as f64);
        }
        for (known, name) in self.names.iter_mut().zip(row.names) {
            if known.as_deref() != name && name.is_some() {
                *known = name.map(str::to_owned);
            }
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        let failed = |e| Error::Engine(format!("sketches do not merge: {e}"));
        self.rows += other.rows;
        self.on_cpu_ns += other.on_cpu_ns;
        self.on_cpu.merge(&other.on_cpu).map_err(failed)?;
        self.wait.merge(&other.wait).map_err(failed)?;
        for (sum, value) in self.values.iter_mut().zip(other.values) {
            if let Some(value) = value {
                *sum.get_or_insert(0) += value;
            }
        }
        for (known, name) in self.names.iter_mut().zip(&other.names) {
            if name.is_some() {
                known.clone_from(name);
            }
        }
        Ok(())
    }
}

/// Sums that may still grow.
pub(super) struct Sums {
    period: Period,
    open: BTreeMap<i64, HashMap<Process, Sum>>,
}

impl Sums {
    pub(super) fn new(period: Period) -> Self {
        Self { period, open: BTreeMap::new() }
    }

    fn start(&self, ns: i64) -> i64 {
        ns - ns.rem_euclid(self.period.nanos())
    }

    pub(super) fn add(&mut self, row: &Row<'_>) {
        let slot = self.open.entry(self.start(row.slot_ns)).or_default();
        slot.entry((row.pid, row.process_start_ns)).or_insert_with(Sum::new).add(row);
    }

    /// Adds sums of a shorter time.
    pub(super) fn merge(&mut self, start_ns: i64, sums: &Slot) -> Result<(), Error> {
        let slot = self.open.entry(self.start(start_ns)).or_default();
        for (process, sum) in sums {
            slot.entry(*process).or_insert_with(Sum::new).merge(sum)?;
        }
        Ok(())
    }

    /// Hands out the oldest until so many are left. A row that comes later begins its time anew: sums add up.
    pub(super) fn hand_over(
        &mut self,
        leave: usize,
        mut take: impl FnMut(i64, Slot) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while self.open.len() > leave {
            let Some((start_ns, sums)) = self.open.pop_first() else { break };
            take(start_ns, sums.into_iter().collect())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(slot_ns: i64, on_cpu_ns: i64, wait_ns: Option<i64>) -> Row<'static> {
        let mut values = [None; SUMMED.len()];
        values[WAIT] = wait_ns;
        let names = [Some("redis"), None, None, None, None, None];
        Row { slot_ns, pid: 7, process_start_ns: 1, on_cpu_ns, values, names }
    }

    #[test]
    fn sums_are_exact_absent_stays_absent_and_quantiles_are_within_a_hundredth() {
        let mut seconds = Sums::new(Period::Second);
        for slot in 0..2_000 {
            seconds.add(&row(slot * 1_000_000, 1_000 + slot, (slot % 2 == 0).then_some(slot)));
        }
        let mut minutes = Sums::new(Period::Minute);
        let mut starts = Vec::new();
        let merged = seconds.hand_over(0, |start_ns, sums| {
            starts.push(start_ns);
            minutes.merge(start_ns, &sums)
        });
        merged.unwrap();
        assert_eq!(starts, [0, 1_000_000_000]);
        minutes
            .hand_over(0, |start_ns, sums| {
                let sum = &sums[&(7, 1)];
                assert_eq!((start_ns, sum.rows), (0, 2_000));
                assert_eq!(sum.on_cpu_ns, (0..2_000).map(|slot| 1_000 + slot).sum::<i64>());
                assert_eq!(sum.values[WAIT], Some((0..2_000).step_by(2).sum()));
                assert_eq!(sum.values[1], None, "nobody counted switches");
                let median = sum.on_cpu.quantile(0.5).unwrap().unwrap();
                assert!((median / 2_000.0 - 1.0).abs() < 0.011, "{median}");
                Ok(())
            })
            .unwrap();
    }
}
