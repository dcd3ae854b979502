//! The whole of a run in a fixed number of columns, for pictures.
//!
//! Columns begin at 40 ms. When they are full, neighbours are joined and each is twice as long, so a run of any length
//! takes the same memory. So do subjects: the busiest are kept.

use crosstalk_interference::{Slot, Subject};
use std::collections::HashMap;

const COLUMNS: usize = 1_024;
const SUBJECTS: usize = 64;
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
    cells: Vec<Cell>,
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
        for track in self.tracks.values_mut() {
            for at in 0..track.cells.len().div_ceil(2) {
                let mut both = track.cells[2 * at];
                if let Some(second) = track.cells.get(2 * at + 1) {
                    both.add(second);
                }
                track.cells[at] = both;
            }
            track.cells.truncate(track.cells.len().div_ceil(2));
        }
        for at in 0..self.lost.len().div_ceil(2) {
            self.lost[at] = self.lost[2 * at] + self.lost.get(2 * at + 1).copied().unwrap_or(0);
        }
        self.lost.truncate(self.lost.len().div_ceil(2));
    }

    fn book(&mut self, subject: Subject, at: usize, cell: &Cell) {
        if !self.tracks.contains_key(&subject) && self.tracks.len() >= SUBJECTS {
            let idlest = self
                .tracks
                .iter()
                .min_by(|a, b| a.1.on_cpu_ns.total_cmp(&b.1.on_cpu_ns).then(b.0.cmp(a.0)));
            if let Some(idlest) = idlest.map(|(subject, _)| *subject) {
                self.tracks.remove(&idlest);
            }
        }
        let track = self.tracks.entry(subject).or_default();
        track.on_cpu_ns += cell.on_cpu_ns;
        track.cells.resize(track.cells.len().max(at + 1), Cell::default());
        track.cells[at].add(cell);
    }

    /// What a subject did, column by column; nothing where it did nothing.
    pub(crate) fn track(&self, subject: Subject) -> Vec<Cell> {
        let mut cells = self.tracks.get(&subject).map_or_else(Vec::new, |t| t.cells.clone());
        cells.resize(self.columns, Cell::default());
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
    fn a_clock_that_is_set_back_or_far_ahead_neither_panics_nor_grows() {
        let mut timeline = Timeline::new();
        for start_ns in [1_u64 << 60, 5, u64::MAX - 1, 1 << 60] {
            timeline.add(&Slot { start_ns, length_ns: 1_000_000, ..Slot::default() });
        }
        assert!(timeline.columns <= COLUMNS);
    }
}
