//! One burst: how long memory takes to answer, measured on lines that are in no cache.

use std::hint::black_box;
use std::time::Instant;

/// A cache line on every machine this runs on (64 bytes; where lines are longer, two share one).
#[derive(Clone)]
#[repr(align(64))]
struct Line([u64; 8]);

pub(crate) const LINE_BYTES: usize = size_of::<Line>();
/// Lines of a burst: 512 KiB, long enough for the prefetchers to settle.
const LINES: usize = 8_192;
/// Where lines are flushed one after the other, at some 100 ns each: a burst would take 2 ms and hardly ever end
/// undisturbed, nor often enough within its budget.
const FEW_LINES: usize = 1_024;
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
}

/// How a part is driven out of the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// Many lines at a time: `clflushopt`.
    Overlapping,
    /// One line after the other: `clflush`, which every x86-64 has. It waits for each line's way to memory and back, so
    /// that it hardly feels who else wants memory's bandwidth.
    InOrder,
    /// Not at all.
    Never,
}

impl Flush {
    fn of(reach: Reach) -> Self {
        match reach {
            Reach::Rotating => Self::Never,
            Reach::Flushed if flushes_overlap() => Self::Overlapping,
            Reach::Flushed => Self::InOrder,
        }
    }

    fn lines(self) -> usize {
        if self == Self::InOrder { FEW_LINES } else { LINES }
    }

    fn flush(self, part: &[Line]) {
        match self {
            Self::Overlapping => flush_overlapping(part),
            Self::InOrder => flush_in_order(part),
            Self::Never => {}
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
    flush: Flush,
    parts: usize,
    next_part: usize,
}

impl Arena {
    /// Half a mebibyte where lines can be flushed; as much of `most_bytes` as fits where not.
    pub(crate) fn new(reach: Reach, most_bytes: usize) -> Self {
        let flush = Flush::of(reach);
        let part = flush.lines();
        let parts = match flush {
            Flush::Never => (most_bytes / (part * LINE_BYTES)).max(1),
            _ => 1,
        };
        let mut lines = vec![Line([0; 8]); part * parts].into_boxed_slice();
        let mut starts = [0; CHAINS];
        for part in lines.chunks_exact_mut(part) {
            starts = lay_chains(part);
        }
        Self { lines, starts, flush, parts, next_part: 0 }
    }

    /// What a burst here does, in a word: times of different ways do not compare.
    pub(crate) fn method(&self) -> String {
        let flush = match self.flush {
            Flush::Overlapping => "clflushopt",
            Flush::InOrder => "clflush",
            Flush::Never => "rotating",
        };
        format!("{flush} {} lines of {LINE_BYTES} bytes in {}", self.flush.lines(), self.parts)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }

    /// Runs one burst on the calling thread.
    pub(crate) fn burst(&mut self) -> Burst {
        let (flush, lines) = (self.flush, self.flush.lines());
        let from = self.next_part * lines;
        self.next_part = (self.next_part + 1) % self.parts;
        let part = &mut self.lines[from..from + lines];
        flush.flush(part);
        let read_ns = time_of(|| sum(part));
        // The lines are in the caches now, so that changing them is quick and flushing them is what waits.
        change(part);
        let flush_ns = time_of(|| flush.flush(part));
        let chain_ns = time_of(|| follow(part, self.starts));
        let lines = lines as f64;
        Burst {
            latency_ns: chain_ns / STEPS as f64,
            bandwidth_bytes_per_s: lines * LINE_BYTES as f64 / (read_ns * 1e-9),
            write_back_ns: (flush != Flush::Never).then_some(flush_ns / lines),
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
fn flushes_overlap() -> bool {
    use std::arch::x86_64::{__cpuid_count, __get_cpuid_max};
    // Intel's manual, CPUID leaf 7: bit 23 of EBX is CLFLUSHOPT; AMD has the same.
    __get_cpuid_max(0).0 >= 7 && __cpuid_count(7, 0).ebx & (1 << 23) != 0
}

#[cfg(target_arch = "x86_64")]
fn flush_overlapping(part: &[Line]) {
    for line in part {
        let address = std::ptr::from_ref(line);
        // SAFETY: the address is that of a live reference, the instruction changes no memory content, register or flag,
        // and is only reached where the processor has it.
        unsafe {
            std::arch::asm!("clflushopt [{}]", in(reg) address, options(nostack, preserves_flags));
        }
    }
    wait_for_flushes();
}

#[cfg(target_arch = "x86_64")]
fn flush_in_order(part: &[Line]) {
    for line in part {
        // SAFETY: the address is that of a live reference; clflush changes no memory content and
        // every x86-64 processor has it (SSE2).
        unsafe { std::arch::x86_64::_mm_clflush(std::ptr::from_ref(line).cast()) };
    }
    wait_for_flushes();
}

#[cfg(target_arch = "x86_64")]
fn wait_for_flushes() {
    // SAFETY: a fence has no operands; SSE2 is part of x86-64. It keeps the reads that follow
    // from being answered before the flushes are done.
    unsafe { std::arch::x86_64::_mm_mfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn flushes_overlap() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
fn flush_overlapping(_part: &[Line]) {}

#[cfg(not(target_arch = "x86_64"))]
fn flush_in_order(_part: &[Line]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_disjoint_and_do_not_come_back() {
        let arena = Arena::new(Reach::HERE, 0);
        let part = &arena.lines[..arena.flush.lines()];
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
    fn a_burst_is_over_before_the_scheduler_looks_again() {
        let mut arena = Arena::new(Reach::HERE, 0);
        let best = (0..50).map(|_| time_of(|| arena.burst())).fold(f64::INFINITY, f64::min);
        // A tick of the kernel is 1 to 10 ms; lines flushed one by one would take more than two.
        assert!(best < 1.5e6, "{best} ns");
    }

    #[test]
    fn without_a_flush_every_burst_reads_another_part_until_all_were_read() {
        let part_bytes = LINES * LINE_BYTES;
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
