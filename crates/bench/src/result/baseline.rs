//! What a container's time beside others is held against: time it was alone, and had all there is.

use super::Stretch;
use crate::plan::RoundKind;
use crate::store::{Event, EventKind, RunRecord};
use std::collections::BTreeSet;

/// In which rounds time alone is a baseline.
#[derive(Clone, Debug, Default)]
pub(super) struct Baseline {
    /// Rounds of this container alone.
    solo: BTreeSet<u32>,
    /// Rounds in which a scheduler had limited it from the start. Alone it was held to that all the same.
    limited: BTreeSet<u32>,
}

impl Baseline {
    pub(super) fn of(name: &str, record: &RunRecord, events: &[Event]) -> Self {
        let found = record.containers.iter().find(|container| container.name == name);
        let solo = found.map(|container| RoundKind::Solo(container.index));
        let solo = record.rounds.iter().filter(|round| Some(round.kind) == solo);
        let limits = |event: &&Event| match &event.kind {
            EventKind::Decision(decision) => {
                let whom = decision.container.as_ref().or(event.container.as_ref());
                decision.what == "placed" && whom.is_some_and(|whom| whom == name)
            }
            _ => false,
        };
        Self {
            solo: solo.map(|round| round.number).collect(),
            limited: events.iter().filter(limits).map(|event| event.round).collect(),
        }
    }

    /// Those of a container's stretches that are its baseline: of rounds that are there for it where there are any, else
    /// whenever it was alone and not limited.
    pub(super) fn among<'s>(&self, all: &'s [Stretch]) -> Vec<&'s Stretch> {
        let alone = all.iter().filter(|stretch| stretch.condition.beside.is_empty());
        let (solo, others): (Vec<_>, Vec<_>) =
            alone.partition(|stretch| self.solo.contains(&stretch.round));
        if !solo.is_empty() {
            return solo;
        }
        others.into_iter().filter(|stretch| !self.limited.contains(&stretch.round)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Surroundings, Variables};
    use crate::result::{ProgressPoint, Recorded, RunningSpan, compare, summary};
    use crate::scheduler::Decision;
    use crate::store::{RanRound, RunStore};
    use crosstalk_host::HostRoot;

    const S: u64 = 1_000_000_000;

    /// A run of `a` beside `b` from the tenth second on, in which it is limited to half of what it does otherwise; with a
    /// round of its own before, or without. Beside `b` it does a quarter.
    fn limited_run(solo: bool) -> (RunRecord, Recorded) {
        let around = Surroundings {
            cpus: [0].into_iter().collect(),
            path: vec!["/bin".into(), "/usr/bin".into()],
        };
        let text = "benchmark: {name: x}\na: {index: 0, command: sh}\nb: {index: 1, command: sh}\n";
        let read = Experiment::parse("e.yaml", text, &Variables::default(), &around).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = RunStore::at(folder.path());
        let (_, mut record) = store.create(&read, text, 7, &HostRoot::default()).unwrap();
        let mut recorded = Recorded::default();
        for (number, kind) in [(0, RoundKind::Solo(0)), (1, RoundKind::Together)] {
            if number == 0 && !solo {
                continue;
            }
            let zero_s = u64::from(number) * 100 + 100;
            let (zero_ns, end_ns) = (zero_s * S, Some((zero_s + 20) * S));
            record.rounds.push(RanRound { number, kind, zero_ns, end_ns, cgroup_ids: Vec::new() });
            let mut done = 0.0;
            for second in 0..=20 {
                let at_ns = (zero_s + second) * S;
                let container = "a".to_owned();
                recorded.progress.push(ProgressPoint { round: number, container, at_ns, done });
                done += match (number, second) {
                    (0, _) => 100.0,
                    (_, ..10) => 50.0,
                    _ => 25.0,
                };
            }
            let span = |name: &str, from: u64| RunningSpan {
                container: name.to_owned(),
                round: number,
                from_ns: (zero_s + from) * S,
                to_ns: (zero_s + 20) * S,
            };
            recorded.running.push(span("a", 0));
            if number == 1 {
                recorded.running.push(span("b", 10));
                let decision = Decision {
                    what: "placed".to_owned(),
                    container: Some("a".to_owned()),
                    victim: None,
                    message: String::new(),
                    evidence: serde_json::json!({"schemata": "L3:0=f"}),
                };
                recorded.events.push(Event {
                    unix_ns: zero_ns,
                    seconds: 0.0,
                    round: number,
                    container: None,
                    kind: EventKind::Decision(decision),
                });
            }
        }
        (record, recorded)
    }

    #[test]
    fn time_alone_in_which_a_scheduler_limited_it_is_no_baseline() {
        let (record, recorded) = limited_run(true);
        let found = summary(&record, &recorded).containers.remove(0);
        let beside = found.fared.iter().find(|fared| !fared.condition.beside.is_empty()).unwrap();
        let lost = beside.slowdown.unwrap().value;
        assert!((lost - 0.75).abs() < 1e-9, "against the round of its own: {found:#?}");
        let alone = &found.fared[0];
        assert!((alone.rate.value - 100.0).abs() < 1e-9 && alone.rounds == 1, "{alone:?}");

        let (record, recorded) = limited_run(false);
        let found = summary(&record, &recorded).containers.remove(0);
        let beside = &found.fared[0];
        assert_eq!(beside.condition.beside, ["b"], "{found:#?}");
        assert_eq!(
            (found.fared.len(), beside.slowdown),
            (1, None),
            "there is nothing to hold it to"
        );
    }

    #[test]
    fn two_runs_are_held_against_the_baseline_of_whichever_has_one() {
        let (with, without) = (limited_run(true), limited_run(false));
        let compared = compare((&with.0, &with.1), (&without.0, &without.1)).containers.remove(0);
        assert!((compared.alone.unwrap().value - 100.0).abs() < 1e-9, "{compared:?}");
        assert!((compared.lost_second.unwrap().value - 0.75).abs() < 1e-9, "{compared:?}");
        let compared =
            compare((&without.0, &without.1), (&without.0, &without.1)).containers.remove(0);
        assert_eq!((compared.alone, compared.lost_first, compared.won_back), (None, None, None));
    }
}
