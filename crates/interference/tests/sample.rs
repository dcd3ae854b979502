//! Of a long recording a sample is kept, and only what will be kept is looked at closely.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_interference::{
    Activity, Bin, Burst, Ledger, Observer, Settings, Slot, Subject, Topology,
};
use std::collections::{BTreeMap, BTreeSet};

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
    let settings = Settings {
        stretch_bins: 25,
        stretches: 4,
        newcomers: 2,
        seats: 5,
        ..Settings::recording()
    };
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
    assert_eq!(keeping.sampled(), None);
    let [kept, all] = sampling.sampled().expect("a sample");
    assert!((4..=7).contains(&kept) && (59..=61).contains(&all), "{kept} of {all}");
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

const SLOT_NS: u64 = 8 * MS;
const VICTIM: Subject = Subject(0);
const INNOCENT: Subject = Subject(1);
const CULPRIT: Subject = Subject(2);

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % below
    }
}

/// Forty minutes of a victim beside somebody who is on and off and costs it nothing, and for half a minute beside a culprit
/// that makes each of its instructions cost 30 % more.
fn half_a_minute_of_forty(mut push: impl FnMut(u64, &[Activity])) {
    let mut random = Random(88_172_645_463_325_252);
    let (mut on, mut until) = (false, 0);
    for slot in 0..40 * 60 * 125_u64 {
        if slot >= until {
            (on, until) = (!on, slot + 50 + random.below(400));
        }
        let hurts = (1_503 * 125..1_533 * 125).contains(&slot);
        let cost = 950 + random.below(100);
        let mut entries = vec![Activity {
            cycles: Some(if hurts { cost * 13 / 10 } else { cost } * 1_000),
            instructions: Some(1_000_000),
            ..Activity::new(VICTIM, 0, SLOT_NS)
        }];
        entries.extend(on.then(|| Activity::new(INNOCENT, 1, SLOT_NS)));
        entries.extend(hurts.then(|| Activity::new(CULPRIT, 2, SLOT_NS)));
        push(slot * SLOT_NS, &entries);
    }
}

fn observed(settings: Settings) -> Observer {
    let mut observer = Observer::new(Topology::one_cache(3), settings);
    half_a_minute_of_forty(|start_ns, entries| {
        observer.push(&Slot { start_ns, length_ns: SLOT_NS, entries, ..Slot::default() });
    });
    observer
}

/// Who counts by bins, such as a query engine, is asked for the statistics of the same stretches.
#[test]
fn a_ledger_keeps_the_stretches_that_an_observer_keeps_those_for_newcomers_too() {
    let settings = Settings::recording();
    let mut bins: BTreeMap<u64, Vec<(Subject, u64)>> = BTreeMap::new();
    half_a_minute_of_forty(|start_ns, entries| {
        let ran = bins.entry(start_ns - start_ns % settings.bin_ns).or_default();
        for entry in entries {
            match ran.iter_mut().find(|one| one.0 == entry.subject) {
                Some(one) => one.1 += entry.on_cpu_ns,
                None => ran.push((entry.subject, entry.on_cpu_ns)),
            }
        }
    });
    // The last bin of a recording is not whole.
    bins.pop_last();
    let mut ledger = Ledger::new(settings);
    for (start_ns, ran) in &bins {
        ledger.bin(*start_ns, 5, 0, ran);
    }
    let asked: BTreeSet<u64> = ledger.stretches().iter().map(|stretch| stretch.start).collect();
    let observer = observed(settings);
    let stretch_ns = settings.bin_ns * settings.stretch_bins as u64;
    let victims = observer.victims();
    let kept = victims.iter().flat_map(|one| &one.bins);
    let kept: BTreeSet<u64> = kept.map(|bin| bin.start_ns - bin.start_ns % stretch_ns).collect();
    assert_eq!(asked, kept);
    assert_eq!(ledger.sampled(), observer.sampled());
    assert!(asked.contains(&1_510_000_000_000) && asked.contains(&1_520_000_000_000), "{asked:?}");
}

#[test]
fn half_a_minute_in_a_long_recording_is_found_and_its_loss_is_not_blown_up() {
    let observer = observed(Settings::recording());
    assert!(observer.sampled().is_some_and(|[kept, all]| kept <= 25 && all == 240));
    let findings = observer.findings();
    let [verdict] = &findings.verdicts[..] else { panic!("{findings:#?}") };
    assert_eq!((verdict.victim, &verdict.aggressors[..]), (VICTIM, &[CULPRIT][..]));
    let lost = 30.0 * (1.0 - 1.0 / 1.3);
    assert!((verdict.lost_seconds / lost - 1.0).abs() < 0.2, "{lost} s lost: {verdict:?}");
    assert!((verdict.low..=verdict.high).contains(&(1.0 - 1.0 / 1.3)), "{verdict:?}");
    // What an even sample would have shown: nothing, or a loss as if it had been there all the time.
    let even = observed(Settings { newcomers: 0, ..Settings::recording() });
    let named = even.findings().verdicts;
    assert!(named.is_empty(), "the half minute is in this even sample: {named:?}");
}

/// A long recording, in short stretches, of a victim that waits for a holder of its core whose turns are minutes long and
/// each of another kind. Answers the verdict's interval of the loss, and the truth.
fn waits_of(seed: u64) -> Option<([f64; 2], f64)> {
    let mut random = Random(seed * 7_919 + 88_172_645_463_325_252);
    let settings = Settings { stretch_bins: 25, ..Settings::recording() };
    let mut observer = Observer::new(Topology::one_cache(2), settings);
    let (mut share, mut until, mut waited) = (0, 0, 0.0);
    for slot in 0..300 * 125_u64 {
        if slot >= until {
            (share, until) = (random.below(4), slot + 250 + random.below(3_000));
        }
        let held = SLOT_NS / 8 * share;
        let wait_ns = held * (50 + random.below(50)) / 100;
        waited += wait_ns as f64 / 1e9;
        let entries = [
            Activity { wait_ns: Some(wait_ns), ..Activity::new(VICTIM, 0, SLOT_NS / 2) },
            Activity::new(CULPRIT, 0, held),
        ];
        let start_ns = slot * SLOT_NS;
        observer.push(&Slot { start_ns, length_ns: SLOT_NS, entries: &entries, ..Slot::default() });
    }
    let findings = observer.findings();
    let verdict = findings.verdicts.into_iter().find(|one| one.victim == VICTIM)?;
    let seconds = verdict.lost_seconds / verdict.slowdown;
    Some(([verdict.low * seconds, verdict.high * seconds], waited))
}

#[test]
fn intervals_of_a_sample_hold_what_the_whole_lost_and_say_that_they_are_of_a_sample() {
    let (mut held, mut widths) = (0, Vec::new());
    for seed in 0..40 {
        let ([low, high], truth) = waits_of(seed).expect("it waited for minutes");
        held += u32::from((low..=high).contains(&truth));
        widths.push((high - low) / truth);
    }
    widths.sort_by(f64::total_cmp);
    assert!(held >= 34, "{held} of 40 hold the truth: {widths:?}");
    assert!(widths[20] > 0.005 && widths[20] < 0.3, "at the median, of the loss: {}", widths[20]);
}
