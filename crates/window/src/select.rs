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
        for (bracket, column) in self.brackets.iter_mut().zip(columns) {
            bracket.1 = column.values.len();
        }
        let mut balanced = false;
        loop {
            let left = self.candidates();
            if left <= FEW {
                return self.among_few(columns, target);
            }
            let pivot = self.pivot(columns, target, balanced);
            match self.split(columns, pivot, target) {
                Side::Here => return pivot,
                Side::Below => {
                    for (bracket, split) in self.brackets.iter_mut().zip(&self.splits) {
                        bracket.1 = split.0;
                    }
                }
                Side::Above => {
                    for (bracket, split) in self.brackets.iter_mut().zip(&self.splits) {
                        bracket.0 = split.1;
                    }
                }
            }
            balanced = self.candidates() > left / 2 && !balanced;
        }
    }

    fn candidates(&self) -> usize {
        self.brackets.iter().map(|(from, to)| to - from).sum()
    }

    /// A value of the longest bracket, near where the target would be if all columns were alike.
    ///
    /// It aims a standard error past the target on the far side, so that the next bracket is narrow. With
    /// `balanced` it takes the middle instead, which bounds the rounds when columns are not alike.
    fn pivot(&self, columns: &[&SortedColumn], target: u64, balanced: bool) -> f64 {
        let (mut longest, mut length) = (0, 0);
        let (mut below, mut through) = (0, 0);
        for (at, (&(from, to), column)) in self.brackets.iter().zip(columns).enumerate() {
            if to - from > length {
                (longest, length) = (at, to - from);
            }
            below += column.below(from);
            through += column.below(to);
        }
        let offset = if balanced {
            length / 2
        } else {
            let share = (target - below) as f64 / (through - below) as f64;
            let error = 0.7 * (length as f64).sqrt();
            let aim = share * length as f64 + if share > 0.5 { -error } else { error };
            (aim.max(0.0) as usize).min(length - 1)
        };
        columns[longest].values[self.brackets[longest].0 + offset]
    }

    /// Finds where `pivot` falls in every bracket, and on which side of it the target is.
    fn split(&mut self, columns: &[&SortedColumn], pivot: f64, target: u64) -> Side {
        self.splits.clear();
        let (mut below, mut through) = (0, 0);
        for (&(from, to), column) in self.brackets.iter().zip(columns) {
            let values = &column.values[from..to];
            let first = values.partition_point(|&value| value < pivot);
            let equal = match values.get(first) {
                Some(&value) if value == pivot => {
                    values[first..].partition_point(|&value| value == pivot)
                }
                _ => 0,
            };
            let split = (from + first, from + first + equal);
            below += column.below(split.0);
            through += if equal == 0 { column.below(split.0) } else { column.below(split.1) };
            self.splits.push(split);
        }
        if target <= below {
            Side::Below
        } else if target <= through {
            Side::Here
        } else {
            Side::Above
        }
    }

    fn among_few(&mut self, columns: &[&SortedColumn], target: u64) -> f64 {
        self.few.clear();
        let mut reached = 0;
        for (&(from, to), column) in self.brackets.iter().zip(columns) {
            reached += column.below(from);
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

/// Where the target is, seen from a pivot.
enum Side {
    Below,
    Here,
    Above,
}
