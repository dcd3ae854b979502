//! A real streaming neighbour slows real bursts: as a ratio, since absolute times are the machine's.

#![allow(clippy::unwrap_used)] // what a test needs of the machine

use crosstalk_probe::{ProbeConfig, ProbeReading, Prober};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

fn stream(stop: &AtomicBool) {
    let from = vec![1_u64; 8 << 20];
    let mut to = vec![0_u64; 8 << 20];
    while !stop.load(Ordering::Relaxed) {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    }
}

/// Median time of what feels a neighbour best, of the next bursts.
fn slowness(readings: &Receiver<ProbeReading>, bursts: usize) -> f64 {
    while readings.try_recv().is_ok() {}
    let mut values: Vec<f64> = readings
        .iter()
        .filter_map(|reading| {
            reading.write_back_ns.or_else(|| Some(1e9 / reading.bandwidth_bytes_per_s?))
        })
        .take(bursts)
        .collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn bursts_take_longer_beside_a_neighbour_that_streams() {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("skipped: a neighbour needs a core of its own");
        return;
    }
    let (send, readings) = channel();
    // More bursts than the product would run: the test is about memory, not about the budget.
    let config = ProbeConfig { cpu_share: 0.05, ..ProbeConfig::default() };
    let _prober = Prober::start(config, move |reading| {
        let _ = send.send(reading);
    })
    .unwrap();
    // Where others keep every core and the memory busy, one stream more changes little: such a round says nothing.
    let (mut ratios, mut busy_rounds) = (Vec::new(), 0);
    while ratios.len() < 6 && busy_rounds < 12 {
        let before = idle_and_all_ticks();
        let alone = slowness(&readings, 25);
        let after = idle_and_all_ticks();
        let stop = AtomicBool::new(false);
        let beside = std::thread::scope(|scope| {
            scope.spawn(|| stream(&stop));
            let beside = slowness(&readings, 25);
            stop.store(true, Ordering::Relaxed);
            beside
        });
        if beside > 1.08 * alone {
            return;
        }
        if 2 * (after.0 - before.0) >= after.1 - before.1 {
            ratios.push(beside / alone);
        } else {
            busy_rounds += 1;
        }
    }
    if ratios.len() < 6 {
        eprintln!("not judged: the machine was busy in {busy_rounds} rounds");
        return;
    }
    panic!("a streaming neighbour never slowed the bursts: ratios {ratios:?}");
}

/// Time all cores together were idle, and all of it, since the machine started.
fn idle_and_all_ticks() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let first = stat.lines().next().unwrap();
    let ticks: Vec<u64> = first.split_whitespace().skip(1).map(|t| t.parse().unwrap()).collect();
    (ticks[3] + ticks[4], ticks.iter().sum())
}

#[test]
fn the_probe_stays_within_its_budget_and_stops_when_dropped() {
    let (send, readings) = channel();
    let begin = Instant::now();
    let prober = Prober::start(ProbeConfig::default(), move |reading| {
        let _ = send.send(reading);
    })
    .unwrap();
    let seen: Vec<ProbeReading> = readings.iter().take(40).collect();
    let (cost, wall) = (prober.cost(), begin.elapsed());
    // The first burst touches new memory; a second's worth of it is forgiven.
    let allowed = (wall + Duration::from_secs(1)).mul_f64(0.005);
    assert!(cost.cpu <= allowed, "{cost:?} in {wall:?}");
    assert!(cost.bytes <= 16 * 1024 * 1024);
    assert!(seen.iter().all(|reading| reading.slot_start_ns % 1_000_000 == 0));
    assert!(seen.iter().any(|reading| reading.latency_ns.is_some()));
    drop(prober);
    assert!(readings.iter().count() < 1_000, "the channel is closed: the thread has ended");
}
