//! One burst: how long memory takes to answer, measured on lines that are in no cache.

use std::hint::black_box;
use std::time::Instant;

/// A cache line on every machine this runs on (64 bytes; where lines are longer, two share one).
#[derive(Clone)]
#[repr(align(64))]
struct Line([u64; 8]);

pub(crate) const LINE_BYTES: usize = size_of::<Line>();
/// Lines of the sequential read: 512 KiB, long enough for the prefetchers to settle.
const SEQUENTIAL: usize = 8_192;
/// Chains followed at once, and steps of each. Eight misses in flight load memory as real
/// programs do, and shorten the burst eightfold.
const CHAINS: usize = 8;
const STEPS: usize = 64;

/// How the burst makes sure that memory, not a cache, answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Lines are flushed from all caches first (x86-64).
    Flushed,
    /// No unprivileged flush: a new part of a larger set is read each time, last touched a second
    /// ago or more. Whether that reached memory depends on the machine's cache.
    Rotating,
}

impl Reach {
    /// What this machine offers.
    pub const HERE: Self =
        if cfg!(target_arch = "x86_64") { Self::Flushed } else { Self::Rotating };

    fn prepare(self, part: &[Line]) {
        if self == Self::Flushed {
            flush(part);
        }
    }
}

/// What a burst measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burst {
    /// Nanoseconds per step of eight chains followed at once.
    pub latency_ns: f64,
    /// Bytes per second of a sequential read.
    pub bandwidth_bytes_per_s: f64,
    /// Nanoseconds per changed line that is written back to memory; absent where lines cannot be flushed.
    pub write_back_ns: Option<f64>,
}

/// The memory bursts run over.
pub(crate) struct Arena {
    lines: Box<[Line]>,
    /// Where each chain starts in a part; the same in every part.
    starts: [usize; CHAINS],
    reach: Reach,
    parts: usize,
    next_part: usize,
}

impl Arena {
    /// Half a mebibyte where lines can be flushed; as much of `most_bytes` as fits where not.
    pub(crate) fn new(reach: Reach, most_bytes: usize) -> Self {
        let parts = match reach {
            Reach::Flushed => 1,
            Reach::Rotating => (most_bytes / (SEQUENTIAL * LINE_BYTES)).max(1),
        };
        let mut lines = vec![Line([0; 8]); SEQUENTIAL * parts].into_boxed_slice();
        let mut starts = [0; CHAINS];
        for part in lines.chunks_exact_mut(SEQUENTIAL) {
            starts = lay_chains(part);
        }
        Self { lines, starts, reach, parts, next_part: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }

    /// Runs one burst on the calling thread.
    pub(crate) fn burst(&mut self) -> Burst {
        let from = self.next_part * SEQUENTIAL;
        self.next_part = (self.next_part + 1) % self.parts;
        let part = &mut self.lines[from..from + SEQUENTIAL];
        self.reach.prepare(part);
        let read_ns = time_of(|| sum(part));
        // The lines are in the caches now, so that changing them is quick and flushing them is what waits.
        change(part);
        let flush_ns = time_of(|| self.reach.prepare(part));
        let chain_ns = time_of(|| follow(part, self.starts));
        let lines = SEQUENTIAL as f64;
        Burst {
            latency_ns: chain_ns / STEPS as f64,
            bandwidth_bytes_per_s: lines * LINE_BYTES as f64 / (read_ns * 1e-9),
            write_back_ns: (self.reach == Reach::Flushed).then_some(flush_ns / lines),
        }
    }
}

fn time_of<T>(what: impl FnOnce() -> T) -> f64 {
    let begin = Instant::now();
    black_box(what());
    begin.elapsed().as_nanos() as f64
}

/// Makes every line differ from memory, away from the word that chains go through.
fn change(part: &mut [Line]) {
    for line in &mut *part {
        line.0[1] = line.0[1].wrapping_add(1);
    }
    black_box(part);
}

/// Writes eight disjoint random chains into the first word of some lines; returns their starts.
/// Random, because prefetchers would see through any stride.
fn lay_chains(part: &mut [Line]) -> [usize; CHAINS] {
    let mut order: Vec<usize> = (0..part.len()).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..order.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(at, (state >> 33) as usize % (at + 1));
    }
    let mut starts = [0; CHAINS];
    for (start, chain) in starts.iter_mut().zip(order.chunks_exact(STEPS + 1)) {
        *start = chain[0];
        for step in chain.windows(2) {
            part[step[0]].0[0] = step[1] as u64;
        }
    }
    starts
}

fn follow(part: &[Line], mut at: [usize; CHAINS]) -> [usize; CHAINS] {
    for _ in 0..STEPS {
        for place in &mut at {
            *place = part[*place].0[0] as usize;
        }
    }
    at
}

fn sum(part: &[Line]) -> u64 {
    part.iter().fold(0, |sum, line| sum.wrapping_add(line.0[0]))
}

#[cfg(target_arch = "x86_64")]
fn flush(part: &[Line]) {
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};
    for line in part {
        // SAFETY: the address is that of a live reference; clflush changes no memory content and
        // every x86-64 processor has it (SSE2).
        unsafe { _mm_clflush(std::ptr::from_ref(line).cast()) };
    }
    // SAFETY: a fence has no operands; SSE2 is part of x86-64. It keeps the reads that follow
    // from being answered before the flushes are done.
    unsafe { _mm_mfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn flush(_part: &[Line]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_disjoint_and_do_not_come_back() {
        let arena = Arena::new(Reach::HERE, 0);
        let part = &arena.lines[..SEQUENTIAL];
        let mut seen = std::collections::HashSet::new();
        for start in arena.starts {
            let mut at = start;
            for _ in 0..=STEPS {
                assert!(seen.insert(at), "line {at} is in two places");
                at = part[at].0[0] as usize;
            }
        }
        assert_eq!(seen.len(), CHAINS * (STEPS + 1));
    }

    #[test]
    fn a_burst_measures_something_that_memory_could_do() {
        let mut arena = Arena::new(Reach::HERE, 0);
        let best = (0..50).map(|_| arena.burst().latency_ns).fold(f64::INFINITY, f64::min);
        assert!((1.0..100_000.0).contains(&best), "{best} ns");
    }

    #[test]
    fn without_a_flush_every_burst_reads_another_part_until_all_were_read() {
        let part_bytes = SEQUENTIAL * LINE_BYTES;
        let mut arena = Arena::new(Reach::Rotating, 4 * part_bytes + 1);
        assert_eq!(arena.bytes(), 4 * part_bytes);
        let parts: Vec<usize> = (0..5)
            .map(|_| {
                arena.burst();
                arena.next_part
            })
            .collect();
        assert_eq!(parts, [1, 2, 3, 0, 1]);
    }
}
