use crate::linear::{Symmetric, dot, solve_not_negative};
use crate::tail::spread;
use crate::whiten::{autoregression, whiten, with_past};

/// Residuals beyond this many spreads count less (Huber: 95 % efficient where noise is normal).
const HUBER: f64 = 1.345;
const ROUNDS: usize = 8;
/// Effects that move less than this part of the residuals' spread have settled.
const SETTLED: f64 = 1e-3;
/// Fewer rows, or fewer blocks of half a second, are too few for an interval.
const LEAST_ROWS: usize = 40;
const LEAST_BLOCKS: usize = 12;
/// Blocks this far apart may still err alike: three seconds, the length of a phase.
const ALIKE_BLOCKS: usize = 6;

/// Rows of a regression: `y = X b`, the first `free` columns of any sign, the others at least 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Design {
    pub(crate) width: usize,
    pub(crate) free: usize,
    pub(crate) x: Vec<f64>,
    pub(crate) y: Vec<f64>,
    pub(crate) weight: Vec<f64>,
    /// Rows of one number may err together.
    pub(crate) block: Vec<u64>,
    /// The row does not follow on the one before.
    pub(crate) restart: Vec<bool>,
}

/// Effects, their standard errors (0 for one that is held at 0) and the degrees of freedom of each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fit {
    pub(crate) effect: Vec<f64>,
    pub(crate) error: Vec<f64>,
    pub(crate) df: Vec<f64>,
    /// Negative logarithm of the likelihood, with Huber's density: the less, the better it fits.
    pub(crate) misfit: f64,
}

/// Robust regression with errors that may be alike in time: Huber's weights, an autoregression of the residuals
/// taken out of both sides (feasible generalised least squares), and a sandwich over blocks for what is left.
/// `None` when there is too little to conclude from.
pub(crate) fn fit(design: &Design) -> Option<Fit> {
    solve(design)?.with_errors()
}

/// The same without the intervals, which are half of the work: enough to say which of several designs fits best.
pub(crate) fn solve(design: &Design) -> Option<Solved> {
    if design.y.len() < LEAST_ROWS.max(3 * design.width) {
        return None;
    }
    let first = robust(design)?;
    let residuals = design.residuals(&first.effect);
    let most = 4.0 * spread(&residuals);
    let phi = autoregression(&residuals, &design.restart, most);
    let white = design.whitened(&phi);
    if white.y.len() < LEAST_ROWS.max(3 * design.width) {
        return None;
    }
    let solution = robust(&white)?;
    let blocks = 1 + white.block.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let free_blocks = blocks as f64 - solution.active.len() as f64;
    if blocks < LEAST_BLOCKS || free_blocks < LEAST_BLOCKS as f64 / 2.0 {
        return None;
    }
    let residuals = white.residuals(&solution.effect);
    let misfit = white.misfit(&residuals, solution.scale);
    Some(Solved { white, solution, residuals, free_blocks, misfit })
}

/// Effects, and what their intervals are made from.
pub(crate) struct Solved {
    white: Design,
    solution: Solution,
    residuals: Vec<f64>,
    free_blocks: f64,
    /// As in [`Fit`].
    pub(crate) misfit: f64,
}

struct Solution {
    effect: Vec<f64>,
    active: Vec<usize>,
    scale: f64,
}

/// Iteratively reweighted least squares. From round to round only rows beyond the bound, or back within it, change their
/// weight, and only who was near 0 changes sides: each round goes on from what the one before had.
fn robust(design: &Design) -> Option<Solution> {
    let mut pull = vec![1.0; design.y.len()];
    let mut equations = design.normal_equations();
    let mut active: Vec<usize> = (0..design.width).collect();
    let mut solution: Option<Solution> = None;
    for _ in 0..ROUNDS {
        let (effect, held) = solve_not_negative(&equations.g, &equations.c, design.free, active);
        if !effect.iter().all(|value| value.is_finite()) {
            return None;
        }
        let residuals = design.residuals(&effect);
        let scale = spread(&residuals);
        let near = |(now, before): (&f64, &f64)| (now - before).abs() <= SETTLED * scale;
        let settled = solution.is_some_and(|last| effect.iter().zip(&last.effect).all(near));
        active = held.clone();
        solution = Some(Solution { effect, active: held, scale });
        if settled || scale <= 0.0 {
            break;
        }
        let mut change = vec![0.0; pull.len()];
        for ((pull, change), residual) in pull.iter_mut().zip(&mut change).zip(&residuals) {
            let now = (HUBER * scale / residual.abs().max(1e-300)).min(1.0);
            *change = now - *pull;
            *pull = now;
        }
        equations.add(design, &change);
    }
    solution
}

/// `g b = c`: the minimum of the weighted squares.
struct Equations {
    g: Symmetric,
    c: Vec<f64>,
}

impl Equations {
    /// Changes the pull of every row by so much.
    fn add(&mut self, design: &Design, change: &[f64]) {
        let weights = || design.weight.iter().zip(change).map(|(weight, change)| weight * change);
        let changed = |&(_, weight): &(_, f64)| weight != 0.0;
        self.g.add_squares(design.rows().zip(weights()).filter(changed));
        for ((x, y), weight) in design.rows().zip(&design.y).zip(weights()) {
            if weight != 0.0 {
                self.c.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x * y);
            }
        }
    }
}

impl Design {
    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.x.chunks_exact(self.width.max(1))
    }

    fn residuals(&self, effect: &[f64]) -> Vec<f64> {
        let fitted = self.rows().map(|x| dot(x, effect));
        self.y.iter().zip(fitted).map(|(y, fitted)| y - fitted).collect()
    }

    fn normal_equations(&self) -> Equations {
        let mut none = Equations { g: Symmetric::zero(self.width), c: vec![0.0; self.width] };
        none.add(self, &vec![1.0; self.y.len()]);
        none
    }

    fn whitened(&self, phi: &[f64]) -> Self {
        let keep = with_past(&self.restart, phi.len());
        let pick = |at: &usize| *at;
        Self {
            width: self.width,
            free: self.free,
            x: whiten(&self.x, self.width, &keep, phi),
            y: whiten(&self.y, 1, &keep, phi),
            weight: keep.iter().map(|&at| self.weight[at]).collect(),
            block: keep.iter().map(|&at| self.block[at]).collect(),
            restart: keep.iter().map(pick).map(|at| self.restart[at]).collect(),
        }
    }

    fn misfit(&self, residuals: &[f64], scale: f64) -> f64 {
        let scale = scale.max(1e-300);
        let one = |residual: f64| {
            let size = (residual / scale).abs();
            let square = 0.5 * size * size;
            scale.ln() + if size <= HUBER { square } else { HUBER * (size - 0.5 * HUBER) }
        };
        self.weight.iter().zip(residuals).map(|(weight, residual)| weight * one(*residual)).sum()
    }
}

impl Solved {
    /// The sandwich over blocks, as the jackknife would have it. With `A = sum w psi' x x'` and `a` its inverse's column
    /// for an effect, block `b` moves the effect by `u(b) = a' sum w psi x` and holds the share
    /// `h(b) = sum w (a'x)^2 / all of it` of what is known about it: the variance is `sum (u(b) / (1 - h(b)))^2`, and
    /// what neighbouring blocks add to it, with `1 / sum h(b)^2 - 1` degrees of freedom. A neighbour that came once or twice is thus known by few blocks only.
    pub(crate) fn with_errors(self) -> Option<Fit> {
        let Self { white, solution, residuals, free_blocks, misfit } = self;
        let (effect, active, bound) = (solution.effect, solution.active, HUBER * solution.scale);
        let bulk = white.rows().zip(&residuals).zip(&white.weight);
        let bulk = bulk.filter(|((_, residual), _)| residual.abs() <= bound);
        let bread = Symmetric::of_squares(white.width, bulk.map(|((x, _), weight)| (x, *weight)));
        let inverse = bread.part(&active).inverse();
        let blocks = white.influence(&active, &inverse, &residuals, bound);
        let (error, df) = (vec![0.0; white.width], vec![1.0; white.width]);
        let mut fit = Fit { effect, error, df, misfit };
        let few = blocks.len() as f64 / free_blocks;
        for (place, &at) in active.iter().enumerate() {
            let known: f64 = blocks.iter().map(|block| block[place].1).sum();
            let share = |block: &Vec<(f64, f64)>| block[place].1 / known.max(f64::MIN_POSITIVE);
            let moved = |block: &Vec<(f64, f64)>| block[place].0 / (1.0 - share(block)).max(0.1);
            let moves: Vec<f64> = blocks.iter().map(moved).collect();
            let squares: f64 = blocks.iter().map(|block| share(block).powi(2)).sum();
            fit.error[at] = (long_run_square(&moves) * few).sqrt();
            fit.df[at] = (1.0 / squares.max(1e-9) - 1.0).clamp(1.0, free_blocks);
        }
        fit.error.iter().all(|error| error.is_finite()).then_some(fit)
    }
}

impl Design {
    /// For each block and each active effect: how far the block moves it, and how much it knows about it.
    fn influence(
        &self,
        active: &[usize],
        inverse: &Symmetric,
        residuals: &[f64],
        bound: f64,
    ) -> Vec<Vec<(f64, f64)>> {
        let mut blocks = Vec::new();
        let mut block = vec![(0.0, 0.0); active.len()];
        let mut directions = vec![0.0; active.len()];
        for (at, x) in self.rows().enumerate() {
            let pull = self.weight[at] * residuals[at].clamp(-bound, bound);
            // The inverse is as symmetric as what it was made of: by its rows, all directions are summed side by side.
            directions.fill(0.0);
            for (row, &column) in inverse.cells.chunks_exact(active.len()).zip(active) {
                let x = x[column];
                if x != 0.0 {
                    directions.iter_mut().zip(row).for_each(|(sum, a)| *sum += a * x);
                }
            }
            for (sum, direction) in block.iter_mut().zip(&directions) {
                sum.0 += pull * direction;
                sum.1 += self.weight[at] * direction * direction;
            }
            if self.block.get(at + 1) != Some(&self.block[at]) {
                blocks.push(std::mem::replace(&mut block, vec![(0.0, 0.0); active.len()]));
            }
        }
        blocks
    }
}

/// Square of a sum whose terms may resemble the ones before them (Newey and West); never less than were they strangers.
fn long_run_square(terms: &[f64]) -> f64 {
    let alone: f64 = terms.iter().map(|term| term * term).sum();
    let together: f64 = (1..=ALIKE_BLOCKS)
        .map(|lag| {
            let pairs: f64 = terms.iter().zip(terms.iter().skip(lag)).map(|(a, b)| a * b).sum();
            2.0 * pairs * (1.0 - lag as f64 / (ALIKE_BLOCKS + 1) as f64)
        })
        .sum();
    alone + together.max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two columns in phases of their own, of which only the first matters; one bin in fifty is wild.
    fn design() -> Design {
        let mut random = 7_u64;
        let mut uniform = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut design = Design { width: 3, free: 1, ..Design::default() };
        let (mut a, mut b) = (0.0, 0.0);
        for at in 0..1_000_u64 {
            if at % 20 == 0 {
                (a, b) = (uniform().round(), uniform().round());
            }
            let wild = if at % 50 == 0 { 3.0 } else { 0.0 };
            let noise = (uniform() + uniform() + uniform() - 1.5) * 0.1;
            design.x.extend([1.0, a, b]);
            design.y.push(2.0 + 0.1 * a + noise + wild);
            design.weight.push(1.0);
            design.block.push(at / 12);
            design.restart.push(at == 0);
        }
        design
    }

    #[test]
    fn the_culprit_is_found_among_wild_bins_and_the_innocent_is_not_blamed() {
        let fit = fit(&design()).unwrap();
        assert!((fit.effect[1] - 0.1).abs() < 3.0 * fit.error[1], "{fit:?}");
        assert!(fit.effect[1] / fit.error[1] > 6.0, "{fit:?}");
        assert!(fit.effect[2] <= 3.0 * fit.error[2], "{fit:?}");
    }

    #[test]
    fn a_few_rows_conclude_nothing() {
        let mut short = design();
        short.y.truncate(30);
        assert_eq!(fit(&short), None);
    }
}
