//! The streaming form: it names a culprit soon, forgets it in time, and costs little.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_interference::{Activity, Observer, Settings, Slot, Subject, Topology};
use std::hint::black_box;
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

/// A victim beside a neighbour that is on when `on` says so, in slots of 1 ms.
fn push_second(observer: &mut Observer, second: u64, on: impl Fn(u64) -> bool) {
    for ms in 0..1_000 {
        let slot = second * 1_000 + ms;
        let dearer = if on(slot) { 150 } else { 0 };
        let mut entries = vec![Activity {
            cycles: Some(1_000 + slot * 7_919 % 211 + dearer),
            instructions: Some(1_000),
            ..Activity::new(Subject(0), 0, MS)
        }];
        if on(slot) {
            entries.push(Activity::new(Subject(1), 1, MS));
        }
        observer.push(&Slot {
            start_ns: slot * MS,
            length_ns: MS,
            entries: &entries,
            ..Slot::default()
        });
    }
}

#[test]
fn a_culprit_that_starts_and_stays_is_named_within_30_s_and_forgotten_a_window_after_it_ends() {
    let mut observer = Observer::new(Topology::one_cache(2), Settings::live(60));
    let on = |slot: u64| (40_000..70_000).contains(&slot);
    for second in 0..40 {
        push_second(&mut observer, second, on);
    }
    assert_eq!(observer.findings().verdicts, []);
    let named = (40..70).find(|&second| {
        push_second(&mut observer, second, on);
        observer.findings().verdicts.iter().any(|v| v.aggressors == [Subject(1)])
    });
    let after = named.unwrap() - 40;
    println!("named after {after} s");
    assert!((1..30).contains(&after), "a single second proves nothing; half a minute is late");
    for second in named.unwrap() + 1..140 {
        push_second(&mut observer, second, on);
    }
    assert_eq!(observer.findings().verdicts, []);
}

#[test]
fn cost_of_a_slot_and_of_a_look() {
    for rows in [12_u32, 36] {
        let mut observer = Observer::new(Topology::one_cache(rows), Settings::live(60));
        let slots = 20_000;
        let mut pushing = Duration::ZERO;
        for slot in 0..slots {
            let entries: Vec<Activity> = (0..rows)
                .map(|who| Activity {
                    cycles: Some(1_000 + slot * u64::from(who) % 97),
                    instructions: Some(1_000),
                    ..Activity::new(Subject(who), who, MS * ((slot / 300 + u64::from(who)) % 2))
                })
                .collect();
            let slot =
                Slot { start_ns: slot * MS, length_ns: MS, entries: &entries, ..Slot::default() };
            let began = Instant::now();
            observer.push(&slot);
            pushing += began.elapsed();
        }
        let push_us = pushing.as_secs_f64() * 1e6 / slots as f64;
        let began = Instant::now();
        black_box(observer.findings());
        let look_ms = began.elapsed().as_secs_f64() * 1e3;
        println!("{rows} rows: {push_us:.2} us a slot, {look_ms:.0} ms a look");
        // Ten times what was measured: this fails for a change of order, not for a busy machine.
        assert!(push_us < 100.0, "{push_us} us");
    }
}
