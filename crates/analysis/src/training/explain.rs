use super::{Cause, SlowIteration, Sum, TrainingReport};
use crate::progress::{Iteration, Progress};
use crate::report::NamedVerdict;
use crosstalk_interference::{
    Because, Bin, Exposure, Findings, Settings, Subject, VictimBins, Way, judge,
};
use std::collections::HashMap;

/// An iteration is slow when it takes this many times the usual spread, and this share, longer than the median.
const SPREADS: f64 = 3.0;
const LEAST_SHARE: f64 = 0.03;
/// The standard deviation of what is normal, over the median of distances from the median.
const NORMAL: f64 = 1.4826;
const LISTED: usize = 1_000;
const MOST_HOLDERS: usize = 16;
const DRAWN: usize = 2_000;
/// Shares of an excess below this are not worth a line.
const WORTH_SAYING: f64 = 0.02;
/// The trainer, among the numbers that neighbours of all nodes are given here.
const TRAINER: Subject = Subject(0);

/// What one run's recording knows of the iterations.
pub(crate) struct Seen {
    pub(crate) node: String,
    pub(crate) trainer: String,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) sums: Vec<Sum>,
    /// Names of the neighbours in the sums.
    pub(crate) names: HashMap<Subject, String>,
    /// What was concluded of the trainer in this run.
    pub(crate) verdicts: Vec<NamedVerdict>,
}

impl Seen {
    fn covers(&self, iteration: &Iteration) -> bool {
        iteration.start_ns >= self.from_ns && iteration.end_ns <= self.to_ns
    }
}

/// How much each iteration lost to one cause: estimate, at least, at most, in seconds.
struct Loss {
    cause: Cause,
    seconds: Vec<[f64; 3]>,
}

/// Says which iterations were slow, and who made them so.
pub(crate) fn explain(progress: &Progress, seen: &[Seen]) -> TrainingReport {
    let iterations = &progress.iterations;
    let median = median(iterations.iter().map(|one| one.seconds));
    let spread = NORMAL * self::median(iterations.iter().map(|one| (one.seconds - median).abs()));
    let slow_from = median + (SPREADS * spread).max(LEAST_SHARE * median);
    let covered: Vec<bool> =
        iterations.iter().map(|one| seen.iter().any(|run| run.covers(one))).collect();
    let (mut losses, mut cannot_tell) = effects(iterations, &covered, seen);
    losses.extend(waits(iterations, seen));
    for loss in &mut losses {
        // What it usually costs is in the median already.
        let usual = self::median(covered_only(&loss.seconds, &covered).map(|loss| loss[0]));
        for one in &mut loss.seconds {
            *one = one.map(|seconds| (seconds - usual).max(0.0));
        }
    }
    let mut slow: Vec<SlowIteration> = Vec::new();
    for (at, one) in iterations.iter().enumerate().filter(|(_, one)| one.seconds > slow_from) {
        slow.push(slow_iteration(at, one, median, covered[at], &losses, &cannot_tell));
    }
    let excess_seconds: f64 = slow.iter().map(|one| one.excess_seconds).sum();
    let causes = in_all(&slow, excess_seconds);
    let uncovered = slow.iter().filter(|one| one.unexplained.is_none()).count();
    let slow_number = slow.len();
    if uncovered > 0 && uncovered < slow_number {
        cannot_tell.push(format!(
            "{uncovered} of {slow_number} slow iterations: no recording covers them"
        ));
    }
    if progress.left_out > 0 {
        cannot_tell.push(format!("{} later iterations were not looked at", progress.left_out));
    }
    slow.sort_by(|a, b| b.excess_seconds.total_cmp(&a.excess_seconds));
    slow.truncate(LISTED);
    let every = iterations.len().div_ceil(DRAWN).max(1);
    TrainingReport {
        file: progress.path.clone(),
        trainer: seen.first().map_or_else(|| progress.to_string(), |run| run.trainer.clone()),
        nodes: seen.iter().map(|run| run.node.clone()).collect(),
        iterations: iterations.len(),
        covered: covered.iter().filter(|is| **is).count(),
        median_seconds: median,
        slow_from_seconds: slow_from,
        slow: slow_number,
        excess_seconds,
        causes,
        slowest: slow,
        cannot_tell,
        course: iterations
            .chunks(every)
            .map(|some| {
                let slowest = some.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
                slowest.map_or((0, 0.0), |one| (one.end_ns, one.seconds))
            })
            .collect(),
    }
}

fn slow_iteration(
    at: usize,
    one: &Iteration,
    median: f64,
    covered: bool,
    losses: &[Loss],
    why: &[String],
) -> SlowIteration {
    let excess = one.seconds - median;
    let lost: f64 = losses.iter().map(|loss| loss.seconds[at][0]).sum();
    // Together they cannot have cost more than there is: the rest was made up for.
    let fits = (excess / lost.max(f64::MIN_POSITIVE)).min(1.0);
    let mut causes: Vec<Cause> = Vec::new();
    for loss in losses.iter().filter(|_| covered) {
        let [seconds, low, high] = loss.seconds[at].map(|seconds| seconds * fits);
        if seconds >= WORTH_SAYING * excess {
            causes.push(Cause {
                seconds,
                share: seconds / excess,
                low: low / excess,
                high: (high / excess).min(1.0),
                ..loss.cause.clone()
            });
        }
    }
    causes.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let explained: f64 = causes.iter().map(|cause| cause.share).sum();
    let cannot_tell = match (covered, causes.is_empty()) {
        (false, _) => Some("no recording covers it".to_owned()),
        (true, true) => Some(why.first().cloned().unwrap_or_else(|| {
            "nobody whose effect is known was more active beside it than usual".to_owned()
        })),
        (true, false) => None,
    };
    SlowIteration {
        iteration: one.number,
        from_ns: one.start_ns,
        to_ns: one.end_ns,
        seconds: one.seconds,
        excess_seconds: excess,
        unexplained: covered.then(|| (1.0 - explained).max(0.0)),
        causes,
        cannot_tell,
    }
}

/// Who slows iterations through caches and memory: the time of all covered iterations, less waiting, regressed on all
/// neighbours of all nodes at once, by the core that judges bins.
fn effects(iterations: &[Iteration], covered: &[bool], seen: &[Seen]) -> (Vec<Loss>, Vec<String>) {
    let mut numbers: HashMap<(&str, &str), u32> = HashMap::new();
    let mut exposures: Vec<HashMap<u32, f64>> = vec![HashMap::new(); iterations.len()];
    let mut free_ns: Vec<f64> = iterations.iter().map(|one| one.seconds * 1e9).collect();
    for run in seen {
        for (at, sum) in run.sums.iter().enumerate().filter(|(at, _)| run.covers(&iterations[*at]))
        {
            let parallel = parallel(&iterations[at], sum);
            let length = iterations[at].count as f64;
            free_ns[at] -=
                sum.held.iter().map(|(_, held)| held[0]).sum::<f64>() / parallel / length;
            for (subject, ns_cores) in &sum.beside {
                let Some(name) = run.names.get(subject) else { continue };
                let next = numbers.len() as u32 + 1;
                let number = *numbers.entry((run.node.as_str(), name.as_str())).or_insert(next);
                *exposures[at].entry(number).or_default() += ns_cores / sum.on_cpu_ns.max(1.0);
            }
        }
    }
    let bins: Vec<Bin> = (0..iterations.len())
        .filter(|at| covered[*at] && free_ns[*at] > 0.0)
        .map(|at| {
            let beside = exposures[at].iter().map(|(number, cores)| Exposure {
                subject: Subject(*number),
                way: Way::Cache,
                cores: *cores as f32,
            });
            let mut beside: Vec<Exposure> = beside.collect();
            beside.sort_by_key(|one| one.subject);
            let count = iterations[at].count as f64;
            Bin::of_work(iterations[at].start_ns, free_ns[at] * count, count, beside)
        })
        .collect();
    let victim = VictimBins { victim: TRAINER, bins: bins.iter().collect(), sample: None };
    let Findings { verdicts, cannot_tell } = judge(&[victim], &Settings::recording());
    let names: HashMap<u32, (&str, &str)> = numbers.into_iter().map(|(k, n)| (n, k)).collect();
    let mut losses = Vec::new();
    for verdict in &verdicts {
        let who = |s: &Subject| names.get(&s.0).copied().unwrap_or_default();
        let effect = verdict.evidence.effect_per_core;
        let ends = [1.0, verdict.low / verdict.slowdown, verdict.high / verdict.slowdown];
        let lost = |at: usize| {
            let beside = |s: &Subject| exposures[at].get(&s.0).copied().unwrap_or(0.0);
            let cores: f64 = verdict.aggressors.iter().map(beside).sum();
            ends.map(|end| -iterations[at].seconds * (-effect * end * cores).exp_m1())
        };
        let mut nodes: Vec<&str> = verdict.aggressors.iter().map(|s| who(s).0).collect();
        nodes.dedup();
        losses.push(Loss {
            cause: cause(
                nodes.join(" + "),
                verdict.aggressors.iter().map(|s| who(s).1).collect::<Vec<_>>().join(" + "),
                verdict.resource.name(),
                "iteration time",
            ),
            seconds: (0..iterations.len()).map(lost).collect(),
        });
    }
    let from_bins = from_verdicts(iterations, seen, &losses);
    losses.extend(from_bins);
    let why = cannot_tell.iter().filter(|_| losses.is_empty()).map(|one| match one.because {
        Because::TooShort => format!(
            "{} iterations in the recordings are too few to tell who slows them; 50 will do",
            bins.len()
        ),
        other => format!("who slows it through caches and memory: {}", other.words()),
    });
    let why: Vec<String> = why.collect();
    (losses, why)
}

/// What a run's own verdicts on the trainer say of iterations, for neighbours that iterations alone do not tell of.
fn from_verdicts(iterations: &[Iteration], seen: &[Seen], known: &[Loss]) -> Vec<Loss> {
    let mut losses = Vec::new();
    for run in seen {
        let of_cost = run.verdicts.iter().filter(|verdict| {
            verdict.signal != "run-queue wait"
                && !known.iter().any(|loss| loss.cause.neighbour == verdict.aggressor)
        });
        for verdict in of_cost {
            let ends = [1.0, verdict.low / verdict.slowdown, verdict.high / verdict.slowdown];
            let lost = |(at, sum): (usize, &Sum)| {
                let is_one = |subject: &Subject| {
                    let name = run.names.get(subject);
                    name.is_some_and(|name| verdict.aggressors.contains(name))
                };
                let beside = sum.beside.iter().filter(|(subject, _)| is_one(subject));
                let cores = beside.map(|(_, ns)| ns).sum::<f64>() / sum.on_cpu_ns.max(1.0);
                let scale = sum.on_cpu_ns
                    / 1e9
                    / parallel(&iterations[at], sum)
                    / iterations[at].count as f64;
                let effect = verdict.evidence.effect_per_core;
                ends.map(|end| -scale * (-effect * end * cores).exp_m1())
            };
            losses.push(Loss {
                cause: cause(
                    run.node.clone(),
                    verdict.aggressor.clone(),
                    verdict.resource,
                    verdict.signal,
                ),
                seconds: run.sums.iter().enumerate().map(lost).collect(),
            });
        }
    }
    losses
}

/// Who held the trainer's cores while it waited; those who held them longest.
fn waits(iterations: &[Iteration], seen: &[Seen]) -> Vec<Loss> {
    let mut holders: HashMap<(&str, &str), f64> = HashMap::new();
    let held = |run: &'_ Seen, at: usize, sum: &Sum| {
        let many = parallel(&iterations[at], sum) * iterations[at].count as f64;
        let one = |(subject, held): &(Subject, [f64; 3])| {
            (run.names.contains_key(subject)).then(|| (*subject, held.map(|ns| ns / many / 1e9)))
        };
        sum.held.iter().filter_map(one).collect::<Vec<_>>()
    };
    for run in seen {
        for (at, sum) in run.sums.iter().enumerate() {
            for (subject, [seconds, ..]) in held(run, at, sum) {
                *holders.entry((&run.node, &run.names[&subject])).or_default() += seconds;
            }
        }
    }
    let mut holders: Vec<((&str, &str), f64)> = holders.into_iter().collect();
    holders.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    holders.truncate(MOST_HOLDERS);
    let loss = |((node, name), _): ((&str, &str), f64)| {
        let mut seconds = vec![[0.0; 3]; iterations.len()];
        for run in seen.iter().filter(|run| run.node == node) {
            for (at, sum) in run.sums.iter().enumerate() {
                let ours = held(run, at, sum);
                if let Some((_, lost)) = ours.iter().find(|one| run.names[&one.0] == name) {
                    seconds[at] = *lost;
                }
            }
        }
        let cause = cause(node.to_owned(), name.to_owned(), "cpu time", "run-queue wait");
        Loss { cause, seconds }
    };
    holders.into_iter().map(loss).collect()
}

/// How many of its threads worked at once: what all of them lost, the iteration lost but once.
fn parallel(iteration: &Iteration, sum: &Sum) -> f64 {
    let length_ns = iteration.seconds * iteration.count as f64 * 1e9;
    ((sum.on_cpu_ns + sum.wait_ns) / length_ns.max(1.0)).max(1.0)
}

/// The causes of all slow iterations together, as shares of all they took too long.
fn in_all(slow: &[SlowIteration], excess: f64) -> Vec<Cause> {
    let mut sums: Vec<Cause> = Vec::new();
    for (one, cause) in slow.iter().flat_map(|one| one.causes.iter().map(move |c| (one, c))) {
        let same = |sum: &&mut Cause| {
            (&sum.node, &sum.neighbour, sum.resource)
                == (&cause.node, &cause.neighbour, cause.resource)
        };
        let weight = one.excess_seconds / excess.max(f64::MIN_POSITIVE);
        let (share, low, high) = (cause.share * weight, cause.low * weight, cause.high * weight);
        match sums.iter_mut().find(same) {
            Some(sum) => {
                sum.seconds += cause.seconds;
                sum.share += share;
                sum.low += low;
                sum.high += high;
            }
            None => sums.push(Cause { share, low, high, ..cause.clone() }),
        }
    }
    sums.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    sums
}

fn cause(node: String, neighbour: String, resource: &'static str, signal: &'static str) -> Cause {
    let (seconds, share, low, high) = (0.0, 0.0, 0.0, 0.0);
    Cause { node, neighbour, resource, signal, seconds, share, low, high }
}

fn covered_only<'a>(
    seconds: &'a [[f64; 3]],
    covered: &'a [bool],
) -> impl Iterator<Item = [f64; 3]> + 'a {
    seconds.iter().zip(covered).filter(|(_, is)| **is).map(|(one, _)| *one)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
