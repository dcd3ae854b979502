//! Work that switches as fast as it can, and work that never switches.

use crate::observer::Observer;
use crate::percent;
use crosstalk_figure::{Figure, median};
use std::process::Command;
use std::time::Instant;

const WATCHERS: [Observer; 4] =
    [Observer::Crosstalk, Observer::CrosstalkWithoutRunq, Observer::PerfSched, Observer::Bpftrace];

/// `perf bench sched pipe` on one core: two switches an operation.
pub(crate) fn pipe(rounds: usize) -> Vec<Figure> {
    let run = || {
        let output = Command::new("taskset")
            .args(["-c", "1", "perf", "bench", "-f", "simple", "sched", "pipe", "-l", "300000"])
            .output()
            .expect("perf bench runs");
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse::<f64>().unwrap_or_else(|_| panic!("perf bench said {text}"))
    };
    compare("perf bench sched pipe, one core", rounds, run, |time, alone| time / alone)
}

/// `stress-ng --switch` on one core, by its count of operations.
pub(crate) fn stress_switch(rounds: usize) -> Vec<Figure> {
    let run = || {
        let output = Command::new("stress-ng")
            .args(["--switch", "1", "--taskset", "1", "--timeout", "2", "--metrics-brief"])
            .output()
            .expect("stress-ng runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().find(|l| l.contains("] switch ")).expect("a line of metrics");
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|w| *w == "switch").expect("its name");
        words[at + 5].parse::<f64>().expect("operations a second")
    };
    compare("stress-ng --switch, one core", rounds, run, |ops, alone| alone / ops)
}

fn compare(
    what: &str,
    rounds: usize,
    run: impl Fn() -> f64,
    ratio: impl Fn(f64, f64) -> f64,
) -> Vec<Figure> {
    let mut ratios = vec![Vec::new(); WATCHERS.len()];
    let mut lost = 0;
    for round in 0..rounds {
        eprintln!("{what}: round {} of {rounds}", round + 1);
        // Each is compared with the same work just before and just after it: a shared machine drifts.
        let mut before = run();
        for (i, watcher) in WATCHERS.into_iter().enumerate() {
            let watching = watcher.start(&[]);
            let watched = run();
            let (report, _) = watching.stop();
            let after = run();
            lost += report.and_then(|r| r["lost_rows"].as_u64()).unwrap_or(0);
            ratios[i].push(ratio(watched, f64::midpoint(before, after)));
            before = after;
        }
    }
    let mut figures: Vec<Figure> = WATCHERS
        .into_iter()
        .zip(&mut ratios)
        .map(|(watcher, ratios)| {
            let middle = median(ratios);
            let figure = Figure::new(format!("{what}: {}", watcher.name()), percent(middle));
            match watcher {
                Observer::Crosstalk => figure.against("at most +12 %", middle <= 1.12),
                _ => figure,
            }
        })
        .collect();
    figures.push(
        Figure::new(format!("{what}: rows lost by crosstalk"), lost.to_string())
            .against("0", lost == 0),
    );
    figures
}

/// A loop that only computes. The best of many rounds, because all noise makes it slower.
pub(crate) fn cpu_bound(rounds: usize) -> Vec<Figure> {
    let run = || {
        let began = Instant::now();
        let mut x = 1u64;
        for i in 0..200_000_000u64 {
            x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i));
        }
        std::hint::black_box(x);
        began.elapsed().as_secs_f64()
    };
    let (mut alone, mut watched) = (f64::MAX, f64::MAX);
    for round in 0..rounds {
        eprintln!("a loop that computes: round {} of {rounds}", round + 1);
        alone = alone.min(run());
        let watching = Observer::Crosstalk.start(&[]);
        watched = watched.min(run()).min(run());
        watching.stop();
        alone = alone.min(run());
    }
    let ratio = watched / alone;
    vec![
        Figure::new("a loop that only computes: crosstalk record, no counters", percent(ratio))
            .against("at most +0.5 %", ratio <= 1.005),
    ]
}
