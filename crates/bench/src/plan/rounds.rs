use crate::experiment::{Container, End, Experiment};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a round is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "index")]
pub enum RoundKind {
    /// Everybody, on schedule.
    Together,
    /// The container of this index alone: what the others cost it is told against this.
    Solo(u32),
}

/// One pass over the experiment, with a zero of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// Its number, in the order they are run.
    pub number: u32,
    /// What it is for.
    pub kind: RoundKind,
    /// When it is over at the latest.
    pub end: End,
    /// Who runs when.
    pub planned: Vec<Planned>,
}

/// When a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The container.
    pub index: u32,
    /// Its start, after the round's zero.
    pub start: Duration,
    /// Its end; `None` with the round's.
    pub stop: Option<Duration>,
}

/// All rounds of an experiment, in the order they are to be run.
pub fn rounds(experiment: &Experiment) -> Vec<Round> {
    let together = Round {
        number: 0,
        kind: RoundKind::Together,
        end: experiment.end,
        planned: experiment
            .containers
            .iter()
            .map(|c| Planned { index: c.index, start: c.start, stop: c.stop })
            .collect(),
    };
    // Of one that comes again and again, the first stands for all.
    let is_first = |container: &&Container| container.arrival.as_ref().is_none_or(|a| a.1 == 1);
    let solo = experiment.containers.iter().filter(|_| experiment.solo).filter(is_first);
    let alone = solo.map(|container| {
        let stop = experiment.planned(container);
        Round {
            number: 0,
            kind: RoundKind::Solo(container.index),
            // A signal that ended it would end all rounds: who is alone may end by itself.
            end: stop.map_or(End::WhenAllEnded, End::After),
            planned: vec![Planned { index: container.index, start: Duration::ZERO, stop }],
        }
    });
    let once: Vec<Round> = alone.chain([together]).collect();
    let repeats = experiment.repeats as usize;
    let mut all: Vec<Round> = once.iter().cloned().cycle().take(once.len() * repeats).collect();
    if let Some(seed) = experiment.shuffle {
        fastrand::Rng::with_seed(seed).shuffle(&mut all);
    }
    if experiment.end == End::OnSignal {
        // Nothing comes after the round that a signal ends.
        all.sort_by_key(|round| round.kind == RoundKind::Together);
    }
    (0..).zip(&mut all).for_each(|(number, round)| round.number = number);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Surroundings, Variables};

    fn experiment(more: &str) -> Experiment {
        let text = format!(
            "benchmark: {{name: x, max_t: 20, {more}}}\n\
             a: {{index: 0, command: sh}}\nb: {{index: 1, command: sh, start: 5, stop: 12}}\n"
        );
        let around = Surroundings {
            cpus: [0].into_iter().collect(),
            path: vec!["/bin".into(), "/usr/bin".into()],
        };
        Experiment::parse("e.yaml", &text, &Variables::default(), &around).unwrap()
    }

    #[test]
    fn a_solo_round_runs_a_container_for_as_long_as_it_is_planned_to() {
        let all = rounds(&experiment("solo: true, repeats: 2"));
        let kinds: Vec<RoundKind> = all.iter().map(|round| round.kind).collect();
        let once = [RoundKind::Solo(0), RoundKind::Solo(1), RoundKind::Together];
        assert_eq!(kinds, [once, once].concat());
        assert_eq!(all[1].end, End::After(Duration::from_secs(7)));
        assert_eq!(all[0].end, End::After(Duration::from_secs(20)));
        assert_eq!(all[5].number, 5);
    }

    #[test]
    fn until_a_signal_the_round_of_all_comes_last_and_who_is_alone_may_end_by_itself() {
        for seed in 0..9 {
            let mut read = experiment(&format!("solo: true, shuffle: true, seed: {seed}"));
            read.end = End::OnSignal;
            let all = rounds(&read);
            let ends: Vec<End> = all.iter().map(|round| round.end).collect();
            assert_eq!((all.len(), all[2].kind), (3, RoundKind::Together), "seed {seed}");
            assert!(ends[..2].iter().all(|end| *end != End::OnSignal), "{ends:?}");
            assert_eq!((ends[2], all[2].number), (End::OnSignal, 2));
        }
    }

    #[test]
    fn a_seed_fixes_an_order_that_is_not_the_files() {
        let order = |seed: u32| {
            let more = format!("solo: true, repeats: 4, shuffle: true, seed: {seed}");
            rounds(&experiment(&more)).iter().map(|round| round.kind).collect::<Vec<_>>()
        };
        assert_eq!(order(3), order(3));
        assert!((1..9).any(|seed| order(seed) != order(3)));
        let drawn = || experiment("shuffle: true").shuffle;
        assert!((0..9).any(|_| drawn() != drawn()), "without a seed every run has its own");
        let together = order(3).iter().filter(|kind| **kind == RoundKind::Together).count();
        assert_eq!(together, 4);
    }
}
