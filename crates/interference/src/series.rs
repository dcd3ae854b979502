use crate::tail::median;
use crate::{Bin, Signal, Subject, Way};
use std::collections::HashMap;

/// A break longer than this ends the comparison of a bin with those before it.
const BREAK_NS: u64 = 1_000_000_000;
/// Share of bins that must have a signal for it to be the victim's.
const LEAST_COVERED: f64 = 0.5;

/// A point in a victim's series: one bin, or as many as it took to finish some work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Point {
    pub(crate) start_ns: u64,
    pub(crate) restart: bool,
    /// Logarithm of cost per unit of work.
    pub(crate) cost: f64,
    pub(crate) weight: f64,
    pub(crate) on_cpu_ns: f64,
    pub(crate) stolen: Option<f64>,
    pub(crate) log_freq: Option<f64>,
}

/// A victim's points, and beside them how many cores each neighbour kept busy at each: a column for everyone, since
/// whole columns are what a regression sums, compares and joins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) points: Vec<Point>,
    /// In the order of the neighbours.
    columns: Vec<((Subject, Way), Vec<f64>)>,
}

impl Series {
    /// Everybody who was ever beside the victim, with its exposure at each point.
    pub(crate) fn neighbours(&self) -> impl Iterator<Item = ((Subject, Way), &[f64])> {
        self.columns.iter().map(|(who, cores)| (*who, &cores[..]))
    }

    /// The exposure to one neighbour, to be changed; none if it was never there.
    pub(crate) fn exposure_mut(&mut self, who: &(Subject, Way)) -> Option<&mut [f64]> {
        let at = self.columns.binary_search_by_key(who, |column| column.0).ok()?;
        Some(&mut self.columns[at].1)
    }

    /// The exposures that `wanted` picks, summed at each point.
    pub(crate) fn sum(&self, wanted: impl Fn(&(Subject, Way)) -> bool) -> Vec<f64> {
        let mut sum = vec![0.0; self.points.len()];
        for (_, cores) in self.columns.iter().filter(|(who, _)| wanted(who)) {
            sum.iter_mut().zip(cores).for_each(|(sum, cores)| *sum += cores);
        }
        sum
    }

    /// Adds a point with those beside it. The columns come into order when all are in.
    fn push(&mut self, point: Point, beside: &[((Subject, Way), f64)], at: &mut Places) {
        let row = self.points.len();
        self.points.push(point);
        for (nth, &(who, cores)) in beside.iter().enumerate() {
            let column = at.of(nth, who, &mut self.columns);
            let (_, column) = &mut self.columns[column];
            column.resize(row + 1, 0.0);
            column[row] += cores;
        }
    }

    fn finish(mut self) -> Self {
        for (_, cores) in &mut self.columns {
            cores.resize(self.points.len(), 0.0);
        }
        self.columns.sort_unstable_by_key(|column| column.0);
        // Little work says little about its cost; much says no more than enough.
        let typical = median(&mut self.points.iter().map(|point| point.weight).collect::<Vec<_>>());
        for point in &mut self.points {
            point.weight = (point.weight / typical.max(f64::MIN_POSITIVE)).min(1.0);
        }
        self
    }
}

#[cfg(test)]
impl Series {
    /// Points with what was beside each, as a test writes them down.
    pub(crate) fn of(
        points: impl IntoIterator<Item = (Point, Vec<((Subject, Way), f64)>)>,
    ) -> Self {
        let (mut series, mut places) = (Self::default(), Places::default());
        for (point, beside) in points {
            series.push(point, &beside, &mut places);
        }
        series.finish()
    }
}

/// Where a neighbour's column is.
#[derive(Default)]
struct Places {
    known: HashMap<(Subject, Way), usize>,
    /// Where those of the point before were: mostly the same neighbours come in the same order.
    before: Vec<usize>,
}

impl Places {
    fn of(
        &mut self,
        nth: usize,
        who: (Subject, Way),
        columns: &mut Vec<((Subject, Way), Vec<f64>)>,
    ) -> usize {
        match self.before.get(nth) {
            Some(&at) if columns[at].0 == who => return at,
            _ => {}
        }
        let at = *self.known.entry(who).or_insert_with(|| {
            columns.push((who, Vec::new()));
            columns.len() - 1
        });
        self.before.truncate(nth);
        self.before.push(at);
        at
    }
}

/// What is measured along a victim's bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Cost(Signal),
    MissesPerInstruction,
    Probe,
}

impl Measure {
    /// Cost and units of work in a bin.
    fn of(self, bin: &Bin) -> Option<(f64, f64)> {
        let counted = bin.counted.as_ref();
        match self {
            Self::Cost(Signal::CyclesPerInstruction) => counted.map(|c| (c.cycles, c.instructions)),
            Self::Cost(Signal::Progress) => Some((bin.on_cpu_ns, bin.progress.unwrap_or(0.0))),
            Self::Cost(Signal::TimePerWakeup) => Some((bin.on_cpu_ns, bin.voluntary_switches)),
            Self::Cost(Signal::Frequency) => match (counted, bin.freq_mhz) {
                (Some(c), _) => Some((c.on_cpu_ns, c.cycles)),
                (None, Some(mhz)) => Some((bin.on_cpu_ns, bin.on_cpu_ns * mhz)),
                (None, None) => None,
            },
            Self::Cost(Signal::RunQueueWait) => None,
            Self::MissesPerInstruction => {
                counted.and_then(|c| Some((c.llc_misses?, c.instructions)))
            }
            Self::Probe => bin.probe.map(|log_cost| (log_cost.exp(), 1.0)),
        }
    }

    /// Whether the processor counts both what is spent and what is done.
    pub(crate) const fn is_counted(self) -> bool {
        matches!(self, Self::Cost(Signal::CyclesPerInstruction) | Self::MissesPerInstruction)
    }

    /// Work below which a bin is joined with the next: half a service time is no cost.
    fn least_work(self) -> f64 {
        match self {
            Self::Cost(Signal::TimePerWakeup) => 3.0,
            Self::Cost(Signal::Progress) => 1.0,
            _ => f64::MIN_POSITIVE,
        }
    }
}

/// The best signal these bins have.
pub(crate) fn best_signal(bins: &[&Bin]) -> Option<Signal> {
    let enough = |has: &dyn Fn(&Bin) -> bool| {
        bins.iter().filter(|bin| has(bin)).count() as f64 > LEAST_COVERED * bins.len() as f64
    };
    let counted = |bin: &Bin| bin.counted.is_some_and(|c| c.cycles > 0.0 && c.instructions > 0.0);
    let finished = bins.iter().filter_map(|bin| bin.progress).sum::<f64>();
    let switches = bins.iter().map(|bin| bin.voluntary_switches).sum::<f64>();
    if enough(&counted) {
        Some(Signal::CyclesPerInstruction)
    } else if finished > 0.0 {
        Some(Signal::Progress)
    } else if switches > LEAST_COVERED * bins.len() as f64 {
        Some(Signal::TimePerWakeup)
    } else {
        None
    }
}

/// The measure along the bins, in time order.
pub(crate) fn series(bins: &[&Bin], measure: Measure) -> Series {
    let (mut series, mut places) = (Series::default(), Places::default());
    let mut open = Open::default();
    let mut before_ns: Option<u64> = None;
    for bin in bins {
        let broken = before_ns.is_none_or(|before| bin.start_ns.abs_diff(before) > BREAK_NS);
        before_ns = Some(bin.start_ns);
        if broken {
            open.clear();
            open.restart = true;
        }
        let Some((cost, work)) = measure.of(bin) else { continue };
        open.add(bin, cost, work);
        if open.work >= measure.least_work() {
            if let Some(point) = open.point() {
                series.push(point, &open.beside, &mut places);
            }
            open.clear();
        }
    }
    series.finish()
}

#[derive(Debug, Default)]
struct Open {
    start_ns: Option<u64>,
    restart: bool,
    cost: f64,
    work: f64,
    on_cpu_ns: f64,
    time: f64,
    stolen: Option<f64>,
    log_freq: Option<f64>,
    beside: Vec<((Subject, Way), f64)>,
}

impl Open {
    /// Begins anew, in the memory it has.
    fn clear(&mut self) {
        let mut beside = std::mem::take(&mut self.beside);
        beside.clear();
        *self = Self { beside, ..Self::default() };
    }

    fn add(&mut self, bin: &Bin, cost: f64, work: f64) {
        self.start_ns.get_or_insert(bin.start_ns);
        self.cost += cost;
        self.work += work;
        self.on_cpu_ns += bin.on_cpu_ns;
        let time = if bin.probe.is_some() { 1.0 } else { bin.on_cpu_ns };
        self.time += time;
        if let Some(stolen) = bin.stolen {
            *self.stolen.get_or_insert(0.0) += stolen * time;
        }
        if let Some(mhz) = bin.freq_mhz.filter(|&mhz| mhz > 0.0) {
            *self.log_freq.get_or_insert(0.0) += mhz.ln() * time;
        }
        let exposures = bin.exposures.iter();
        self.beside
            .extend(exposures.map(|one| ((one.subject, one.way), f64::from(one.cores) * time)));
    }

    /// The point these bins make, its exposures being brought to cores.
    fn point(&mut self) -> Option<Point> {
        let cost = (self.cost / self.work).ln();
        let time = self.time;
        if !(cost.is_finite() && time > 0.0) {
            return None;
        }
        self.beside.iter_mut().for_each(|(_, cores)| *cores /= time);
        Some(Point {
            start_ns: self.start_ns.unwrap_or(0),
            restart: self.restart,
            cost,
            weight: self.work,
            on_cpu_ns: self.on_cpu_ns,
            stolen: self.stolen.map(|sum| sum / time),
            log_freq: self.log_freq.map(|sum| sum / time),
        })
    }
}
