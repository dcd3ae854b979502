//! How well the probe tells a streaming neighbour from quiet and from a busy processor, here and now.
//!
//! A neighbour starts to stream 20 times; before each start the machine rests for half a minute and then computes for
//! half a minute (`--calm SECONDS`). `cargo bench -p crosstalk-probe -- --quick` has 5 starts and seconds of calm, and
//! `-- record [rounds]` prints every burst as CSV instead: what tests/weather.rs replays.

use crosstalk_figure::{Figure, Section, has, is_asked_for, median};
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

/// Takes readings for so long; returns when contention was first claimed, and all of them.
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
    if !is_asked_for() {
        return Ok(());
    }
    let (send, readings) = channel();
    let begin = Instant::now();
    let prober = Prober::start(ProbeConfig::default(), move |reading| {
        let _ = send.send(reading);
    })?;
    let recording = std::env::args().skip_while(|argument| argument != "record").nth(1);
    if has("record") {
        record(&readings, recording.and_then(|text| text.parse().ok()).unwrap_or(4));
        return Ok(());
    }
    let (starts, calm) = if has("--quick") { (5, 3) } else { (20, 30) };
    let given = std::env::args().skip_while(|argument| argument != "--calm").nth(1);
    let calm = given.and_then(|text| text.parse().ok()).unwrap_or(calm);
    let minutes = (starts as u64 * 2 * calm) as f64 / 60.0;
    let calm = Duration::from_secs(calm);

    eprintln!("learning the quiet level for 10 s");
    watch(&readings, Duration::from_secs(10));
    let tries: Vec<Try> = (1..=starts)
        .map(|number| {
            let this = Try::run(&readings, calm);
            eprintln!("start {number} of {starts}: {this}");
            this
        })
        .collect();
    let found = tries.iter().filter(|this| this.found.is_some()).count();
    let mistaken = tries.iter().filter(|this| this.mistaken).count();
    let mut delays: Vec<f64> =
        tries.iter().filter_map(|this| Some(this.found?.as_secs_f64())).collect();
    let cost = prober.cost();
    let share = cost.cpu.as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0;
    let mib = cost.bytes as f64 / 1_048_576.0;

    let mut section = Section::new("The probe");
    section.extend([
        Figure::new("streaming neighbour found within 2 s", format!("{found} of {starts} starts"))
            .against("at least 19 of 20", found * 20 >= starts * 19),
        Figure::new("median delay", format!("{:.2} s", median(&mut delays))),
        Figure::new(
            format!("wrongly contended while resting {0} s and computing {0} s", calm.as_secs()),
            format!("{mistaken} times in {minutes:.1} minutes"),
        )
        .against("at most once in 20 minutes", mistaken as f64 <= (minutes / 20.0).max(1.0)),
        Figure::new("bursts disturbed", format!("{} of {}", cost.disturbed, cost.bursts)),
        Figure::new("processor time, of one core", format!("{share:.2} %"))
            .against("at most 0.5 %", share <= 0.5),
        Figure::new("memory of the bursts", format!("{mib:.1} MiB"))
            .against("at most 16 MiB", mib <= 16.0),
    ]);
    Ok(section.finish()?)
}

/// One start of the neighbour, and the calm before it.
struct Try {
    inflation: [f64; 3],
    unknown: usize,
    mistaken: bool,
    found: Option<Duration>,
}

impl Try {
    fn run(readings: &Receiver<ProbeReading>, calm: Duration) -> Self {
        // The window still holds a second of what was before.
        watch(readings, Duration::from_millis(1_500));
        let (at_rest, resting) = watch(readings, calm);
        let (at_work, computing) = beside(Neighbour::Computes, || watch(readings, calm));
        let (found, streaming) =
            beside(Neighbour::Streams, || watch(readings, Duration::from_secs(2)));
        let all = [resting, computing, streaming];
        let is_unknown = |reading: &&ProbeReading| reading.state == State::Unknown;
        Self {
            unknown: all.iter().flatten().filter(is_unknown).count(),
            inflation: all.map(|readings| {
                let mut values: Vec<f64> = readings.iter().filter_map(|r| r.inflation).collect();
                median(&mut values)
            }),
            mistaken: at_rest.or(at_work).is_some(),
            found,
        }
    }
}

impl std::fmt::Display for Try {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [resting, computing, streaming] = self.inflation;
        write!(
            f,
            "inflation {resting:.3} resting, {computing:.3} computing, {streaming:.3} streaming"
        )?;
        match self.found {
            Some(delay) => write!(f, ", found after {:.2} s", delay.as_secs_f64())?,
            None => write!(f, ", not found")?,
        }
        if self.mistaken {
            write!(f, ", and mistaken before")?;
        }
        write!(f, " ({} unknown)", self.unknown)
    }
}
