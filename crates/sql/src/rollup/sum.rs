use super::kind::{Kind, MOST_KEYS, Period};
use super::row::Row;
use crate::Error;
use sketches_ddsketch::{Config, DDSketch};
use std::collections::{BTreeMap, HashMap};

/// How wrong a quantile of a sketch may be, in proportion.
const ACCURACY: f64 = 0.01;
/// Buckets of a sketch: from 1 ns to a minute takes 1250 of them.
const MOST_BUCKETS: u32 = 2_048;

/// Whose a sum is: the values of its data set's keys.
pub(super) type Keys = [i64; MOST_KEYS];
/// Everybody in one second or minute.
pub(super) type Slot = BTreeMap<Keys, Sum>;

/// What one process, core or other subject did.
#[derive(Clone)]
pub(super) struct Sum {
    /// As they were last.
    pub(super) names: Vec<Option<String>>,
    pub(super) rows: i64,
    /// Absent where no row had it.
    pub(super) values: Vec<Option<i64>>,
    pub(super) sketches: Vec<DDSketch>,
}

impl Sum {
    fn new(kind: &Kind) -> Self {
        let sketch = |_| DDSketch::new(Config::new(ACCURACY, MOST_BUCKETS, 1.0));
        Self {
            names: vec![None; kind.names.len()],
            rows: 0,
            values: vec![None; kind.summed.len()],
            sketches: kind.sketched.iter().map(sketch).collect(),
        }
    }

    fn add(&mut self, row: Row<'_>) {
        self.rows += 1;
        for (sum, value) in self.values.iter_mut().zip(row.summed()) {
            if let Some(value) = value {
                *sum.get_or_insert(0) += value;
            }
        }
        for (sketch, value) in self.sketches.iter_mut().zip(row.sketched()) {
            if let Some(value) = value {
                sketch.add(value as f64);
            }
        }
        for (known, name) in self.names.iter_mut().zip(row.names()) {
            if known.as_deref() != name && name.is_some() {
                *known = name.map(str::to_owned);
            }
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), Error> {
        self.rows += other.rows;
        for (sum, value) in self.values.iter_mut().zip(&other.values) {
            if let Some(value) = value {
                *sum.get_or_insert(0) += value;
            }
        }
        for (sketch, other) in self.sketches.iter_mut().zip(&other.sketches) {
            let merged = sketch.merge(other);
            merged.map_err(|e| Error::Engine(format!("sketches do not merge: {e}")))?;
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
    kind: &'static Kind,
    period: Period,
    open: BTreeMap<i64, HashMap<Keys, Sum>>,
}

impl Sums {
    pub(super) fn new(kind: &'static Kind, period: Period) -> Self {
        Self { kind, period, open: BTreeMap::new() }
    }

    fn start(&self, ns: i64) -> i64 {
        ns - ns.rem_euclid(self.period.nanos())
    }

    pub(super) fn add(&mut self, row: Row<'_>) {
        let slot = self.open.entry(self.start(row.slot_ns())).or_default();
        slot.entry(row.keys()).or_insert_with(|| Sum::new(self.kind)).add(row);
    }

    /// Adds sums of a shorter time.
    pub(super) fn merge(&mut self, start_ns: i64, sums: &Slot) -> Result<(), Error> {
        let slot = self.open.entry(self.start(start_ns)).or_default();
        for (keys, sum) in sums {
            slot.entry(*keys).or_insert_with(|| Sum::new(self.kind)).merge(sum)?;
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
    use super::super::kind::KINDS;
    use super::super::row::Rows;
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use std::sync::Arc;

    /// Two seconds of a process that waits in every other slot; its switches were not counted.
    fn rows() -> RecordBatch {
        let numbers = |of: &dyn Fn(i64) -> i64| -> ArrayRef {
            Arc::new((0..2_000).map(|slot| Some(of(slot))).collect::<Int64Array>())
        };
        let waits = (0..2_000).map(|slot| (slot % 2 == 0).then_some(slot));
        let names: StringArray = (0..2_000).map(|_| Some("redis")).collect();
        RecordBatch::try_from_iter([
            ("slot_start_ns", numbers(&|slot| slot * 1_000_000)),
            ("pid", numbers(&|_| 7)),
            ("process_start_ns", numbers(&|_| 1)),
            ("on_cpu_ns", numbers(&|slot| 1_000 + slot)),
            ("runq_wait_ns", Arc::new(waits.collect::<Int64Array>()) as ArrayRef),
            ("comm", Arc::new(names) as ArrayRef),
        ])
        .unwrap()
    }

    #[test]
    fn sums_are_exact_absent_stays_absent_and_quantiles_are_within_a_hundredth() {
        let (kind, batch) = (&KINDS[0], rows());
        let mut seconds = Sums::new(kind, Period::Second);
        Rows::of(kind, &batch).unwrap().each(|row| seconds.add(row));
        let mut minutes = Sums::new(kind, Period::Minute);
        let mut starts = Vec::new();
        let merged = seconds.hand_over(0, |start_ns, sums| {
            starts.push(start_ns);
            minutes.merge(start_ns, &sums)
        });
        merged.unwrap();
        assert_eq!(starts, [0, 1_000_000_000]);
        minutes
            .hand_over(0, |start_ns, sums| {
                let sum = &sums[&[7, 1, 0, 0]];
                assert_eq!((start_ns, sum.rows), (0, 2_000));
                assert_eq!(sum.values[0], Some((0..2_000).map(|slot| 1_000 + slot).sum()));
                assert_eq!(sum.values[1], Some((0..2_000).step_by(2).sum()));
                assert_eq!(sum.values[2], None, "nobody counted switches");
                assert_eq!(sum.names[0].as_deref(), Some("redis"));
                let median = sum.sketches[0].quantile(0.5).unwrap().unwrap();
                assert!((median / 2_000.0 - 1.0).abs() < 0.011, "{median}");
                // A slot without a wait is no wait of 0 ns.
                assert_eq!(sum.sketches[1].count(), 999);
                Ok(())
            })
            .unwrap();
    }
}
