//! How well the probe tells a streaming neighbour from quiet and from a busy processor, here and now.
//!
//! `cargo run --release -p crosstalk-probe --example weather [starts] [seconds of calm between]`
//! lets a neighbour start so many times (20) and prints how often contention was found within two seconds,
//! and in how many quiet and computing periods it was wrongly claimed. `weather record [rounds]` prints every burst as
//! CSV instead.

use crosstalk_probe::{ProbeConfig, ProbeReading, Prober, State};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Neighbour {
    None,
    Computes,
    Streams,
}

/// Runs `what` while the neighbour runs; it has stopped when this returns.
fn beside<T>(neighbour: Neighbour, what: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| match neighbour {
            Neighbour::None => {}
            Neighbour::Computes => compute(&stop),
            Neighbour::Streams => stream(&stop),
        });
        let result = what();
        stop.store(true, Ordering::Relaxed);
        running.join().expect("the neighbour does not panic");
        result
    })
}

fn compute(stop: &AtomicBool) {
    let mut state = 1_u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..100_000 {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

fn stream(stop: &AtomicBool) {
    // Far larger than any last-level cache the bursts could share.
    let from = vec![1_u64; 16 << 20];
    let mut to = vec![0_u64; 16 << 20];
    while !stop.load(Ordering::Relaxed) {
        for (to, from) in to.chunks_mut(1 << 17).zip(from.chunks(1 << 17)) {
            to.copy_from_slice(black_box(from));
        }
        black_box(&mut to);
    }
}

/// Takes readings for so long; returns when contention was first claimed, and the last reading.
fn watch(
    readings: &Receiver<ProbeReading>,
    limit: Duration,
) -> (Option<Duration>, Vec<ProbeReading>) {
    let begin = Instant::now();
    let mut found = None;
    let mut seen = Vec::new();
    while let Some(left) = limit.checked_sub(begin.elapsed()) {
        let Ok(reading) = readings.recv_timeout(left) else { break };
        if reading.state == State::Contended && found.is_none() {
            found = Some(begin.elapsed());
        }
        seen.push(reading);
    }
    (found, seen)
}

fn record(readings: &Receiver<ProbeReading>, rounds: usize) {
    println!("neighbour,ms,latency_ns,bandwidth_bytes_per_s,write_back_ns");
    let begin = Instant::now();
    let round = [(Neighbour::Streams, 3), (Neighbour::None, 5), (Neighbour::Computes, 4)];
    let plan =
        std::iter::once((Neighbour::None, 15)).chain(round.into_iter().cycle().take(3 * rounds));
    for (neighbour, seconds) in plan {
        beside(neighbour, || {
            let limit = Duration::from_secs(seconds);
            let from = Instant::now();
            while let Some(left) = limit.checked_sub(from.elapsed()) {
                let Ok(reading) = readings.recv_timeout(left) else { break };
                if let Some((latency, bandwidth)) =
                    reading.latency_ns.zip(reading.bandwidth_bytes_per_s)
                {
                    let ms = begin.elapsed().as_millis();
                    let write_back =
                        reading.write_back_ns.map_or(String::new(), |ns| format!("{ns:.3}"));
                    println!("{neighbour:?},{ms},{latency:.1},{bandwidth:.0},{write_back}");
                }
            }
        });
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (send, readings) = channel();
    let begin = Instant::now();
    let prober = Prober::start(ProbeConfig::default(), move |reading| {
        let _ = send.send(reading);
    })?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "record") {
        record(&readings, arguments.get(1).map_or(Ok(4), |text| text.parse())?);
        return Ok(());
    }
    let starts: u32 = arguments.first().map_or(Ok(20), |text| text.parse())?;
    let calm = Duration::from_secs(arguments.get(1).map_or(Ok(3), |text| text.parse())?);

    println!("learning the quiet level for 10 s");
    let (_, learning) = watch(&readings, Duration::from_secs(10));
    let newest = learning.last().copied();
    println!("{newest:?}");
    let (mut found, mut delays) = (0, Vec::new());
    let (mut quiet_alarms, mut compute_alarms, mut unknown) = (0, 0, 0);
    for start in 1..=starts {
        // The window still holds a second of what was before.
        let fade = Duration::from_millis(1_500);
        watch(&readings, fade);
        let (quiet_alarm, quiet) = watch(&readings, calm);
        let (compute_alarm, computing) = beside(Neighbour::Computes, || watch(&readings, calm));
        let (delay, streaming) =
            beside(Neighbour::Streams, || watch(&readings, Duration::from_secs(2)));
        quiet_alarms += u32::from(quiet_alarm.is_some());
        compute_alarms += u32::from(compute_alarm.is_some());
        found += u32::from(delay.is_some());
        delays.extend(delay);
        let median = |readings: &[ProbeReading]| {
            let mut values: Vec<f64> = readings.iter().filter_map(|r| r.inflation).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
        };
        let all = quiet.iter().chain(&computing).chain(&streaming);
        unknown += all.filter(|reading| reading.state == State::Unknown).count();
        println!(
            "{start:2}: inflation quiet {:.3} computing {:.3} streaming {:.3}, found {}",
            median(&quiet),
            median(&computing),
            median(&streaming),
            delay.map_or("no".to_owned(), |delay| format!("after {:.2} s", delay.as_secs_f64()))
        );
    }
    delays.sort();
    let cost = prober.cost();
    let share = cost.cpu.as_secs_f64() / begin.elapsed().as_secs_f64();
    println!("streaming neighbour found within 2 s: {found} of {starts}");
    println!("median delay: {:?}", delays.get(delays.len() / 2));
    println!(
        "false alarms: {quiet_alarms} of {starts} quiet, {compute_alarms} of {starts} computing periods"
    );
    println!("unknown: {unknown} readings; {} of {} bursts disturbed", cost.disturbed, cost.bursts);
    println!("cost: {:.3} % of one core, {} KiB", share * 100.0, cost.bytes / 1024);
    Ok(())
}
