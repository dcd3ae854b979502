use crate::aftermath::lingering;
use crate::columns::{Columns, Course, Group, choose, design};
use crate::regression::{Fit, fit, solve};
use crate::series::{Measure, Series, series};
use crate::tail::{student_975, student_above};
use crate::{Settings, Signal, Subject, VictimBins};

/// Standard error of the model itself, as a share of an effect: cost does not rise exactly exponentially with
/// exposure; and where work is counted in pieces, one may begin in a bin and end in the next.
const fn model_error(signal: Signal) -> f64 {
    match signal {
        Signal::CyclesPerInstruction => 0.03,
        // A clock is set some milliseconds after cores wake or rest.
        Signal::Frequency => 0.12,
        Signal::Progress | Signal::TimePerWakeup | Signal::RunQueueWait => 0.06,
    }
}

/// How long a neighbour's doing may outlast its presence: what it drove out of a cache has to be brought back.
/// A victim that fetches little is cold for long.
const AFTERMATHS_NS: [f64; 4] = [40e6, 120e6, 400e6, 1_200e6];
/// Chance below which somebody is noticed: then it is worth asking how long what it does lasts.
const NOTICED: f64 = 0.01;
/// Gain of the likelihood's logarithm from which an aftermath is believed.
const CLEARLY_BETTER: f64 = 5.0;

/// Correlation from which two neighbours may hide each other's effect.
const LOOKALIKE: f64 = 0.6;
/// Pairs of lookalikes that are tried as one.
const MOST_JOINS: usize = 4;
/// Chance below which an effect stands out before all the others that were looked at are counted.
const CLEAR: f64 = 0.001;

/// One measure of one victim, regressed on all neighbours at once.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) signal: Signal,
    pub(crate) series: Series,
    pub(crate) columns: Columns,
    /// How many chances it had to blame somebody.
    pub(crate) tests: usize,
    fit: Option<Fit>,
    free: usize,
}

/// What a group's exposure did to the measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Effect {
    pub(crate) per_core: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) t: f64,
    /// Probability of as much by chance.
    pub(crate) chance: f64,
}

impl Trial {
    /// Who moves the victim's cost by this signal.
    pub(crate) fn of_cost(victim: &VictimBins<'_>, signal: Signal, settings: &Settings) -> Self {
        let measure = Measure::Cost(signal);
        let series = series(&victim.bins, measure);
        let columns = choose(&series, measure, victim.victim, settings);
        let at_once = Self::run(victim.victim, signal, series, columns);
        at_once.with_aftermath(victim.victim).with_lookalikes_joined(victim.victim)
    }

    /// The same with exposures that fade, if the victim's cost follows those clearly better. A clock follows at once,
    /// and where nobody is noticed there is nothing that could last: most victims are spared the further fits.
    fn with_aftermath(self, victim: Subject) -> Self {
        let Some(at_once) = self.fit.as_ref().map(|fit| fit.misfit) else { return self };
        let is_noticed = |at: usize| self.effect(at).is_some_and(|effect| effect.chance < NOTICED);
        let anybody = (0..self.columns.groups.len()).any(is_noticed);
        if self.signal == Signal::Frequency || !anybody {
            return self;
        }
        let tests = self.tests + 1;
        let (mut best, mut least) = (None, at_once);
        for aftermath_ns in AFTERMATHS_NS {
            let mut columns = self.columns.clone();
            let series = lingering(&self.series, aftermath_ns, &mut columns.groups);
            // Once longer is worse, still longer is no better.
            match solve(&design(&series, victim, &columns.groups, true)) {
                Some(solved) if solved.misfit < least => {
                    least = solved.misfit;
                    best = Some((series, columns, solved));
                }
                _ => break,
            }
        }
        let is_better = at_once - least > CLEARLY_BETTER;
        let best = best.filter(|_| is_better);
        match best
            .and_then(|(series, columns, solved)| Some((series, columns, solved.with_errors()?)))
        {
            Some((series, columns, fit)) => Self { tests, series, columns, fit: Some(fit), ..self },
            None => self,
        }
    }

    /// Two neighbours that are mostly on together may each be excused by the other. Where neither stands out but their
    /// sum does, they are a group: which of them it is cannot be told.
    fn with_lookalikes_joined(mut self, victim: Subject) -> Self {
        for (one, other) in self.lookalikes() {
            if self.stands_out(one) || self.stands_out(other) {
                continue;
            }
            self.tests += 1;
            let mut columns = self.columns.clone();
            let gone = columns.groups.remove(other);
            columns.groups[one].members.extend(gone.members);
            columns.groups[one].mean += gone.mean;
            let fit = fit(&design(&self.series, victim, &columns.groups, self.with_freq()));
            let apart = (std::mem::replace(&mut self.fit, fit), self.columns);
            self.columns = columns;
            if self.stands_out(one) {
                return self;
            }
            (self.fit, self.columns) = apart;
        }
        self
    }

    /// Pairs of columns, the first before the second, most alike first.
    fn lookalikes(&self) -> Vec<(usize, usize)> {
        let groups = self.columns.groups.iter();
        let courses: Vec<Course> = groups.map(|group| Course::of(&self.series, group)).collect();
        let mut pairs = Vec::new();
        for other in 0..courses.len() {
            for one in 0..other {
                let alike = courses[one].correlation(&courses[other]);
                if alike >= LOOKALIKE {
                    pairs.push((alike, (one, other)));
                }
            }
        }
        pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
        pairs.into_iter().take(MOST_JOINS).map(|(_, pair)| pair).collect()
    }

    fn stands_out(&self, group: usize) -> bool {
        self.effect(group).is_some_and(|effect| effect.chance < CLEAR)
    }

    /// The same neighbours, by misses per instruction.
    pub(crate) fn of_misses(victim: &VictimBins<'_>, groups: &[Group]) -> Self {
        let series = series(&victim.bins, Measure::MissesPerInstruction);
        let columns = Columns { groups: groups.to_vec(), never_quiet: Vec::new() };
        Self::run(victim.victim, Signal::CyclesPerInstruction, series, columns)
    }

    /// Who makes memory slow for the probe.
    pub(crate) fn of_probe(probe: &VictimBins<'_>, settings: &Settings) -> Self {
        let series = series(&probe.bins, Measure::Probe);
        let columns = choose(&series, Measure::Probe, Subject::PROBE, settings);
        Self::run(Subject::PROBE, Signal::TimePerWakeup, series, columns)
    }

    fn run(victim: Subject, signal: Signal, series: Series, columns: Columns) -> Self {
        let design = design(&series, victim, &columns.groups, signal != Signal::Frequency);
        let fit = if columns.groups.is_empty() { None } else { fit(&design) };
        let tests = columns.groups.len();
        Self { signal, series, columns, tests, fit, free: design.free }
    }

    /// Whether the clock is a term beside the neighbours, and not what they are judged by.
    fn with_freq(&self) -> bool {
        self.signal != Signal::Frequency
    }

    pub(crate) const fn is_judged(&self) -> bool {
        self.fit.is_some()
    }

    /// The effect of the group at this place; none where nothing could be fitted, or the group makes nothing slower.
    pub(crate) fn effect(&self, group: usize) -> Option<Effect> {
        let fit = self.fit.as_ref()?;
        let at = self.free + group;
        let (per_core, error, df) = (*fit.effect.get(at)?, fit.error[at], fit.df[at]);
        if !(per_core > 0.0 && error > 0.0) {
            return None;
        }
        let reach = student_975(df) * error.hypot(model_error(self.signal) * per_core);
        let t = per_core / error;
        Some(Effect {
            per_core,
            low: (per_core - reach).max(0.0),
            high: per_core + reach,
            t,
            chance: student_above(t, df),
        })
    }

    /// Who moves this measure, all who were looked at being counted; of several that cannot be told apart, each.
    pub(crate) fn convicted(&self, false_alarm: f64) -> Vec<Subject> {
        let is_convicted = |at: usize| {
            self.effect(at).is_some_and(|effect| effect.chance * self.tests as f64 <= false_alarm)
        };
        let groups = self.columns.groups.iter().enumerate();
        groups.filter(|(at, _)| is_convicted(*at)).flat_map(|(_, group)| group.subjects()).collect()
    }

    /// How far the subjects move this measure, for a core of exposure.
    pub(crate) fn per_core_of(&self, subjects: &[Subject]) -> Option<f64> {
        self.fit.as_ref()?;
        let concerned = |group: &Group| group.members.iter().any(|who| subjects.contains(&who.0));
        let groups = self.columns.groups.iter().enumerate().filter(|(_, group)| concerned(group));
        let effects = groups.map(|(at, _)| self.effect(at).map_or(0.0, |effect| effect.per_core));
        effects.fold(None, |most, one| Some(most.map_or(one, |most: f64| most.max(one))))
    }

    /// How surely the subjects move this measure.
    pub(crate) fn t_of(&self, subjects: &[Subject]) -> Option<f64> {
        self.fit.as_ref()?;
        let concerned = |group: &Group| group.members.iter().any(|who| subjects.contains(&who.0));
        let groups = self.columns.groups.iter().enumerate().filter(|(_, group)| concerned(group));
        let t = groups.map(|(at, _)| self.effect(at).map_or(0.0, |effect| effect.t));
        t.fold(None, |most, t| Some(most.map_or(t, |most: f64| most.max(t))))
    }

    /// Time between the first and the last point at which the group was beside the victim.
    pub(crate) fn extent(&self, group: &Group, bin_ns: u64) -> (u64, u64) {
        let exposure = group.exposure(&self.series);
        let beside = |&(_, cores): &(_, &f64)| *cores >= 0.5 * group.mean;
        let points = || self.series.points.iter().zip(&exposure).filter(beside);
        let starts = || points().map(|(point, _)| point.start_ns);
        let from_ns = starts().min().unwrap_or(0);
        (from_ns, starts().max().unwrap_or(from_ns).saturating_add(bin_ns))
    }

    /// Share of the victim's time in the extent that it would not have needed without the group:
    /// `sum on_cpu (1 - exp(-effect exposure)) / sum on_cpu`, each point weighed by how much it stands for.
    pub(crate) fn lost(
        &self,
        group: &Group,
        per_core: f64,
        (from_ns, to_ns): (u64, u64),
        weigh: impl Fn(u64) -> f64,
    ) -> f64 {
        let (mut lost_ns, mut total_ns) = (0.0, 0.0);
        for (start_ns, lost, on_cpu_ns) in self.losses(group, per_core) {
            if (from_ns..to_ns).contains(&start_ns) {
                lost_ns += lost * weigh(start_ns);
                total_ns += on_cpu_ns * weigh(start_ns);
            }
        }
        lost_ns / f64::max(total_ns, 1.0)
    }

    /// When each point begins, what was lost in it, and the victim's time.
    pub(crate) fn losses(
        &self,
        group: &Group,
        per_core: f64,
    ) -> impl Iterator<Item = (u64, f64, f64)> {
        let exposures = group.exposure(&self.series).into_iter();
        self.series.points.iter().zip(exposures).map(move |(point, cores)| {
            let lost_ns = -point.on_cpu_ns * (-per_core * cores).exp_m1();
            (point.start_ns, lost_ns, point.on_cpu_ns)
        })
    }
}
