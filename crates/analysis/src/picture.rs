//! What a report draws of a victim: its cost along the run with who was active under it, and how its cost is
//! distributed with the aggressor beside it and without.

use crate::close_up::CloseUp;
use crate::subjects::Subjects;
use crate::timeline::{Cell, Timeline};
use crosstalk_interference::{Bin, Findings, Signal, Subject, Verdict, VictimBins};
use serde::Serialize;

/// Victims of a run that are drawn, those that lost most.
const MOST_PICTURES: usize = 12;
const MOST_LANES: usize = 4;
const BUCKETS: usize = 41;

/// A victim, drawn.
#[derive(Clone, Debug, Serialize)]
pub struct Picture {
    /// Who.
    pub victim: String,
    /// By which signal its cost was measured.
    pub signal: &'static str,
    /// Start of the first column, Unix nanoseconds.
    pub from_ns: u64,
    /// Length of a column.
    pub column_ns: u64,
    /// Cost over its usual cost without the aggressor; of waiting, the share of time waited. None where it did no work.
    pub cost: Vec<Option<f32>>,
    /// Slots with losses, by column; empty if there were none.
    pub lost: Vec<u32>,
    /// Who was active, in cores, by column; those it lost time to.
    pub lanes: Vec<Lane>,
    /// Its cost beside an aggressor and without, for each.
    pub distributions: Vec<Distribution>,
    /// Half a second, slot by slot.
    pub close_up: Option<CloseUp>,
}

/// A neighbour's activity.
#[derive(Clone, Debug, Serialize)]
pub struct Lane {
    /// Who.
    pub name: String,
    /// Cores kept busy, by column.
    pub cores: Vec<f32>,
}

/// How often a cost was met, beside an aggressor and without.
#[derive(Clone, Debug, Serialize)]
pub struct Distribution {
    /// Beside whom.
    pub aggressor: String,
    /// Least cost drawn, over the median without.
    pub low: f64,
    /// Greatest.
    pub high: f64,
    /// Share of bins beside the aggressor, by bucket of cost.
    pub on: Vec<f32>,
    /// The same without it.
    pub off: Vec<f32>,
    /// Median beside it, over the median without.
    pub on_median: f64,
    /// Bins beside it, and without.
    pub bins: (usize, usize),
}

/// A picture that is still to be given a close-up, and where.
pub(crate) struct Draft {
    pub(crate) picture: Picture,
    pub(crate) victim: Subject,
    pub(crate) aggressors: Vec<Subject>,
    /// When the aggressor came.
    pub(crate) onset_ns: Option<u64>,
}

/// Pictures of those who lost most.
pub(crate) fn draw(
    findings: &Findings,
    bins: &[VictimBins<'_>],
    timeline: &Timeline,
    subjects: &Subjects,
) -> Vec<Draft> {
    let mut victims: Vec<Subject> = Vec::new();
    for verdict in &findings.verdicts {
        if !victims.contains(&verdict.victim) && victims.len() < MOST_PICTURES {
            victims.push(verdict.victim);
        }
    }
    let of = |victim: &Subject| {
        let verdicts: Vec<&Verdict> =
            findings.verdicts.iter().filter(|verdict| verdict.victim == *victim).collect();
        let bins = bins.iter().find(|one| one.victim == *victim).map_or(&[][..], |one| &one.bins);
        one(*victim, &verdicts, bins, timeline, subjects)
    };
    victims.iter().map(of).collect()
}

fn one(
    victim: Subject,
    verdicts: &[&Verdict],
    bins: &[&Bin],
    timeline: &Timeline,
    subjects: &Subjects,
) -> Draft {
    let signal = verdicts[0].signal;
    let mut aggressors: Vec<Subject> =
        verdicts.iter().flat_map(|verdict| verdict.aggressors.clone()).collect();
    let mut seen = Vec::new();
    aggressors.retain(|one| {
        !seen.contains(one) && {
            seen.push(*one);
            true
        }
    });
    aggressors.truncate(MOST_LANES);
    let by_effect = |v: &&&Verdict| v.signal != Signal::RunQueueWait;
    let distributions: Vec<(Distribution, f64)> = verdicts
        .iter()
        .filter(by_effect)
        .filter_map(|verdict| distribution(verdict, bins, subjects))
        .collect();
    let usual = distributions.first().map(|(_, off_median)| *off_median);
    let mut cost = costs(&timeline.track(victim), signal);
    if signal != Signal::RunQueueWait {
        let usual = usual.unwrap_or_else(|| median(cost.iter().flatten().copied().collect()));
        for one in cost.iter_mut().flatten() {
            *one /= usual.max(f64::MIN_POSITIVE);
        }
    }
    let lane = |subject: &Subject| Lane {
        name: subjects.name(*subject).to_owned(),
        cores: (timeline.track(*subject).iter())
            .map(|cell| rounded(cell.on_cpu_ns / timeline.column_ns as f64))
            .collect(),
    };
    let lost = timeline.lost();
    Draft {
        onset_ns: onset(bins, &verdicts[0].aggressors),
        victim,
        picture: Picture {
            victim: subjects.name(victim).to_owned(),
            signal: signal.name(),
            from_ns: timeline.from_ns,
            column_ns: timeline.column_ns,
            cost: cost.into_iter().map(|one| one.map(rounded)).collect(),
            lost: if lost.iter().any(|n| *n > 0) { lost } else { Vec::new() },
            lanes: aggressors.iter().map(lane).collect(),
            distributions: distributions.into_iter().map(|(one, _)| one).collect(),
            close_up: None,
        },
        aggressors,
    }
}

/// Cost by column. Columns in which too little was finished are joined with those after them.
fn costs(cells: &[Cell], signal: Signal) -> Vec<Option<f64>> {
    let parts = |cell: &Cell| match signal {
        Signal::CyclesPerInstruction => (cell.cycles, cell.instructions),
        Signal::Progress => (cell.on_cpu_ns, cell.units),
        Signal::TimePerWakeup => (cell.on_cpu_ns, cell.switches),
        Signal::Frequency => (cell.on_cpu_ns, cell.cycles),
        Signal::RunQueueWait => (cell.wait_ns, cell.wait_ns + cell.on_cpu_ns),
    };
    let least = if signal == Signal::TimePerWakeup { 3.0 } else { 1.0 };
    let mut costs = Vec::with_capacity(cells.len());
    let (mut cost, mut work, mut open, mut ran) = (0.0, 0.0, 0, Vec::new());
    for cell in cells {
        let (more, done) = parts(cell);
        cost += more;
        work += done;
        open += 1;
        ran.push(cell.on_cpu_ns > 0.0);
        // A pause is drawn as one, not as a part of the work after it.
        let rests = open > 25 && cost == 0.0;
        if work >= least || rests {
            let value = (work >= least).then(|| cost / work);
            costs.extend(ran.drain(..).map(|ran| value.filter(|_| ran)));
            (cost, work, open) = (0.0, 0.0, 0);
        }
    }
    costs.resize(cells.len(), None);
    costs
}

/// Cost of bins with much of the aggressor beside them, and with none, over the median of the latter; and that median.
fn distribution(
    verdict: &Verdict,
    bins: &[&Bin],
    subjects: &Subjects,
) -> Option<(Distribution, f64)> {
    let (mut on, mut off): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let (mut cost, mut work, mut beside, mut time) = (0.0, 0.0, 0.0, 0.0);
    let least = if verdict.signal == Signal::TimePerWakeup { 3.0 } else { 1.0 };
    let mut before_ns = 0;
    for bin in bins {
        if bin.start_ns.abs_diff(before_ns) > 1_000_000_000 {
            (cost, work, beside, time) = (0.0, 0.0, 0.0, 0.0);
        }
        before_ns = bin.start_ns;
        let (more, done) = match verdict.signal {
            Signal::CyclesPerInstruction => {
                bin.counted.map_or((0.0, 0.0), |c| (c.cycles, c.instructions))
            }
            Signal::Progress => (bin.on_cpu_ns, bin.progress.unwrap_or(0.0)),
            Signal::TimePerWakeup => (bin.on_cpu_ns, bin.voluntary_switches),
            Signal::Frequency => bin.counted.map_or((0.0, 0.0), |c| (c.on_cpu_ns, c.cycles)),
            Signal::RunQueueWait => return None,
        };
        cost += more;
        work += done;
        beside += exposure(bin, &verdict.aggressors) * bin.on_cpu_ns;
        time += bin.on_cpu_ns;
        if work < least || time <= 0.0 {
            continue;
        }
        let cores = beside / time;
        if cores >= verdict.evidence.exposure {
            on.push(cost / work);
        } else if cores <= 0.25 * verdict.evidence.exposure {
            off.push(cost / work);
        }
        (cost, work, beside, time) = (0.0, 0.0, 0.0, 0.0);
    }
    if on.len() < 5 || off.len() < 5 {
        return None;
    }
    let bins = (on.len(), off.len());
    let usual = median(off.clone());
    let mut all: Vec<f64> = on.iter().chain(&off).map(|cost| cost / usual).collect();
    all.sort_by(f64::total_cmp);
    let (low, high) = (all[all.len() / 50], all[all.len() - 1 - all.len() / 50]);
    let spread = (high - low).max(1e-6);
    let (low, high) = (low - 0.1 * spread, high + 0.1 * spread);
    let shares = |costs: &[f64]| {
        let mut counts = vec![0.0_f64; BUCKETS];
        for cost in costs {
            let at = (cost / usual - low) / (high - low) * BUCKETS as f64;
            counts[(at.max(0.0) as usize).min(BUCKETS - 1)] += 1.0;
        }
        counts.iter().map(|count| rounded(count / costs.len() as f64)).collect()
    };
    let names: Vec<&str> = verdict.aggressors.iter().map(|one| subjects.name(*one)).collect();
    let distribution = Distribution {
        aggressor: names.join(" + "),
        low,
        high,
        on: shares(&on),
        off: shares(&off),
        on_median: median(on) / usual,
        bins,
    };
    Some((distribution, usual))
}

fn exposure(bin: &Bin, to: &[Subject]) -> f64 {
    bin.exposures.iter().filter(|e| to.contains(&e.subject)).map(|e| f64::from(e.cores)).sum()
}

/// Where the aggressor came most suddenly: little of it in the four bins before, much in the four after.
fn onset(bins: &[&Bin], aggressors: &[Subject]) -> Option<u64> {
    let beside: Vec<f64> = bins.iter().map(|bin| exposure(bin, aggressors)).collect();
    let mut best: Option<(f64, u64)> = None;
    for at in 4..bins.len().saturating_sub(4) {
        if bins[at + 3].start_ns.abs_diff(bins[at - 4].start_ns) > 500_000_000 {
            continue;
        }
        let rise = beside[at..at + 4].iter().sum::<f64>() - beside[at - 4..at].iter().sum::<f64>();
        if best.is_none_or(|(most, _)| rise > most) {
            best = Some((rise, bins[at].start_ns));
        }
    }
    best.filter(|(rise, _)| *rise > 0.0).map(|(_, at_ns)| at_ns)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(1.0)
}

/// Four digits are more than can be seen, and keep a report small.
fn rounded(value: f64) -> f32 {
    ((value * 10_000.0).round() / 10_000.0) as f32
}
