//! What containers did in every millisecond, summed up to what a page can draw.

use super::read::{ints, maybe};
use crate::Error;
use crate::store::{RanRound, RunRecord};
use arrow_array::RecordBatch;
use crosstalk_model::SlotLength;
use crosstalk_recording::Reader;
use std::collections::{BTreeMap, HashMap};

/// The shortest stretch that is told, and into how many a long run is divided.
const SHORTEST_NS: u64 = 100_000_000;
const MOST_STRETCHES: u64 = 1_000;

const COLUMNS: [&str; 7] = [
    "slot_start_ns",
    "cgroup_id",
    "on_cpu_ns",
    "runq_wait_ns",
    "cycles",
    "instructions",
    "llc_misses",
];

/// What the processes of a container did in a stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPoint {
    /// The round.
    pub round: u32,
    /// The container.
    pub container: String,
    /// The end of the stretch, Unix nanoseconds.
    pub at_ns: u64,
    /// Its length.
    pub covers_ns: u64,
    /// Time on cores.
    pub on_cpu_ns: u64,
    /// Time waited for one.
    pub wait_ns: Option<u64>,
    /// Cycles, where they are counted.
    pub cycles: Option<u64>,
    /// Instructions, likewise.
    pub instructions: Option<u64>,
    /// Misses of the last-level cache, likewise.
    pub misses: Option<u64>,
}

/// Sums up the data set `tasks` of a run, by container.
pub(super) fn read(reader: &Reader, record: &RunRecord) -> Result<Vec<TaskPoint>, Error> {
    let mut sums = Sums::new(&record.rounds);
    for piece in reader.scan("tasks").columns(COLUMNS).pieces() {
        sums.take(&piece?.batch);
    }
    Ok(sums.points.into_values().collect())
}

struct Sums<'a> {
    /// Round and container by the number of their cgroup.
    groups: HashMap<u64, (u32, &'a str)>,
    /// The zero of the first round.
    began_ns: u64,
    length_ns: u64,
    points: BTreeMap<(&'a str, u64, u32), TaskPoint>,
}

impl<'a> Sums<'a> {
    fn new(rounds: &'a [RanRound]) -> Self {
        let ids = rounds.iter().flat_map(|round| {
            round.cgroup_ids.iter().map(|(name, id)| (*id, (round.number, name.as_str())))
        });
        let began = rounds.iter().map(|round| round.zero_ns).min();
        let ended = rounds.iter().filter_map(|round| round.end_ns).max();
        let whole = began.zip(ended).map_or(0, |(began, ended)| ended.saturating_sub(began));
        let length_ns = (whole / MOST_STRETCHES).max(SHORTEST_NS);
        let began_ns = began.unwrap_or(0);
        Self { groups: ids.collect(), began_ns, length_ns, points: BTreeMap::new() }
    }

    /// The stretch of this number.
    fn point(&mut self, name: &'a str, number: u64, round: u32) -> &mut TaskPoint {
        let length_ns = self.length_ns;
        self.points.entry((name, number, round)).or_insert_with(|| TaskPoint {
            round,
            container: name.to_owned(),
            at_ns: (number + 1) * length_ns,
            covers_ns: length_ns,
            on_cpu_ns: 0,
            wait_ns: None,
            cycles: None,
            instructions: None,
            misses: None,
        })
    }

    /// A wait is told in the slot in which it ended, but was waited in the time before: one of a second in a stretch of a
    /// tenth would look like ten that wait.
    fn take_wait(&mut self, name: &'a str, round: u32, slot_start_ns: u64, wait_ns: u64) {
        let number = slot_start_ns / self.length_ns;
        let slot_end_ns = slot_start_ns + SlotLength::MILLISECOND.nanos();
        let end_ns = slot_end_ns.min((number + 1) * self.length_ns);
        let from_ns = end_ns.saturating_sub(wait_ns).max(self.began_ns);
        add(&mut self.point(name, number, round).wait_ns, Some(0));
        for earlier in from_ns / self.length_ns..=number {
            let (start, end) = (earlier * self.length_ns, (earlier + 1) * self.length_ns);
            let part = end.min(end_ns).saturating_sub(start.max(from_ns));
            if part > 0 {
                add(&mut self.point(name, earlier, round).wait_ns, Some(part));
            }
        }
    }

    fn take(&mut self, batch: &RecordBatch) -> Option<()> {
        let [at, group, on_cpu, wait, cycles, instructions, misses] =
            COLUMNS.map(|name| ints(batch, name));
        let (at, group, on_cpu) = (at?, group?, on_cpu?);
        for row in 0..batch.num_rows() {
            let group = group.value(row).cast_unsigned();
            let Some((round, name)) = self.groups.get(&group).copied() else { continue };
            let slot_start_ns = at.value(row).cast_unsigned();
            let point = self.point(name, slot_start_ns / self.length_ns, round);
            point.on_cpu_ns += on_cpu.value(row).cast_unsigned();
            add(&mut point.cycles, cycles.and_then(|column| maybe(column, row)));
            add(&mut point.instructions, instructions.and_then(|column| maybe(column, row)));
            add(&mut point.misses, misses.and_then(|column| maybe(column, row)));
            if let Some(wait_ns) = wait.and_then(|column| maybe(column, row)) {
                self.take_wait(name, round, slot_start_ns, wait_ns);
            }
        }
        Some(())
    }
}

fn add(sum: &mut Option<u64>, more: Option<u64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0) + more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::RoundKind;
    use arrow_array::{ArrayRef, Int64Array};
    use std::sync::Arc;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_long_wait_was_waited_in_the_time_before_it_was_told() {
        let rounds = [RanRound {
            number: 0,
            kind: RoundKind::Together,
            zero_ns: 1_000 * MS as u64,
            end_ns: Some(3_000 * MS as u64),
            cgroup_ids: vec![("a".to_owned(), 7)],
        }];
        let column = |values: [i64; 2]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        let batch = RecordBatch::try_from_iter([
            ("slot_start_ns", column([2_000 * MS, 2_049 * MS])),
            ("cgroup_id", column([7, 7])),
            ("on_cpu_ns", column([MS, MS])),
            ("runq_wait_ns", column([251 * MS, 0])),
        ]);
        let mut sums = Sums::new(&rounds);
        sums.take(&batch.unwrap()).unwrap();
        let waits: Vec<(u64, u64)> =
            sums.points.values().map(|p| (p.at_ns / MS as u64, p.wait_ns.unwrap())).collect();
        let ms = |ms: u64| ms * MS as u64;
        assert_eq!(
            waits,
            [(1_800, ms(50)), (1_900, ms(100)), (2_000, ms(100)), (2_100, ms(1))],
            "no stretch has more than its own length"
        );
        let ran: Vec<u64> = sums.points.values().map(|p| p.on_cpu_ns).collect();
        assert_eq!(ran, [0, 0, 0, ms(2)]);
        sums.take_wait("a", 0, ms(1_050), u64::MAX);
        let first = sums.points.values().next().unwrap();
        assert_eq!((first.at_ns, first.wait_ns), (ms(1_100), Some(ms(51))), "not before its round");
    }
}
