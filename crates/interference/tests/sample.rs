//! Of a long recording a sample is kept, and only what will be kept is looked at closely.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_interference::{Activity, Bin, Burst, Observer, Settings, Slot, Subject, Topology};
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

/// Six who take turns on three cores, wait for each other, are stopped for their quota now and then, and of whom one
/// comes late and takes a seat.
fn push(observer: &mut Observer, slot: u64) {
    let ran = |who: u64| {
        let busy = (slot / 13 + who * slot / 97) % 3;
        let wait_ns = (slot + who).is_multiple_of(11).then_some(3 * MS + who * 1_000);
        (busy > 0 && (who < 5 || slot > 30_000)).then_some(Activity {
            wait_ns,
            voluntary_switches: (slot % 3) as u32,
            cycles: Some(1_000 + slot % 89),
            instructions: Some(900 + who),
            llc_misses: Some(slot % 7),
            freq_mhz: Some(2_000 + (slot % 10) as u32),
            ..Activity::new(Subject(who as u32), ((who + slot / 50) % 3) as u32, busy * MS / 3)
        })
    };
    let entries: Vec<Activity> = (0..6).filter_map(ran).collect();
    let throttled = [(Subject(1), if slot.is_multiple_of(170) { 30 * MS } else { 0 })];
    observer.push(&Slot {
        start_ns: slot * MS,
        length_ns: MS,
        lost: slot % 5_000 < 20,
        entries: &entries,
        stolen: slot.is_multiple_of(20).then_some(&[(0, 1_000)]),
        progress: &[(Subject(2), 0.5)],
        throttled: &throttled,
        bursts: &[Burst { core: 1, cost: 5.0 + (slot % 4) as f64 }],
    });
}

fn bins(observer: &Observer) -> BTreeMap<(Subject, u64), Bin> {
    let victims = observer.victims();
    let all = victims.iter().flat_map(|one| one.bins.iter().map(|bin| (one.victim, *bin)));
    all.map(|(victim, bin)| ((victim, bin.start_ns), bin.clone())).collect()
}

#[test]
fn what_is_kept_of_a_sample_is_what_would_have_been_kept_of_the_whole() {
    let settings = Settings { stretch_bins: 25, stretches: 4, seats: 5, ..Settings::recording() };
    let mut sampling = Observer::new(Topology::one_cache(3), settings);
    let mut keeping =
        Observer::new(Topology::one_cache(3), Settings { stretches: 100, ..settings });
    for slot in 0..60_500 {
        push(&mut sampling, slot);
        push(&mut keeping, slot);
    }
    let (sample, whole) = (bins(&sampling), bins(&keeping));
    assert!(sample.len() >= 4 * 25 * 3 && sample.len() * 8 < whole.len(), "{}", sample.len());
    for (key, bin) in &sample {
        assert_eq!(Some(bin), whole.get(key), "{key:?}");
    }
    let worked = |observer: &Observer| -> Vec<(Subject, f64)> {
        let named = observer.victims().into_iter().filter(|one| one.victim.0 < 6);
        named.map(|one| (one.victim, one.on_cpu_ns)).collect()
    };
    assert_eq!(worked(&sampling), worked(&keeping), "a sample stands for the whole time");
}

#[test]
fn every_stretch_is_as_likely_to_be_kept_as_any_other() {
    let settings =
        Settings { bin_ns: MS, stretch_bins: 1, stretches: 300, ..Settings::recording() };
    let mut observer = Observer::new(Topology::one_cache(1), settings);
    let entries = [Activity::new(Subject(0), 0, MS)];
    for slot in 0..3_000 {
        let start_ns = slot * MS;
        let slot = Slot { start_ns, length_ns: MS, entries: &entries, ..Slot::default() };
        observer.push(&slot);
    }
    let victims = observer.victims();
    let third = |nth: u64| {
        let within = |bin: &&&Bin| bin.start_ns / (1_000 * MS) == nth;
        victims[0].bins.iter().filter(within).count()
    };
    let thirds = [third(0), third(1), third(2)];
    assert!(thirds.iter().sum::<usize>() >= 300, "{thirds:?}");
    // 100 each, with a deviation of 8.
    assert!(thirds.iter().all(|kept| (65..135).contains(kept)), "{thirds:?}");
}
