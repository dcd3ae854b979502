//! The truth about a trial, from what its processes said of themselves.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Bins in which a neighbour was on for this share of the time are on, for the rest of it off; others are neither.
const CLEARLY: f64 = 0.95;
/// Blocks of time that are drawn together.
const BLOCK_NS: u64 = 1_000_000_000;
const DRAWS: usize = 200;

/// What one process said: when it was on, and what it got done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diary {
    /// Unix nanoseconds, and whether it was on from then.
    pub phases: Vec<(u64, bool)>,
    /// Unix nanoseconds, pieces and busy seconds so far.
    pub progress: Vec<(u64, u64, f64)>,
}

impl Diary {
    /// From the lines that `crosstalk workload` prints; what is no such line is passed over.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut diary = Self::default();
        for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let Some(unix_ns) = line["unix_ns"].as_u64() else { continue };
            match (line["event"].as_str(), line["on"].as_bool()) {
                (Some("phase"), Some(on)) => diary.phases.push((unix_ns, on)),
                (Some("progress"), _) => diary.progress.extend(
                    line["pieces"]
                        .as_u64()
                        .zip(line["busy_seconds"].as_f64())
                        .map(|(pieces, busy)| (unix_ns, pieces, busy)),
                ),
                _ => {}
            }
        }
        diary
    }

    /// Share of a time in which it was on.
    #[must_use]
    pub fn on(&self, from_ns: u64, to_ns: u64) -> f64 {
        let mut on_ns = 0;
        for (at, (begin_ns, on)) in self.phases.iter().enumerate() {
            let end_ns = self.phases.get(at + 1).map_or(u64::MAX, |next| next.0);
            if *on {
                on_ns += end_ns.min(to_ns).saturating_sub((*begin_ns).max(from_ns));
            }
        }
        on_ns as f64 / to_ns.saturating_sub(from_ns).max(1) as f64
    }
}

/// What a neighbour's being on did to the cost of a victim's pieces.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Cost on over cost off, less 1.
    pub effect: f64,
    /// 95 % of resamplings of the truth itself lie above this,
    pub low: f64,
    /// and below this.
    pub high: f64,
    /// Share of the victim's time in the recording that it cost.
    pub lost: f64,
}

struct Bin {
    start_ns: u64,
    log_cost: f64,
    busy_s: f64,
    on: Vec<f64>,
}

/// The effect of neighbour `which` on a victim between two times; `None` if it was never clearly on, or never off.
#[must_use]
pub fn effect(
    victim: &Diary,
    neighbours: &[&Diary],
    which: usize,
    time: (u64, u64),
) -> Option<Effect> {
    let bins = bins(victim, neighbours, time);
    let all: Vec<usize> = (0..bins.len()).collect();
    let log_effect = difference(&bins, &all, which)?;
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    for (at, bin) in bins.iter().enumerate() {
        match blocks.last_mut() {
            Some(block) if bins[block[0]].start_ns / BLOCK_NS == bin.start_ns / BLOCK_NS => {
                block.push(at)
            }
            _ => blocks.push(vec![at]),
        }
    }
    let mut random = fastrand::Rng::with_seed(1);
    let mut drawn: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let some: Vec<usize> = (0..blocks.len())
                .flat_map(|_| blocks[random.usize(..blocks.len())].clone())
                .collect();
            difference(&bins, &some, which)
        })
        .collect();
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| {
        drawn.get((share * drawn.len() as f64) as usize).map_or(0.0, |log| log.exp_m1())
    };
    let busy: f64 = bins.iter().map(|bin| bin.busy_s).sum();
    let lost: f64 =
        bins.iter().map(|bin| -bin.busy_s * (-log_effect * bin.on[which]).exp_m1()).sum();
    Some(Effect {
        effect: log_effect.exp_m1(),
        low: at(0.025),
        high: at(0.975),
        lost: lost / busy.max(1e-9),
    })
}

fn bins(victim: &Diary, neighbours: &[&Diary], (from_ns, to_ns): (u64, u64)) -> Vec<Bin> {
    let pairs = victim.progress.windows(2);
    pairs
        .filter_map(|pair| {
            let [(begin_ns, pieces, busy), (end_ns, more_pieces, more_busy)] = [pair[0], pair[1]];
            let inside = begin_ns >= from_ns && end_ns <= to_ns && end_ns > begin_ns;
            let (pieces, busy_s) = (more_pieces.checked_sub(pieces)?, more_busy - busy);
            (inside && pieces > 0 && busy_s > 0.0).then(|| Bin {
                start_ns: begin_ns,
                log_cost: (busy_s / pieces as f64).ln(),
                busy_s,
                on: neighbours.iter().map(|one| one.on(begin_ns, end_ns)).collect(),
            })
        })
        .collect()
}

/// Medians on less medians off, where all the others were alike.
fn difference(bins: &[Bin], some: &[usize], which: usize) -> Option<f64> {
    let clear = |share: f64| match share {
        share if share >= CLEARLY => Some(true),
        share if share <= 1.0 - CLEARLY => Some(false),
        _ => None,
    };
    let mut strata: Vec<(Vec<bool>, [Vec<f64>; 2])> = Vec::new();
    for bin in some.iter().map(|at| &bins[*at]) {
        let Some(states) = bin.on.iter().map(|share| clear(*share)).collect::<Option<Vec<bool>>>()
        else {
            continue;
        };
        let on = states[which];
        let mut others = states;
        others.remove(which);
        let at = strata.iter().position(|one| one.0 == others).unwrap_or_else(|| {
            strata.push((others, [Vec::new(), Vec::new()]));
            strata.len() - 1
        });
        strata[at].1[usize::from(on)].push(bin.log_cost);
    }
    let (mut sum, mut weights) = (0.0, 0.0);
    for (_, [off, on]) in &mut strata {
        if off.len() < 5 || on.len() < 5 {
            continue;
        }
        let weight = (off.len() * on.len()) as f64 / (off.len() + on.len()) as f64;
        sum += weight * (median(on) - median(off));
        weights += weight;
    }
    (weights > 0.0).then(|| sum / weights)
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A victim of 10 pieces in 50 ms, each a fifth dearer while the neighbour is on, one second in two.
    fn trial() -> (Diary, Diary) {
        let (mut victim, mut neighbour) = (String::new(), String::new());
        let (mut busy, mut pieces) = (0.0, 0);
        for bin in 0..1_200_u64 {
            let on = bin / 20 % 2 == 1;
            if bin.is_multiple_of(20) {
                neighbour += &format!(
                    "{{\"event\":\"phase\",\"unix_ns\":{},\"on\":{on}}}\n",
                    bin * 50_000_000
                );
            }
            victim += &format!(
                "{{\"event\":\"progress\",\"unix_ns\":{},\"pieces\":{pieces},\"busy_seconds\":{busy}}}\n",
                bin * 50_000_000
            );
            pieces += 10;
            busy += if on { 0.012 } else { 0.010 } + (bin * 7_919 % 13) as f64 * 1e-5;
        }
        (Diary::read(&victim), Diary::read(&neighbour))
    }

    #[test]
    fn the_effect_of_a_schedule_is_what_it_was() {
        let (victim, neighbour) = trial();
        let told = effect(&victim, &[&neighbour], 0, (0, u64::MAX)).unwrap();
        assert!((told.effect - 0.2).abs() < 0.02, "{told:?}");
        assert!(told.low <= told.effect && told.effect <= told.high, "{told:?}");
        // On half of the wall time, twelve parts of twenty-two of the busy time, of which a sixth is lost.
        assert!((told.lost - 12.0 / 22.0 / 6.0).abs() < 0.01, "{told:?}");
    }

    #[test]
    fn a_neighbour_that_never_rests_has_no_effect_to_tell() {
        let (victim, _) = trial();
        let always = Diary { phases: vec![(0, true)], ..Diary::default() };
        assert_eq!(effect(&victim, &[&always], 0, (0, u64::MAX)), None);
    }
}
