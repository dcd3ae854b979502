//! A weighted quantile over several sorted columns, without merging them.

use crate::run::SortedColumn;

/// Few enough candidates to sort outright.
const FEW: usize = 24;

/// Working memory of a selection, and what earlier ones learnt: targets must ascend.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// Per column, the positions the answer may still be at.
    brackets: Vec<(usize, usize)>,
    /// Per column, where the pivot falls: first value not below it, first value above it.
    splits: Vec<(usize, usize)>,
    few: Vec<(f64, u64)>,
}

/// The brackets taken together.
struct Outlook {
    /// How many values they hold.
    candidates: usize,
    /// The column with the longest bracket.
    longest: usize,
    /// Weight of all values before the brackets, and of those with all values inside.
    below: u64,
    through: u64,
}

impl Selection {
    /// Forgets earlier targets; call before turning to other columns.
    pub(crate) fn reset(&mut self, columns: usize) {
        self.brackets.clear();
        self.brackets.resize(columns, (0, 0));
    }

    /// The smallest value such that values up to it weigh at least `target`.
    ///
    /// `target` lies between 1 and the total weight, and not below the target of the call before.
    pub(crate) fn smallest_reaching(&mut self, columns: &[&SortedColumn], target: u64) -> f64 {
        let (mut below, mut through) = (0, 0);
        for (bracket, column) in self.brackets.iter_mut().zip(columns) {
            bracket.1 = column.values.len();
            below += column.below(bracket.0);
            through += column.moments.weight;
        }
        let mut outlook = self.outlook(below, through, |bracket, _| bracket);
        let mut balanced = false;
        while outlook.candidates > FEW {
            let pivot = self.pivot(columns, target, balanced, &outlook);
            let (below, through) = self.split(columns, pivot);
            let before = outlook.candidates;
            outlook = if target <= below {
                self.outlook(outlook.below, below, |bracket, split| (bracket.0, split.0))
            } else if target > through {
                self.outlook(through, outlook.through, |bracket, split| (split.1, bracket.1))
            } else {
                return pivot;
            };
            // The first pivot for a median removes only half, and is well placed all the same.
            balanced = outlook.candidates * 10 > before * 7 && !balanced;
        }
        self.among_few(columns, target, outlook.below)
    }

    /// Narrows every bracket and looks at what is left.
    fn outlook(
        &mut self,
        below: u64,
        through: u64,
        narrow: impl Fn((usize, usize), (usize, usize)) -> (usize, usize),
    ) -> Outlook {
        let mut outlook = Outlook { candidates: 0, longest: 0, below, through };
        let mut length = 0;
        self.splits.resize(self.brackets.len(), (0, 0));
        for (at, (bracket, split)) in self.brackets.iter_mut().zip(&self.splits).enumerate() {
            *bracket = narrow(*bracket, *split);
            let left = bracket.1 - bracket.0;
            outlook.candidates += left;
            if left > length {
                (outlook.longest, length) = (at, left);
            }
        }
        outlook
    }

    /// A value of the longest bracket, near where the target would be if all columns were alike.
    ///
    /// It aims a standard error past the target on the far side, so that the next bracket is narrow. With
    /// `balanced` it takes the middle instead, which bounds the rounds when columns are not alike.
    fn pivot(
        &self,
        columns: &[&SortedColumn],
        target: u64,
        balanced: bool,
        outlook: &Outlook,
    ) -> f64 {
        let (from, to) = self.brackets[outlook.longest];
        let length = to - from;
        let offset = if balanced {
            length / 2
        } else {
            let weight = outlook.through - outlook.below;
            let share = (target - outlook.below) as f64 / weight as f64;
            let error = 0.8 * (share * (1.0 - share) * length as f64).sqrt() + 0.5;
            let aim = share * length as f64 + if share > 0.5 { -error } else { error };
            (aim.max(0.0) as usize).min(length - 1)
        };
        columns[outlook.longest].values[from + offset]
    }

    /// Finds where `pivot` falls in every bracket; returns the weight of all values below it, and
    /// of those up to and with it.
    fn split(&mut self, columns: &[&SortedColumn], pivot: f64) -> (u64, u64) {
        let (mut below, mut through) = (0, 0);
        for ((&(from, to), split), column) in
            self.brackets.iter().zip(&mut self.splits).zip(columns)
        {
            let values = &column.values[from..to];
            let first = values.partition_point(|&value| value < pivot);
            let weight_below = column.below(from + first);
            below += weight_below;
            *split = (from + first, from + first);
            if values.get(first) == Some(&pivot) {
                split.1 += values[first..].partition_point(|&value| value == pivot);
                through += column.below(split.1);
            } else {
                through += weight_below;
            }
        }
        (below, through)
    }

    fn among_few(&mut self, columns: &[&SortedColumn], target: u64, below: u64) -> f64 {
        self.few.clear();
        let mut reached = below;
        for (&(from, to), column) in self.brackets.iter().zip(columns) {
            for at in from..to {
                self.few.push((column.values[at], column.below(at + 1) - column.below(at)));
            }
        }
        self.few.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut answer = f64::NAN;
        for &(value, weight) in &self.few {
            answer = value;
            reached += weight;
            if reached >= target {
                break;
            }
        }
        answer
    }
}
