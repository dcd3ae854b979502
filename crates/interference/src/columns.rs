use crate::linear::dot;
use crate::regression::Design;
use crate::series::{Measure, Series};
use crate::{Settings, Subject, Way};

/// Errors of bins within this time are taken to be alike.
const BLOCK_NS: u64 = 500_000_000;
/// Exposure that varies less than this, in cores, shows no difference to compare.
const LEAST_VARIATION: f64 = 0.02;

/// Share of stolen time from which on whoever never rests cannot be judged by time.
const MUCH_STOLEN: f64 = 0.001;

/// The same against its mean. Cycles per instruction follow small differences. Time per unit of work also follows what
/// befalls all at once: stolen time makes everybody's work longer, and so everybody's exposure to everybody; beside it
/// only who clearly comes and goes can be told from the host.
fn least_relative_variation(measure: Measure, series: &Series) -> f64 {
    if measure.is_counted() {
        return 0.02;
    }
    let stolen = mean(series.points.iter().filter_map(|point| point.stolen));
    if stolen < MUCH_STOLEN { 0.1 } else { 0.5 }
}

/// A neighbour must have been there, and away, in this many blocks: a single start says little about what it does.
const LEAST_BLOCKS: usize = 4;

/// Neighbours whose exposure is one column: one of them, or several that are always on together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) members: Vec<(Subject, Way)>,
    pub(crate) mean: f64,
}

impl Group {
    /// Its exposure at each point.
    pub(crate) fn exposure(&self, series: &Series) -> Vec<f64> {
        series.sum(|who| self.members.contains(who))
    }

    pub(crate) fn subjects(&self) -> Vec<Subject> {
        let mut subjects: Vec<Subject> = self.members.iter().map(|member| member.0).collect();
        subjects.sort_unstable();
        subjects.dedup();
        subjects
    }
}

/// Who gets a column, and who cannot be judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Columns {
    pub(crate) groups: Vec<Group>,
    pub(crate) never_quiet: Vec<Subject>,
}

/// Neighbours by exposure; those that rise and fall together are put in one column.
pub(crate) fn choose(
    series: &Series,
    measure: Measure,
    victim: Subject,
    settings: &Settings,
) -> Columns {
    let mut columns = Columns::default();
    let points = &series.points;
    let many = points.len().max(1) as f64;
    let mut means: Vec<((Subject, Way), f64)> = series
        .neighbours()
        .filter(|(who, _)| who.0 != victim && !who.0.is_reserved())
        .map(|(who, cores)| (who, cores.iter().sum::<f64>() / many))
        .filter(|(_, mean)| *mean >= settings.least_exposure)
        .collect();
    means.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    means.truncate(settings.neighbours.max(1));
    let least_relative = least_relative_variation(measure, series);
    // Exposures less their means, for each group: every pair is compared, so they are looked up once.
    let mut courses: Vec<Course> = Vec::new();
    for (who, mean) in means {
        let candidate = Group { members: vec![who], mean };
        let course = Course::of(series, &candidate);
        let deviation = (course.square / many).sqrt();
        let alike = deviation < LEAST_VARIATION || deviation < least_relative * mean;
        let in_enough_blocks = |beside: bool| {
            let there = points.iter().zip(&course.off).filter(|(_, off)| (**off >= 0.0) == beside);
            let mut last = None;
            let is_new = |block: &u64| last.replace(*block) != Some(*block);
            let blocks = there.map(|(point, _)| point.start_ns / BLOCK_NS).filter(is_new);
            blocks.take(LEAST_BLOCKS).count() == LEAST_BLOCKS
        };
        if alike || !in_enough_blocks(false) {
            columns.never_quiet.push(who.0);
            continue;
        }
        if !in_enough_blocks(true) {
            continue;
        }
        match courses.iter().position(|other| other.correlation(&course) >= settings.same) {
            Some(at) => {
                columns.groups[at].members.push(who);
                columns.groups[at].mean += mean;
                courses[at].add(&course);
            }
            None => {
                columns.groups.push(candidate);
                courses.push(course);
            }
        }
    }
    columns
}

/// A group's exposure along the series, less its mean.
pub(crate) struct Course {
    off: Vec<f64>,
    /// The sum of its squares: every pair of courses is compared.
    square: f64,
}

impl Course {
    pub(crate) fn of(series: &Series, group: &Group) -> Self {
        let mut off = group.exposure(series);
        off.iter_mut().for_each(|cores| *cores -= group.mean);
        Self { square: dot(&off, &off), off }
    }

    fn add(&mut self, other: &Self) {
        self.off.iter_mut().zip(&other.off).for_each(|(sum, more)| *sum += more);
        self.square = dot(&self.off, &self.off);
    }

    /// Pearson's.
    pub(crate) fn correlation(&self, other: &Self) -> f64 {
        dot(&self.off, &other.off) / (self.square * other.square).sqrt().max(f64::MIN_POSITIVE)
    }
}

/// The regression of log cost on everything that may move it:
///
/// `ln cost = a + b t + own threads + everybody else + stolen time + ln frequency + sum effect(n) exposure(n)`
///
/// A control that was not measured, or never moves, is a column that repeats the constant, and gets nothing.
pub(crate) fn design(
    series: &Series,
    victim: Subject,
    groups: &[Group],
    with_freq: bool,
) -> Design {
    let points = &series.points;
    let first_ns = points.first().map_or(0, |point| point.start_ns);
    let span = points.last().map_or(1.0, |last| last.start_ns.abs_diff(first_ns) as f64).max(1.0);
    let named: Vec<(Subject, Way)> = groups.iter().flat_map(|g| g.members.clone()).collect();
    let typical_freq = mean(points.iter().filter_map(|point| point.log_freq));
    let typical_steal = mean(points.iter().filter_map(|point| point.stolen));
    let stolen: Vec<f64> = points.iter().map(|p| p.stolen.unwrap_or(typical_steal)).collect();
    let own = series.sum(|who| who.0 == victim);
    let others = series.sum(|who| who.0 != victim && !named.contains(who));
    let exposures: Vec<Vec<f64>> = groups.iter().map(|group| group.exposure(series)).collect();
    let free = 8;
    let width = free + groups.len();
    let mut design = Design { width, free, ..Design::default() };
    design.x.reserve_exact(width * points.len());
    for (at, point) in points.iter().enumerate() {
        let freq = if with_freq { point.log_freq.unwrap_or(typical_freq) } else { 0.0 };
        design.x.extend([
            1.0,
            point.start_ns.abs_diff(first_ns) as f64 / span,
            own[at],
            others[at],
            stolen[at],
            around(&stolen, at, 2),
            around(&stolen, at, 6),
            freq - if with_freq { typical_freq } else { 0.0 },
        ]);
        design.x.extend(exposures.iter().map(|column| column[at]));
        design.y.push(point.cost);
        design.weight.push(point.weight);
        design.block.push(point.start_ns / BLOCK_NS);
        design.restart.push(point.restart);
    }
    design
}

/// Mean of the values near a place. The kernel tells stolen time in ticks of 10 ms, a quarter of a bin: what was
/// stolen in a bin is better known from those around it, and the regression weighs the three.
fn around(values: &[f64], at: usize, reach: usize) -> f64 {
    let near = &values[at.saturating_sub(reach)..(at + reach + 1).min(values.len())];
    near.iter().sum::<f64>() / near.len() as f64
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    if count > 0.0 { sum / count } else { 0.0 }
}
