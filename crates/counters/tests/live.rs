//! The collector against the real kernel. Needs root and BTF.

use crosstalk_counters::{Collector, Options, Readings, Tick};
use crosstalk_host::thread::stay_on;
use crosstalk_host::{Clock, ClockReadings, monotonic_ns};
use std::collections::HashMap;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Collects for `time`, polling as the recorder does.
fn collect(options: &Options, time: Duration) -> (Collector, Readings) {
    collect_while(options, time, || ())
}

#[allow(clippy::disallowed_methods)] // the pace of polling
fn collect_while(
    options: &Options,
    time: Duration,
    mut each: impl FnMut(),
) -> (Collector, Readings) {
    let mut collector = Collector::open(options).expect("the tests run as root on a BTF kernel");
    collector.start().expect("programs attach");
    let mut all = Readings::default();
    let end = Instant::now() + time;
    while Instant::now() < end {
        each();
        thread::sleep(Duration::from_millis(20));
        let some = collector.poll().expect("poll");
        all.tasks.extend(some.tasks);
        all.slots.extend(some.slots);
    }
    let last = collector.finish().expect("finish");
    all.tasks.extend(last.tasks);
    all.slots.extend(last.slots);
    (collector, all)
}

fn assert_conserved(all: &Readings) {
    let mut used: HashMap<(u64, u32), u64> = HashMap::new();
    for task in &all.tasks {
        *used.entry((task.slot_start_ns, task.core)).or_default() += task.on_cpu_ns;
    }
    for slot in all.slots.iter().filter(|slot| slot.lost == 0) {
        let busy = used.get(&(slot.slot_start_ns, slot.core)).copied().unwrap_or_default();
        let sum = busy + slot.idle_ns.expect("a slot that was not lost knows its idle time");
        assert_eq!(sum, 1_000_000, "slot {} core {}", slot.slot_start_ns, slot.core);
    }
}

fn assert_no_slot_is_missing_or_doubled(all: &Readings) {
    let mut by_core: HashMap<u32, Vec<u64>> = HashMap::new();
    for slot in &all.slots {
        by_core.entry(slot.core).or_default().push(slot.slot_start_ns);
    }
    let lengths: Vec<usize> = by_core.values().map(Vec::len).collect();
    assert!(lengths.windows(2).all(|w| w[0] == w[1]), "{lengths:?}");
    for starts in by_core.values_mut() {
        starts.sort_unstable();
        assert!(starts.windows(2).all(|w| w[1] - w[0] == 1_000_000));
    }
}

#[test]
fn every_slot_of_every_core_adds_up_to_its_length() {
    for tick in [Tick::Off, Tick::On] {
        let options = Options { tick, ..Options::default() };
        let (collector, all) = collect(&options, Duration::from_secs(2));
        assert_conserved(&all);
        assert_no_slot_is_missing_or_doubled(&all);
        let totals = collector.totals();
        assert_eq!((totals.lost_rows, totals.malformed), (0, 0), "{totals:?}");
        assert!(all.slots.len() > 3_000, "{}", all.slots.len());
        let ticked = all.slots.iter().filter(|slot| slot.tick_late_ns.is_some()).count();
        assert_eq!(ticked > 0, tick == Tick::On, "{ticked} ticked slots with the tick {tick}");
    }
}

#[test]
fn a_collector_opened_anew_with_the_same_clock_knows_a_process_by_the_same_start() {
    // A clock that is set between the two must not make every process another: this one is hours off already.
    let boottime_ns = monotonic_ns();
    let clock = Clock::of(ClockReadings {
        realtime_ns: boottime_ns + 7_200_000_000_000,
        monotonic_ns: boottime_ns,
        boottime_ns,
    });
    let options = Options { clock, ..Options::default() };
    let starts: Vec<u64> = (0..2)
        .map(|_| {
            let (_, all) = collect(&options, Duration::from_millis(200));
            let own = all.tasks.iter().find(|task| task.process.pid == std::process::id());
            own.expect("this process polled").process.start_ns
        })
        .collect();
    assert_eq!(starts[0], starts[1]);
    assert!(starts[0] >= 7_200_000_000_000 && starts[0] < options.clock.now_unix_ns());
}

#[test]
fn whose_child_a_process_is_is_known_however_soon_it_ends() {
    let mut children = Vec::new();
    let (_, all) = collect_while(&Options::default(), Duration::from_millis(200), || {
        let mut child = Command::new("true").spawn().expect("true runs");
        children.push(child.id());
        child.wait().expect("true ends");
    });
    for child in children {
        let row = all.tasks.iter().find(|task| task.process.pid == child && task.parent.is_some());
        let parent = row.and_then(|task| task.parent);
        assert_eq!(parent, Some(std::process::id()), "process {child}");
    }
}

/// Interrupts of a core so far: its ticks, and what other cores sent it.
fn interrupts(core: usize) -> u64 {
    let text = std::fs::read_to_string("/proc/interrupts").expect("it is there");
    let of_core = |line: &str| line.split_whitespace().nth(core + 1)?.parse::<u64>().ok();
    text.lines().skip(1).filter_map(of_core).sum()
}

#[test]
#[allow(clippy::disallowed_methods)] // a core is to rest for so long
fn a_core_that_rests_is_not_woken_for_its_slots() {
    const STRETCH: Duration = Duration::from_millis(500);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        eprintln!("skipped: with one core, who records is who wakes it");
        return;
    }
    let idle = cores - 1;
    stay_on(&[0]).expect("core 0 is there");
    let recorded = || {
        // Loading programs calls every core; what counts is what comes after.
        let mut seen: Option<(u64, u64)> = None;
        collect_while(&Options::default(), STRETCH, || {
            let now = interrupts(idle);
            seen = Some((seen.map_or(now, |(first, _)| first), now));
        });
        seen.map_or(0, |(first, last)| last - first)
    };
    let resting = || {
        let before = interrupts(idle);
        thread::sleep(STRETCH);
        interrupts(idle) - before
    };
    // Others wake it too, recorded or not: the calmest of a few stretches of each.
    let (with, without) = (0..6).fold((u64::MAX, u64::MAX), |(with, without), _| {
        (recorded().min(with), resting().min(without))
    });
    // Once a slot would be 500 more.
    assert!(with < without + 100, "{with} interrupts while recorded, {without} without");
}
