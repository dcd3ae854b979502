//! What holds for any input: no panic, no verdict that units or an idle bystander could change, bounded memory.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_interference::comparators::{Cpi2, Fences, cpi2, fences};
use crosstalk_interference::{
    Activity, Because, Burst, Findings, Keep, Observer, Settings, Slot, Subject, Topology,
};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// A victim with counters and a stream that comes and goes, for 20 s in slots of 4 ms.
fn recording(units: u64, bystander: bool, effect: u64) -> Findings {
    let mut observer = Observer::new(Topology::one_cache(4), Settings::recording());
    let mut random = 88_172_645_463_325_252_u64;
    for slot in 0..5_000_u64 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let streams = (slot / 97 + slot / 231) % 2 == 0;
        let cycles = 10_000 + random % 2_000 + if streams { effect } else { 0 };
        let mut entries = vec![Activity {
            cycles: Some(cycles * units),
            instructions: Some(8_000 * units),
            ..Activity::new(Subject(0), 0, 4 * MS)
        }];
        if streams {
            entries.push(Activity::new(Subject(1), 1, 4 * MS));
        }
        if bystander {
            entries.push(Activity::new(Subject(2), 2, 1_000));
            entries.push(Activity::new(Subject(3), 3, 0));
        }
        let start_ns = slot * 4 * MS;
        observer.push(&Slot { start_ns, length_ns: 4 * MS, entries: &entries, ..Slot::default() });
    }
    observer.findings()
}

#[test]
fn verdicts_do_not_depend_on_the_unit_of_work() {
    let (one, many) = (recording(1, false, 3_000), recording(1_000, false, 3_000));
    assert_eq!(one.verdicts.len(), 1);
    let (one, many) = (&one.verdicts[0], &many.verdicts[0]);
    assert_eq!(one.aggressors, many.aggressors);
    assert!((one.slowdown - many.slowdown).abs() < 1e-9, "{one:?} {many:?}");
    assert!((one.high - many.high).abs() < 1e-9, "{one:?} {many:?}");
}

#[test]
fn an_idle_neighbour_changes_nothing() {
    let (without, with) = (recording(1, false, 3_000), recording(1, true, 3_000));
    assert_eq!(with.verdicts.len(), 1);
    let (without, with) = (&without.verdicts[0], &with.verdicts[0]);
    assert_eq!(without.aggressors, with.aggressors);
    assert!((without.slowdown - with.slowdown).abs() < 1e-3, "{without:?} {with:?}");
}

#[test]
fn a_neighbour_without_effect_is_not_named() {
    assert_eq!(recording(1, false, 0).verdicts, []);
}

#[test]
fn a_neighbour_that_never_rests_cannot_be_judged() {
    let mut observer = Observer::new(Topology::one_cache(2), Settings::recording());
    for slot in 0..5_000_u64 {
        let victim = Activity {
            cycles: Some(1_000 + slot * 7_919 % 50),
            instructions: Some(1_000),
            ..Activity::new(Subject(0), 0, 4 * MS)
        };
        let entries = [victim, Activity::new(Subject(1), 1, 4 * MS)];
        let start_ns = slot * 4 * MS;
        observer.push(&Slot { start_ns, length_ns: 4 * MS, entries: &entries, ..Slot::default() });
    }
    let findings = observer.findings();
    assert_eq!(findings.verdicts, []);
    let because = |who| findings.cannot_tell.iter().find(|c| c.victim == who).unwrap().because;
    assert_eq!(because(Subject(0)), Because::NeverQuiet);
    assert_eq!(because(Subject(1)), Because::NoSignal);
}

#[test]
fn a_second_of_slots_is_too_short() {
    let mut observer = Observer::new(Topology::one_cache(2), Settings::recording());
    for slot in 0..250_u64 {
        let entries = [Activity::new(Subject(0), 0, 4 * MS)];
        let start_ns = slot * 4 * MS;
        observer.push(&Slot { start_ns, length_ns: 4 * MS, entries: &entries, ..Slot::default() });
    }
    assert_eq!(observer.findings().cannot_tell[0].because, Because::TooShort);
}

fn activity() -> impl Strategy<Value = Activity> {
    let time = prop_oneof![Just(0), 0..5 * MS, Just(u64::MAX)];
    let count = proptest::option::of(prop_oneof![Just(0), 0..9_999_u64, Just(u64::MAX)]);
    let who = prop_oneof![0..40_u32, Just(u32::MAX), Just(u32::MAX - 1)];
    let core = prop_oneof![0..6_u32, Just(u32::MAX)];
    (who, core, time, count.clone(), any::<u32>(), count.clone(), count.clone(), count).prop_map(
        |(who, core, on_cpu_ns, wait_ns, switches, cycles, instructions, llc_misses)| Activity {
            wait_ns,
            voluntary_switches: switches,
            cycles,
            instructions,
            llc_misses,
            freq_mhz: Some(switches),
            ..Activity::new(Subject(who), core, on_cpu_ns)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_input_makes_it_panic_or_answer_with_nonsense(
        rows in proptest::collection::vec(activity(), 1..60),
        steps in proptest::collection::vec(prop_oneof![0..3 * MS, Just(u64::MAX / 2)], 1..20),
        length_ns in prop_oneof![Just(0), 1..4 * MS, Just(u64::MAX)],
        odd in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), 0.0..1e9],
        live in any::<bool>(),
    ) {
        let settings = if live { Settings::live(3) } else { Settings::recording() };
        let settings = Settings { bin_ns: MS, seats: 8, stretches: 3, ..settings };
        let mut observer = Observer::new(Topology::one_cache(4), settings);
        let mut start_ns = 1_u64;
        for round in 0..400 {
            let step = steps[round % steps.len()];
            start_ns = start_ns.wrapping_add(if round % 50 == 0 { step } else { step % (3 * MS) });
            let from = round * 7 % rows.len();
            let entries = &rows[from..rows.len().min(from + 6)];
            let bursts = [Burst { core: 0, cost: odd }];
            let stolen = [(0, step), (u32::MAX, u64::MAX)];
            observer.push(&Slot {
                start_ns,
                length_ns,
                lost: round % 17 == 0,
                entries,
                stolen: (round % 3 != 0).then_some(&stolen[..]),
                progress: &[(Subject(1), odd), (Subject(u32::MAX), odd)],
                throttled: &[(Subject(2), step)],
                bursts: &bursts,
            });
        }
        let victims = observer.victims();
        cpi2(&victims, &[], &Cpi2::default());
        fences(&victims, &victims, &Fences::default());
        for verdict in observer.findings().verdicts {
            prop_assert!((0.0..=1.0).contains(&verdict.slowdown), "{verdict:?}");
            prop_assert!(verdict.low <= verdict.slowdown && verdict.slowdown <= verdict.high, "{verdict:?}");
            prop_assert!((0.0..=1.0).contains(&verdict.confidence), "{verdict:?}");
            prop_assert!(verdict.from_ns <= verdict.to_ns);
            prop_assert!(!verdict.aggressors.contains(&verdict.victim));
            prop_assert!(verdict.lost_seconds.is_finite());
        }
    }
}

#[test]
fn memory_is_bounded_however_long_it_runs() {
    for keep in [Keep::Newest, Keep::Sample] {
        let settings =
            Settings { keep, stretch_bins: 5, stretches: 4, seats: 6, ..Settings::recording() };
        let mut observer = Observer::new(Topology::one_cache(4), settings);
        let mut most = 0;
        for slot in 0..20_000_u32 {
            // Every slot new subjects, as in a fork storm.
            let entries: Vec<Activity> =
                (0..4).map(|core| Activity::new(Subject(slot * 4 + core), core, MS)).collect();
            let start_ns = u64::from(slot) * MS;
            observer.push(&Slot { start_ns, length_ns: MS, entries: &entries, ..Slot::default() });
            if slot % 1_000 == 999 {
                most = most.max(observer.victims().iter().map(|one| one.bins.len()).sum());
            }
        }
        assert!(most <= 5 * 5 * 6, "{most} bins");
    }
}
