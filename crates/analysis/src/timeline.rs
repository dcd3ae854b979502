//! The whole of a run in a fixed number of columns, for pictures.
//!
//! Columns begin at 40 ms. When they are full, neighbours are joined and each is twice as long, so a run of any length
//! takes the same memory. So do subjects: the busiest are kept, and one that was let go and comes back begins anew.

use crosstalk_interference::{Slot, Subject};
use std::collections::HashMap;

const COLUMNS: usize = 1_024;
/// When so many subjects have a track, only the busiest half keeps it: letting go of one at a time would mean to look at all
/// of them for nearly every row of a machine that runs a few more.
const SUBJECTS: usize = 256;
const FIRST_NS: u64 = 40_000_000;

/// What one subject did in one column.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) on_cpu_ns: f64,
    pub(crate) wait_ns: f64,
    pub(crate) cycles: f64,
    pub(crate) instructions: f64,
    pub(crate) switches: f64,
    pub(crate) units: f64,
}

impl Cell {
    fn add(&mut self, other: &Self) {
        self.on_cpu_ns += other.on_cpu_ns;
        self.wait_ns += other.wait_ns;
        self.cycles += other.cycles;
        self.instructions += other.instructions;
        self.switches += other.switches;
        self.units += other.units;
    }
}

#[derive(Debug, Default)]
struct Track {
    on_cpu_ns: f64,
    /// The column of the first cell: who comes late has no room for what was before.
    first: usize,
    cells: Vec<Cell>,
}

impl Track {
    fn book(&mut self, at: usize, cell: &Cell) {
        self.on_cpu_ns += cell.on_cpu_ns;
        if self.cells.is_empty() {
            self.first = at;
        } else if at < self.first {
            // Only a clock that was set back leads here.
            self.cells.splice(0..0, std::iter::repeat_n(Cell::default(), self.first - at));
            self.first = at;
        }
        let at = at - self.first;
        if at >= self.cells.len() {
            self.cells.resize(at + 1, Cell::default());
        }
        self.cells[at].add(cell);
    }

    fn halve(&mut self) {
        let first = self.first / 2;
        let mut halves = vec![Cell::default(); (self.first + self.cells.len()).div_ceil(2) - first];
        for (at, cell) in (self.first..).zip(&self.cells) {
            halves[at / 2 - first].add(cell);
        }
        (self.first, self.cells) = (first, halves);
    }
}

/// Sums of a run by column and subject.
#[derive(Debug)]
pub(crate) struct Timeline {
    pub(crate) from_ns: u64,
    pub(crate) column_ns: u64,
    pub(crate) columns: usize,
    tracks: HashMap<Subject, Track>,
    lost: Vec<u32>,
}

impl Timeline {
    pub(crate) fn new() -> Self {
        let tracks = HashMap::new();
        Self { from_ns: 0, column_ns: FIRST_NS, columns: 0, tracks, lost: Vec::new() }
    }

    pub(crate) fn add(&mut self, slot: &Slot<'_>) {
        if self.columns == 0 {
            self.from_ns = slot.start_ns - slot.start_ns % FIRST_NS;
        }
        let Some(at) = self.column(slot.start_ns) else { return };
        self.columns = self.columns.max(at + 1);
        if slot.lost {
            self.lost.resize(self.lost.len().max(at + 1), 0);
            self.lost[at] += 1;
        }
        for entry in slot.entries {
            let cell = Cell {
                on_cpu_ns: entry.on_cpu_ns as f64,
                wait_ns: entry.wait_ns.unwrap_or(0) as f64,
                cycles: entry.cycles.unwrap_or(0) as f64,
                instructions: entry.instructions.unwrap_or(0) as f64,
                switches: f64::from(entry.voluntary_switches),
                units: 0.0,
            };
            self.book(entry.subject, at, &cell);
        }
        for &(subject, units) in slot.progress {
            self.book(subject, at, &Cell { units, ..Cell::default() });
        }
    }

    /// The column of a slot; none for one before the first, which a clock that was set back makes.
    fn column(&mut self, start_ns: u64) -> Option<usize> {
        let since = start_ns.checked_sub(self.from_ns)?;
        while since / self.column_ns >= COLUMNS as u64 {
            self.halve();
        }
        Some((since / self.column_ns) as usize)
    }

    fn halve(&mut self) {
        self.column_ns = self.column_ns.saturating_mul(2);
        self.columns = self.columns.div_ceil(2);
        self.tracks.values_mut().for_each(Track::halve);
        for at in 0..self.lost.len().div_ceil(2) {
            self.lost[at] = self.lost[2 * at] + self.lost.get(2 * at + 1).copied().unwrap_or(0);
        }
        self.lost.truncate(self.lost.len().div_ceil(2));
    }

    fn book(&mut self, subject: Subject, at: usize, cell: &Cell) {
        if self.tracks.len() >= SUBJECTS && !self.tracks.contains_key(&subject) {
            self.let_go_of_the_idler_half();
        }
        self.tracks.entry(subject).or_default().book(at, cell);
    }

    fn let_go_of_the_idler_half(&mut self) {
        let mut by_time: Vec<(f64, Subject)> =
            self.tracks.iter().map(|(&subject, track)| (track.on_cpu_ns, subject)).collect();
        by_time.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, subject) in by_time.drain(SUBJECTS / 2..) {
            self.tracks.remove(&subject);
        }
    }

    /// What a subject did, column by column; nothing where it did nothing.
    pub(crate) fn track(&self, subject: Subject) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); self.columns];
        if let Some(track) = self.tracks.get(&subject) {
            cells[track.first..][..track.cells.len()].copy_from_slice(&track.cells);
        }
        cells
    }

    /// Slots with losses, by column.
    pub(crate) fn lost(&self) -> Vec<u32> {
        let mut lost = self.lost.clone();
        lost.resize(self.columns, 0);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_interference::Activity;

    #[test]
    fn a_long_run_of_many_subjects_takes_no_more_columns_or_tracks_and_keeps_its_sums() {
        let mut timeline = Timeline::new();
        let steps = 10_000_u64;
        for step in 0..steps {
            let entries = [
                Activity::new(Subject(1), 0, 1_000_000),
                Activity::new(Subject(100 + step as u32), 1, 10),
            ];
            timeline.add(&Slot {
                start_ns: 5_000_000_000 + step * 100_000_000,
                length_ns: 1_000_000,
                entries: &entries,
                ..Slot::default()
            });
        }
        assert!(timeline.columns <= COLUMNS && timeline.tracks.len() <= SUBJECTS);
        let cells = timeline.track(Subject(1));
        assert_eq!(cells.len(), timeline.columns);
        let sum: f64 = cells.iter().map(|cell| cell.on_cpu_ns).sum();
        assert!((sum - steps as f64 * 1e6).abs() < 1.0, "{sum}");
    }

    #[test]
    fn who_comes_late_keeps_its_columns_while_they_are_joined() {
        let mut timeline = Timeline::new();
        let slot = |timeline: &mut Timeline, column: u64, subject| {
            let entries = [Activity::new(Subject(subject), 0, column)];
            let start_ns = column * FIRST_NS;
            timeline.add(&Slot {
                start_ns,
                length_ns: 1_000_000,
                entries: &entries,
                ..Slot::default()
            });
        };
        slot(&mut timeline, 0, 1);
        for column in [701, 702, 705, 3_000] {
            slot(&mut timeline, column, 2);
        }
        let cells = timeline.track(Subject(2));
        let busy = (0..).zip(&cells).filter(|(_, cell)| cell.on_cpu_ns > 0.0);
        let busy: Vec<(u64, f64)> = busy.map(|(at, cell)| (at, cell.on_cpu_ns)).collect();
        assert_eq!(timeline.column_ns, 4 * FIRST_NS);
        assert_eq!(busy, [(175, 1_403.0), (176, 705.0), (750, 3_000.0)]);
    }

    #[test]
    fn a_clock_that_is_set_back_or_far_ahead_neither_panics_nor_grows() {
        let mut timeline = Timeline::new();
        for start_ns in [1_u64 << 60, 5, u64::MAX - 1, 1 << 60] {
            timeline.add(&Slot { start_ns, length_ns: 1_000_000, ..Slot::default() });
        }
        assert!(timeline.columns <= COLUMNS);
    }
}
