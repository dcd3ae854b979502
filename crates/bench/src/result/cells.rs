//! Samples put together to cells of time: what is kept of a run does not grow with its length.

use std::collections::{BTreeMap, HashMap};

/// Cells that are kept of all containers together: 500 each of twenty, which is about what a page can draw.
const MOST_CELLS: usize = 10_000;
/// What is nearer than the clock of the data sets tells apart is one from the start.
const SHORTEST_NS: u64 = 1_000_000;
const LONGEST_NS: u64 = 1 << 50;

/// What a cell holds.
pub(super) trait Merge {
    /// Takes in what another cell of the same container and round holds, of earlier or of later.
    fn merge(&mut self, other: Self);
}

/// Where a sample belongs: container, round, epoch, and the number of its cell.
type Place = (u32, u32, usize, u64);

/// Cells by container, round and time. Where there are too many, each becomes twice as long.
#[derive(Debug)]
pub(super) struct Cells<C> {
    length_ns: u64,
    most: usize,
    cells: BTreeMap<Place, C>,
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl<C> Default for Cells<C> {
    fn default() -> Self {
        Self {
            length_ns: SHORTEST_NS,
            most: MOST_CELLS,
            cells: BTreeMap::new(),
            names: Vec::new(),
            numbers: HashMap::new(),
        }
    }
}

impl<C: Merge> Cells<C> {
    /// Adds a sample of this time. Those of different epochs stay apart, however long cells are.
    pub(super) fn add(&mut self, name: &str, round: u32, epoch: usize, at_ns: u64, sample: C) {
        let container = self.number(name);
        self.put((container, round, epoch, at_ns / self.length_ns), sample);
        if self.cells.len() > self.most {
            self.lengthen();
        }
    }

    /// All cells with the names of their containers and their rounds, of each container in the order of time.
    pub(super) fn all(self) -> impl Iterator<Item = (String, u32, C)> {
        let names = self.names;
        let named =
            move |(place, cell): (Place, C)| (names[place.0 as usize].clone(), place.1, cell);
        self.cells.into_iter().map(named)
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    fn put(&mut self, place: Place, cell: C) {
        match self.cells.get_mut(&place) {
            Some(known) => known.merge(cell),
            None => drop(self.cells.insert(place, cell)),
        }
    }

    fn lengthen(&mut self) {
        while self.cells.len() > self.most / 4 * 3 {
            if self.length_ns >= LONGEST_NS {
                // Cells of so many epochs or rounds cannot be put together.
                self.most *= 2;
                return;
            }
            self.length_ns *= 2;
            for ((container, round, epoch, number), cell) in std::mem::take(&mut self.cells) {
                self.put((container, round, epoch, number / 2), cell);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many samples, and their sum.
    #[derive(Debug, PartialEq)]
    struct Sum(u64, u64);

    impl Merge for Sum {
        fn merge(&mut self, other: Self) {
            *self = Self(self.0 + other.0, self.1 + other.1);
        }
    }

    #[test]
    fn of_however_many_samples_so_many_cells_are_left_and_nothing_is_lost() {
        let mut cells = Cells::default();
        for at in 0..200_000u64 {
            for name in ["a", "b"] {
                // Time before and after the middle is never put together.
                cells.add(name, 0, usize::from(at >= 100_000), at * 50_000_000, Sum(1, at));
            }
        }
        let all: Vec<(String, u32, Sum)> = cells.all().collect();
        assert!((2_500..=10_000).contains(&all.len()), "{}", all.len());
        for name in ["a", "b"] {
            let mine = || all.iter().filter(|(of, _, _)| of == name).map(|(_, _, sum)| sum);
            assert_eq!(mine().map(|sum| sum.0).sum::<u64>(), 200_000);
            assert_eq!(mine().map(|sum| sum.1).sum::<u64>(), 199_999 * 100_000);
            assert!(mine().is_sorted_by_key(|sum| sum.1 / sum.0), "in the order of time");
            let mut passed = 0;
            let edge = mine().any(|sum| {
                passed += sum.0;
                passed == 100_000
            });
            assert!(edge, "a cell ends in the middle");
        }
    }

    #[test]
    fn samples_of_a_short_run_stay_as_they_are() {
        let mut cells = Cells::default();
        for at in 0..1_000 {
            cells.add("a", 0, 0, at * 50_000_000, Sum(1, at));
        }
        assert!(cells.all().all(|(_, _, sum)| sum.0 == 1));
    }
}
