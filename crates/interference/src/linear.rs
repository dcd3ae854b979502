/// A symmetric matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Symmetric {
    pub(crate) size: usize,
    pub(crate) cells: Vec<f64>,
}

/// Share of a column that must be its own: below, it is a sum of the columns before it.
const LEAST_OWN: f64 = 1e-9;

impl Symmetric {
    pub(crate) fn zero(size: usize) -> Self {
        Self { size, cells: vec![0.0; size * size] }
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> f64 {
        self.cells[row * self.size + column]
    }

    /// The sum of `weight * x x'` over rows.
    pub(crate) fn of_squares<'a>(
        size: usize,
        rows: impl Iterator<Item = (&'a [f64], f64)>,
    ) -> Self {
        let mut sum = Self::zero(size);
        sum.add_squares(rows);
        sum
    }

    /// Adds `weight * x x'` of every row; a negative weight takes away.
    pub(crate) fn add_squares<'a>(&mut self, rows: impl Iterator<Item = (&'a [f64], f64)>) {
        let size = self.size;
        let mut rows = rows.fuse();
        while let Some(first) = rows.next() {
            let mut next = || rows.next().unwrap_or((first.0, 0.0));
            self.add_four(&[first, next(), next(), next()]);
        }
        for row in 0..size {
            for column in 0..row {
                self.cells[row * size + column] = self.at(column, row);
            }
        }
    }

    /// Adds four rows at a time, one after the other, to the half above the diagonal: each cell is fetched once for all.
    fn add_four(&mut self, rows: &[(&[f64], f64); 4]) {
        let size = self.size;
        for at in 0..size {
            let left = rows.map(|(x, weight)| x[at] * weight);
            if left == [0.0; 4] {
                continue;
            }
            let half = &mut self.cells[at * size + at..(at + 1) * size];
            let [a, b, c, d] = rows.map(|(x, _)| &x[at..size]);
            for ((((cell, a), b), c), d) in half.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *cell = *cell + left[0] * a + left[1] * b + left[2] * c + left[3] * d;
            }
        }
    }

    /// The rows and columns listed.
    pub(crate) fn part(&self, of: &[usize]) -> Self {
        let cells = of.iter().flat_map(|&row| of.iter().map(move |&column| self.at(row, column)));
        Self { size: of.len(), cells: cells.collect() }
    }

    /// The inverse by Gauss and Jordan, over the columns that are not sums of others; the cells of those are 0.
    pub(crate) fn inverse(&self) -> Self {
        let size = self.size;
        let mut left = self.clone();
        let mut right = Self::zero(size);
        let mut used = Vec::with_capacity(size);
        for pivot in 0..size {
            let value = left.at(pivot, pivot);
            if !(value > LEAST_OWN * self.at(pivot, pivot) && value.is_normal()) {
                continue;
            }
            used.push(pivot);
            right.cells[pivot * size + pivot] = 1.0;
            for column in 0..size {
                left.cells[pivot * size + column] /= value;
                right.cells[pivot * size + column] /= value;
            }
            for row in (0..size).filter(|&row| row != pivot) {
                let factor = left.at(row, pivot);
                for column in 0..size {
                    left.cells[row * size + column] -= factor * left.at(pivot, column);
                    right.cells[row * size + column] -= factor * right.at(pivot, column);
                }
            }
        }
        for row in 0..size {
            for column in 0..size {
                if !(used.contains(&row) && used.contains(&column)) {
                    right.cells[row * size + column] = 0.0;
                }
            }
        }
        right
    }

    /// The `b` with `G b = c`, over the columns that are not sums of those before them; the others get 0. By Cholesky's
    /// factors, a twelfth of the work of an inverse.
    pub(crate) fn solve(&self, c: &[f64]) -> Vec<f64> {
        let size = self.size;
        let mut lower = vec![0.0; size * size];
        let mut is_used = vec![false; size];
        let mut b = vec![0.0; size];
        for row in 0..size {
            let (above, rest) = lower.split_at_mut(row * size);
            let this = &mut rest[..size];
            for column in (0..row).filter(|&column| is_used[column]) {
                let that = &above[column * size..][..size];
                let known = dot(&this[..column], &that[..column]);
                this[column] = (self.at(row, column) - known) / that[column];
            }
            let own = self.at(row, row) - dot(&this[..row], &this[..row]);
            is_used[row] = own > LEAST_OWN * self.at(row, row) && own.is_normal();
            if is_used[row] {
                this[row] = own.sqrt();
                b[row] = (c[row] - dot(&this[..row], &b[..row])) / this[row];
            } else {
                this.fill(0.0);
            }
        }
        for row in (0..size).rev().filter(|&row| is_used[row]) {
            let after = (row + 1..size).map(|below| lower[below * size + row] * b[below]);
            b[row] = (b[row] - after.sum::<f64>()) / lower[row * size + row];
        }
        b
    }

    pub(crate) fn times(&self, x: &[f64]) -> Vec<f64> {
        let rows = self.cells.chunks_exact(self.size.max(1));
        rows.map(|row| dot(row, x)).collect()
    }
}

/// The sum of products, in eight sums side by side: in a single one each addition would wait for the one before.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum += a * b;
    }
    let [a, b, c, d, e, f, g, h] = sums;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

/// Minimises `b'Gb/2 - c'b` with every element of `b` from `free` on at least 0 (active set). Also says which
/// elements are not held at 0. `active` is where the search begins: everybody, or what an equation much like this one
/// ended with.
pub(crate) fn solve_not_negative(
    g: &Symmetric,
    c: &[f64],
    free: usize,
    mut active: Vec<usize>,
) -> (Vec<f64>, Vec<usize>) {
    let mut returned = vec![false; g.size];
    loop {
        let c_active: Vec<f64> = active.iter().map(|&at| c[at]).collect();
        let solution = g.part(&active).solve(&c_active);
        let worst = (0..active.len())
            .filter(|&at| active[at] >= free && solution[at] < 0.0)
            .min_by(|&a, &b| solution[a].total_cmp(&solution[b]));
        if let Some(worst) = worst {
            active.remove(worst);
            continue;
        }
        let mut b = vec![0.0; g.size];
        for (&at, value) in active.iter().zip(solution) {
            b[at] = value;
        }
        // Whoever would help again comes back, once: rounding must not send it to and fro.
        let slope = g.times(&b);
        let back = (free..g.size)
            .filter(|at| !active.contains(at) && !returned[*at])
            .filter(|&at| c[at] - slope[at] > 1e-9 * c[at].abs().max(1e-300))
            .max_by(|&x, &y| (c[x] - slope[x]).total_cmp(&(c[y] - slope[y])));
        let Some(back) = back else { return (b, active) };
        returned[back] = true;
        active.push(back);
        active.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_effect_is_held_at_zero_and_the_rest_is_solved_without_it() {
        let g = Symmetric { size: 2, cells: vec![2.0, 1.0, 1.0, 2.0] };
        let (free, _) = solve_not_negative(&g, &[4.0, 1.0], 2, vec![0, 1]);
        assert!((free[1] + 2.0 / 3.0).abs() < 1e-12, "{free:?}");
        for begin in [vec![0, 1], vec![0]] {
            let (held, active) = solve_not_negative(&g, &[4.0, 1.0], 1, begin);
            assert_eq!(active, [0]);
            assert!((held[0] - 2.0).abs() < 1e-12 && held[1] == 0.0, "{held:?}");
        }
        let (back, active) = solve_not_negative(&g, &[4.0, 3.0], 1, vec![0]);
        assert_eq!(active, [0, 1], "who would help comes back: {back:?}");
    }

    #[test]
    fn a_column_that_repeats_another_gets_nothing_instead_of_nonsense() {
        let rows = [[1.0, 2.0, 2.0], [1.0, -1.0, -1.0], [1.0, 0.5, 0.5]];
        let g = Symmetric::of_squares(3, rows.iter().map(|row| (&row[..], 1.0)));
        let inverse = g.inverse();
        assert!(inverse.cells.iter().all(|cell| cell.is_finite()));
        assert_eq!(inverse.at(2, 2), 0.0);
        let c = [1.0, 2.0, 3.0];
        let (solved, by_inverse) = (g.solve(&c), inverse.times(&c));
        assert_eq!(solved[2], 0.0);
        assert!(solved.iter().zip(by_inverse).all(|(a, b)| (a - b).abs() < 1e-9), "{solved:?}");
    }
}
