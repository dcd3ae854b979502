//! Each resource, and each signal, on a recording where it alone is at work.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_interference::{
    Activity, Because, Burst, CorePlace, Findings, Observer, Resource, Settings, Signal, Slot,
    Subject, Topology,
};

const MS: u64 = 1_000_000;
const SLOT_NS: u64 = 4 * MS;
const VICTIM: Subject = Subject(0);
const NEIGHBOUR: Subject = Subject(1);

/// What a recording says about one slot, given whether the neighbour is on and a number around 1.
struct Scene<'a> {
    topology: Topology,
    settings: Settings,
    slots: u64,
    victim: &'a dyn Fn(bool, f64) -> Activity,
    neighbour_core: u32,
    progress: &'a dyn Fn(u64, bool) -> f64,
    throttled_ns: u64,
    stolen: Option<&'a [(u32, u64)]>,
    /// What the probe's bursts cost, if there is a probe.
    burst: Option<&'a dyn Fn(bool, f64) -> f64>,
}

impl Scene<'_> {
    fn new<'a>(victim: &'a dyn Fn(bool, f64) -> Activity) -> Scene<'a> {
        Scene {
            topology: Topology::one_cache(2),
            settings: Settings::recording(),
            slots: 10_000,
            victim,
            neighbour_core: 1,
            progress: &|_, _| 0.0,
            throttled_ns: 0,
            stolen: Some(&[]),
            burst: None,
        }
    }

    fn findings(&self) -> Findings {
        let mut observer = Observer::new(self.topology.clone(), self.settings);
        let mut random = 88_172_645_463_325_252_u64;
        let (mut on, mut until) = (false, 0);
        for slot in 0..self.slots {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if slot >= until {
                (on, until) = (!on, slot + 50 + random % 400);
            }
            let noise = 0.95 + 0.1 * (random % 1_000) as f64 / 1_000.0;
            let mut entries = vec![(self.victim)(on, noise)];
            if on {
                entries.push(Activity::new(NEIGHBOUR, self.neighbour_core, SLOT_NS / 2));
            }
            let progress = [(VICTIM, (self.progress)(slot, on))];
            let throttled = [(VICTIM, self.throttled_ns)];
            let burst = self.burst.filter(|_| slot % 8 == 0);
            let bursts = burst.map(|cost| Burst { core: 0, cost: cost(on, noise) });
            observer.push(&Slot {
                start_ns: slot * SLOT_NS,
                length_ns: SLOT_NS,
                entries: &entries,
                progress: &progress,
                throttled: &throttled,
                bursts: bursts.as_slice(),
                stolen: self.stolen,
                ..Slot::default()
            });
        }
        observer.findings()
    }
}

/// Counters of a victim at this many cycles an instruction and a nanosecond.
fn counted(per_instruction: f64, per_ns: f64) -> Activity {
    let cycles = SLOT_NS as f64 * per_ns;
    Activity {
        cycles: Some(cycles as u64),
        instructions: Some((cycles / per_instruction) as u64),
        ..Activity::new(VICTIM, 0, SLOT_NS)
    }
}

#[test]
fn a_lower_clock_is_a_loss_through_frequency() {
    let victim = |on: bool, noise: f64| counted(noise, if on { 2.25 } else { 2.5 });
    let findings = Scene::new(&victim).findings();
    let [verdict] = &findings.verdicts[..] else { panic!("{findings:?}") };
    assert_eq!(
        (verdict.resource, &verdict.aggressors[..]),
        (Resource::Frequency, &[NEIGHBOUR][..])
    );
    assert!(
        (verdict.low..=verdict.high).contains(&0.05),
        "half the time a tenth slower: {verdict:?}"
    );
}

#[test]
fn where_stolen_time_is_unknown_or_there_is_some_frequency_is_not_blamed() {
    let victim = |on: bool, noise: f64| counted(noise, if on { 2.25 } else { 2.5 });
    let mut scene = Scene::new(&victim);
    for stolen in [None, Some(&[(0, SLOT_NS / 50)][..])] {
        scene.stolen = stolen;
        assert_eq!(scene.findings().verdicts, []);
    }
}

#[test]
fn a_busy_sibling_is_told_from_a_busy_cache() {
    let victim = |on: bool, noise: f64| counted(noise * if on { 1.4 } else { 1.0 }, 2.5);
    let place = |physical, cache| CorePlace { physical, cache, memory: 0 };
    let mut scene = Scene::new(&victim);
    let cases = [
        (place(0, 0), Resource::SiblingThread),
        (place(1, 0), Resource::CacheOrMemory),
        (place(1, 1), Resource::MemoryBandwidth),
    ];
    for (neighbour, expected) in cases {
        scene.topology = Topology::new(vec![place(0, 0), neighbour]);
        let findings = scene.findings();
        assert_eq!(findings.verdicts[0].resource, expected, "{findings:?}");
    }
}

#[test]
fn a_neighbour_that_shares_nothing_is_not_blamed() {
    let victim = |on: bool, noise: f64| counted(noise * if on { 1.4 } else { 1.0 }, 2.5);
    let mut scene = Scene::new(&victim);
    let place = |at| CorePlace { physical: at, cache: at, memory: at };
    scene.topology = Topology::new(vec![place(0), place(1)]);
    let findings = scene.findings();
    assert_eq!(findings.verdicts, []);
    assert_eq!(findings.cannot_tell[0].because, Because::ExposureTooSmall);
}

#[test]
fn a_workload_that_counts_its_own_work_needs_no_counters() {
    let victim = |_: bool, _: f64| Activity::new(VICTIM, 0, SLOT_NS);
    let mut scene = Scene::new(&victim);
    scene.progress =
        &|slot, on| (if on { 0.8 } else { 1.0 }) + (slot * 7_919 % 100) as f64 / 1_000.0;
    let findings = scene.findings();
    let verdict = &findings.verdicts[0];
    assert_eq!((verdict.signal, &verdict.aggressors[..]), (Signal::Progress, &[NEIGHBOUR][..]));
    assert!((verdict.slowdown - 0.095).abs() < 0.02, "{verdict:?}");
}

#[test]
fn waiting_for_ones_own_quota_is_nobodys_fault() {
    let victim = |on: bool, _: f64| Activity {
        wait_ns: Some(if on { 2 * MS } else { 0 }),
        ..Activity::new(VICTIM, 0, 2 * MS)
    };
    let mut scene = Scene::new(&victim);
    scene.neighbour_core = 0;
    assert_eq!(scene.findings().verdicts[0].resource, Resource::CpuTime);
    scene.throttled_ns = 2 * MS;
    assert_eq!(scene.findings().verdicts, []);
}

#[test]
fn who_is_stopped_for_most_of_each_period_waits_for_its_quota_however_long_that_is() {
    // A tenth of a core: stopped for 90 ms of each 100, told of in the middle of the next, beside somebody who runs on.
    let settings = Settings::recording();
    let mut observer = Observer::new(Topology::one_cache(2), settings);
    for slot in 0..20_000_u64 {
        let ms = slot % 100;
        let wait_ns = (ms == 0).then_some(90 * MS);
        let who = if ms < 10 { VICTIM } else { NEIGHBOUR };
        let entries = [Activity { wait_ns, ..Activity::new(who, 0, MS) }];
        let throttled = [(VICTIM, 90 * MS)];
        observer.push(&Slot {
            start_ns: slot * MS,
            length_ns: MS,
            entries: &entries,
            throttled: if ms == 50 { &throttled } else { &[] },
            ..Slot::default()
        });
    }
    let findings = observer.findings();
    let lost = findings.verdicts.iter().find(|verdict| verdict.victim == VICTIM);
    // The first wait is told of by nobody.
    assert!(lost.is_none_or(|verdict| verdict.slowdown < 0.02), "{lost:?}");
}

#[test]
fn a_sample_of_a_long_recording_speaks_for_the_whole() {
    let victim = |on: bool, noise: f64| counted(noise * if on { 1.25 } else { 1.0 }, 2.5);
    let mut scene = Scene::new(&victim);
    scene.slots = 150_000;
    scene.settings.seats = 4;
    let findings = scene.findings();
    let verdict = &findings.verdicts[0];
    assert!(verdict.evidence.bins <= 19 * 250, "{verdict:?}");
    // Ten minutes, on half of the time, a fifth of which is lost.
    assert!((verdict.lost_seconds - 60.0).abs() < 4.0, "{verdict:?}");
}

#[test]
fn of_who_never_sleeps_the_probe_names_those_that_slow_memory_and_no_loss_is_made_up() {
    let victim = |_: bool, _: f64| Activity::new(VICTIM, 0, SLOT_NS);
    let mut scene = Scene::new(&victim);
    let unsaid = |scene: &Scene<'_>| {
        let findings = scene.findings();
        assert_eq!(findings.verdicts, []);
        let ours = findings.cannot_tell.into_iter().find(|one| one.victim == VICTIM).unwrap();
        (ours.because, ours.neighbours)
    };
    assert_eq!(unsaid(&scene), (Because::NoSignal, vec![]));
    scene.burst = Some(&|_, noise| 100.0 * noise);
    assert_eq!(unsaid(&scene), (Because::NoSignal, vec![]));
    scene.burst = Some(&|on, noise| noise * if on { 120.0 } else { 100.0 });
    assert_eq!(unsaid(&scene), (Because::OnlyProbe, vec![NEIGHBOUR]));
}
