//! Two runs of the same containers beside each other.

use super::baseline::Baseline;
use super::bootstrap::{self, Estimate};
use super::{Recorded, Stretch, stretches};
use crate::store::RunRecord;
use serde::Serialize;

/// One container in both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// How fast it was beside others in the first run.
    pub first: Estimate,
    /// And in the second.
    pub second: Estimate,
    /// How much faster it was in the second.
    pub gain: Estimate,
    /// How fast it was alone, over both, as far as that is a baseline.
    pub alone: Option<Estimate>,
    /// Share of its speed that it lost to others, in the first run.
    pub lost_first: Option<Estimate>,
    /// And in the second.
    pub lost_second: Option<Estimate>,
    /// What of the first run's loss the second won back.
    pub won_back: Option<Estimate>,
}

/// Two runs beside each other.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The first run's id and scheduler.
    pub first: (String, String),
    /// The second's.
    pub second: (String, String),
    /// Containers that are in both and say what they got done.
    pub containers: Vec<Compared>,
    /// Those of which nothing can be said, and why.
    pub without: Vec<(String, &'static str)>,
}

/// Compares two runs container by container: beside others in one against beside others in the other. A container
/// that was never beside anybody is compared as it was.
pub fn compare(first: (&RunRecord, &Recorded), second: (&RunRecord, &Recorded)) -> Comparison {
    let mut comparison = Comparison {
        first: (first.0.id.clone(), first.0.scheduler.clone()),
        second: (second.0.id.clone(), second.0.scheduler.clone()),
        containers: Vec::new(),
        without: Vec::new(),
    };
    for container in &first.0.containers {
        let name = &container.name;
        if !second.0.containers.iter().any(|other| other.name == *name) {
            comparison.without.push((name.clone(), "it is not in the second run"));
            continue;
        }
        let baseline = |(record, recorded): (&RunRecord, &Recorded)| {
            Baseline::of(name, record, &recorded.events)
        };
        let (a, b) = (stretches(name, first.1), stretches(name, second.1));
        let mut alone = baseline(first).among(&a);
        alone.extend(baseline(second).among(&b));
        match one(name, &a, &b, &alone) {
            Some(compared) => comparison.containers.push(compared),
            None => comparison
                .without
                .push((name.clone(), "what it got done is not known of both runs")),
        }
    }
    let is_new = |name: &str| !first.0.containers.iter().any(|other| other.name == name);
    let new = second.0.containers.iter().filter(|container| is_new(&container.name));
    let new = new.map(|container| (container.name.clone(), "it is not in the first run"));
    comparison.without.extend(new);
    comparison
}

fn one(name: &str, first: &[Stretch], second: &[Stretch], alone: &[&Stretch]) -> Option<Compared> {
    let is_alone = |stretch: &&Stretch| stretch.condition.beside.is_empty();
    let (a, b) = (chosen(first), chosen(second));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let were_beside = !a.iter().all(is_alone) || !b.iter().all(is_alone);
    let has_baseline = !alone.is_empty() && were_beside;
    let lost = |these: &[&Stretch]| {
        has_baseline.then(|| bootstrap::pair(alone, these, |alone, beside| 1.0 - beside / alone))
    };
    let share = |alone: f64, a: f64, b: f64| (b - a) / (alone - a);
    Some(Compared {
        name: name.to_owned(),
        first: bootstrap::rate(&a),
        second: bootstrap::rate(&b),
        gain: bootstrap::pair(&a, &b, |a, b| b / a - 1.0),
        alone: (!alone.is_empty()).then(|| bootstrap::rate(alone)),
        lost_first: lost(&a),
        lost_second: lost(&b),
        won_back: has_baseline.then(|| bootstrap::triple(alone, &a, &b, share)),
    })
}

fn chosen(stretches: &[Stretch]) -> Vec<&Stretch> {
    let beside: Vec<&Stretch> =
        stretches.iter().filter(|stretch| !stretch.condition.beside.is_empty()).collect();
    if beside.is_empty() { stretches.iter().collect() } else { beside }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Surroundings, Variables};
    use crate::store::RunStore;
    use crosstalk_host::HostRoot;

    #[test]
    fn who_is_in_one_run_only_is_named_whichever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let around = Surroundings {
            cpus: [0].into_iter().collect(),
            path: vec!["/bin".into(), "/usr/bin".into()],
        };
        let record = |name: &str| {
            let text = format!("benchmark: {{name: x}}\n{name}: {{index: 0, command: sh}}\n");
            let read = Experiment::parse("e.yaml", &text, &Variables::default(), &around).unwrap();
            RunStore::at(folder.path()).create(&read, &text, 7, &HostRoot::default()).unwrap().1
        };
        let (first, second, nothing) = (record("old"), record("new"), Recorded::default());
        let compared = compare((&first, &nothing), (&second, &nothing));
        assert_eq!(
            compared.without,
            [
                ("old".to_owned(), "it is not in the second run"),
                ("new".to_owned(), "it is not in the first run")
            ]
        );
    }
}
