//! Time series of each container, as the page draws them.

use super::{CachePoint, Recorded, TaskPoint, UsagePoint};

const MIB: f64 = (1 << 20) as f64;

/// A value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Unix nanoseconds.
    pub at_ns: u64,
    /// The value.
    pub value: f64,
}

/// One series of one container.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is.
    pub title: &'static str,
    /// In what.
    pub unit: &'static str,
    /// Its points in the order of time; a new list where a round or a gap begins.
    pub runs: Vec<Vec<Point>>,
}

/// The series of a container; those of which nothing was recorded are left out.
pub fn series(name: &str, recorded: &Recorded) -> Vec<Series> {
    let mut speed: Vec<(u32, Point)> = Vec::new();
    let progress: Vec<_> = recorded.progress.iter().filter(|p| p.container == name).collect();
    for pair in progress.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if a.round == b.round && b.at_ns > a.at_ns && b.done >= a.done {
            let value = (b.done - a.done) / ((b.at_ns - a.at_ns) as f64 / 1e9);
            speed.push((a.round, Point { at_ns: b.at_ns, value }));
        }
    }
    let usage = || recorded.usage.iter().filter(|point| point.container == name);
    let cores = usage().filter_map(|p| {
        let value = p.cpu_ns? as f64 / p.covers_ns.max(1) as f64;
        Some((p.round, Point { at_ns: p.at_ns, value }))
    });
    let memory = usage().filter_map(|p| {
        let value = p.memory_bytes? as f64 / MIB;
        Some((p.round, Point { at_ns: p.at_ns, value }))
    });
    let moved = |bytes: fn(&UsagePoint) -> Option<u64>| {
        let point = move |p: &UsagePoint| {
            Some((
                p.round,
                Point { at_ns: p.at_ns, value: mib_in_a_second(bytes(p)?, p.covers_ns) },
            ))
        };
        let all: Vec<(u32, Point)> = usage().filter_map(point).collect();
        // Of who never touched it there is nothing to see.
        if all.iter().any(|(_, point)| point.value > 0.0) { all } else { Vec::new() }
    };
    let cache = || recorded.cache.iter().filter(|point| point.container == name);
    let held = cache().filter_map(|p: &CachePoint| {
        Some((p.round, Point { at_ns: p.at_ns, value: p.occupancy_bytes? as f64 / MIB }))
    });
    let traffic = cache().filter_map(|p: &CachePoint| {
        let value = mib_in_a_second(p.memory_bytes?, p.covers_ns);
        Some((p.round, Point { at_ns: p.at_ns, value }))
    });
    let tasks = |value: fn(&TaskPoint) -> Option<f64>| {
        let mine = recorded.tasks.iter().filter(|point| point.container == name);
        let point = |p: &TaskPoint| Some((p.round, Point { at_ns: p.at_ns, value: value(p)? }));
        mine.filter_map(point).collect::<Vec<(u32, Point)>>()
    };
    let all = [
        ("progress", "units/s", speed),
        ("processor", "cores", cores.collect()),
        ("waits for a core", "cores", tasks(|p| Some(p.wait_ns? as f64 / p.covers_ns as f64))),
        ("per cycle", "instructions", tasks(|p| per(p.instructions, p.cycles))),
        (
            "cache misses",
            "in 1000 instructions",
            tasks(|p| Some(per(p.misses, p.instructions)? * 1e3)),
        ),
        ("memory", "MiB", memory.collect()),
        ("disks", "MiB/s", moved(|point| point.block_bytes)),
        ("network", "MiB/s", moved(|point| point.network_bytes)),
        ("L3 cache held", "MiB", held.collect()),
        ("memory traffic", "MiB/s", traffic.collect()),
    ];
    let whole = all.into_iter().filter(|(_, _, points)| !points.is_empty());
    whole.map(|(title, unit, points)| Series { title, unit, runs: split(&points) }).collect()
}

fn per(part: Option<u64>, whole: Option<u64>) -> Option<f64> {
    Some(part? as f64 / whole.filter(|whole| *whole > 0)? as f64)
}

fn mib_in_a_second(bytes: u64, covers_ns: u64) -> f64 {
    bytes as f64 / MIB / (covers_ns.max(1) as f64 / 1e9)
}

fn split(points: &[(u32, Point)]) -> Vec<Vec<Point>> {
    points
        .chunk_by(|a, b| a.0 == b.0)
        .map(|c| c.iter().map(|(_, point)| *point).collect())
        .collect()
}
