//! Verdicts on simulated recordings, beside the rules of others; `make accuracy` has many times as many.

use crosstalk_accuracy::simulated::{Quiet, View};
use crosstalk_accuracy::{Kind, Score, simulated};
use crosstalk_interference::{Resource, Signal, Subject, VictimBins};

/// Not those the thresholds were chosen with, nor those of the published page.
const FIRST_SEED: u64 = 40_000;
const SECONDS: f64 = 40.0;

fn all(counters: bool, view: &View) -> Score {
    let mut sum = Score::default();
    for kind in Kind::ALL {
        for at in 0..2 {
            let seed = FIRST_SEED + at * 16 + kind as u64;
            sum += simulated::judge(kind, seed, SECONDS, counters, view);
        }
    }
    sum
}

fn hold(score: &Score) {
    assert!(score.precision() >= 0.95, "precision {}: {:#?}", score.precision(), score.wrong);
    assert!(score.recall() >= 0.85, "recall {}: {:#?}", score.recall(), score.wrong);
    assert!(score.coverage() >= 0.85, "coverage {}: {:#?}", score.coverage(), score.wrong);
    assert!(score.waits_right * 10 >= score.waits * 9, "{score:?}");
    for rival in &score.rivals {
        assert!(score.f1_of(rival) < score.f1(), "{rival:?} beats {score:?}");
    }
}

#[test]
fn with_counters_culprits_are_named_and_the_innocent_are_not() {
    hold(&all(true, &View::RECORDED));
}

#[test]
fn without_counters_time_per_wakeup_names_culprits_too() {
    hold(&all(false, &View::RECORDED));
}

#[test]
fn live_in_the_agents_longer_slots_they_are_named_as_well_and_a_busy_host_blames_nobody() {
    for counters in [true, false] {
        hold(&all(counters, &View::live()));
    }
    let mut busy_host = Score::default();
    for seed in FIRST_SEED..FIRST_SEED + 6 {
        busy_host += simulated::judge(Kind::StolenTime, seed, 60.0, false, &View::live());
    }
    assert_eq!(busy_host.slandered, 0, "{:#?}", busy_host.wrong);
}

#[test]
fn rivals_learn_from_the_same_victim_on_the_same_machine_while_nobody_hurts_it() {
    let seed = FIRST_SEED + Kind::OneAggressor as u64;
    let scenario = Kind::OneAggressor.scenario(seed, true);
    let (observer, truth) = simulated::observe(&scenario, seed, 20.0, &View::RECORDED);
    let (victim, culprit) = (Subject(0), Subject(2));
    let lost = truth.dearer_s(0, 2) / truth.on_cpu_s[0];
    assert!(lost > 0.02, "{lost} lost");
    let quiet = Quiet::of(&scenario, seed, 20.0, &View::RECORDED, &[(0, 2)].into());
    let of = |victims: &[VictimBins<'_>]| {
        let one = victims.iter().find(|one| one.victim == victim).expect("the victim ran");
        let (mut cycles, mut instructions) = (0.0, 0.0);
        for counted in one.bins.iter().filter_map(|bin| bin.counted) {
            (cycles, instructions) = (cycles + counted.cycles, instructions + counted.instructions);
        }
        let beside = one.bins.iter().flat_map(|bin| &bin.exposures);
        (cycles / instructions, beside.filter(|one| one.subject == culprit).count())
    };
    let ((cost, beside), (usual, beside_before)) = (of(&observer.victims()), of(&quiet.victims()));
    assert!(
        beside > 0 && beside_before == 0,
        "{beside} and {beside_before} bins beside the culprit"
    );
    // What it costs less is what it lost, but for noise.
    assert!((usual / cost - (1.0 - lost)).abs() < 0.03, "{usual} usually, {cost} with {lost} lost");
}

#[test]
fn waiting_for_a_core_is_charged_to_its_holder_within_2_per_cent() {
    for seed in 0..3 {
        let scenario = Kind::CpuContention.scenario(seed, false);
        let (observer, truth) = simulated::observe(&scenario, seed, 20.0, &View::RECORDED);
        let findings = observer.findings();
        let waits = |v: &&crosstalk_interference::Verdict| {
            v.victim == Subject(0) && v.resource == Resource::CpuTime
        };
        let verdict = findings.verdicts.iter().find(waits).expect("the victim waited");
        assert_eq!(verdict.signal, Signal::RunQueueWait);
        assert_eq!(verdict.aggressors, [Subject(2)]);
        let waited = truth.waited_s(0, 2);
        assert!((verdict.lost_seconds / waited - 1.0).abs() < 0.02, "{verdict:?} truth {waited}");
    }
}
