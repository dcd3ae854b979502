//! Neighbours with a life of their own, told what to do.

use crosstalk_host::{Cpu, HostRoot, thread::cpu_time};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the machine does besides probing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Rests,
    Computes,
    Streams,
    Ends,
}

const ALL: [Doing; 4] = [Doing::Rests, Doing::Computes, Doing::Streams, Doing::Ends];

#[derive(Default)]
struct Shared {
    doing: AtomicU8,
    bytes: AtomicU64,
    cpu_ns: AtomicU64,
}

/// A thread that rests, computes or streams; its memory is there from the start, so that it begins at once.
pub(crate) struct Neighbour {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Neighbour {
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let words = stream_bytes() / 16;
        let ready = Arc::new(std::sync::Barrier::new(2));
        let is_ready = Arc::clone(&ready);
        let thread = std::thread::spawn(move || {
            let (from, mut to) = (vec![1_u64; words], vec![2_u64; words]);
            is_ready.wait();
            live(&own, &from, &mut to);
        });
        ready.wait();
        Self { shared, thread: Some(thread) }
    }

    pub(crate) fn does(&self, doing: Doing) {
        self.shared.doing.store(doing as u8, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Bytes streamed in a second of its processor time from here on, for so long.
    fn rate(&self, lasts: Duration) -> f64 {
        let read = || {
            let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
            (of(&self.shared.bytes), of(&self.shared.cpu_ns) * 1e-9)
        };
        let before = read();
        pause(lasts);
        let after = read();
        (after.0 - before.0) / (after.1 - before.1).max(1e-3)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.does(Doing::Ends);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Larger than the last-level cache where that is told, within reason.
fn stream_bytes() -> usize {
    let cache = Cpu::read(&HostRoot::default()).l3_bytes.unwrap_or(0) as usize;
    (2 * cache).clamp(256 << 20, 1 << 30)
}

fn live(shared: &Shared, from: &[u64], to: &mut [u64]) {
    let doing = || ALL[shared.doing.load(Ordering::Relaxed) as usize % ALL.len()];
    let mut state = 1_u64;
    loop {
        match doing() {
            Doing::Rests => std::thread::park(),
            Doing::Ends => return,
            Doing::Computes => {
                for _ in 0..100_000 {
                    state =
                        black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
            }
            Doing::Streams => {
                for (to, from) in to.chunks_mut(1 << 17).zip(from.chunks(1 << 17)) {
                    to.copy_from_slice(black_box(from));
                    shared.bytes.fetch_add(size_of_val(from) as u64, Ordering::Relaxed);
                    shared.cpu_ns.store(cpu_time().as_nanos() as u64, Ordering::Relaxed);
                    if doing() != Doing::Streams {
                        break;
                    }
                }
                black_box(&mut *to);
            }
        }
    }
}

/// How many times longer a stream takes for its work beside another: what a stream does to memory here, without any
/// probe. In processor time, so that it does not matter who else wants the cores.
pub(crate) fn slowed_by_another(one: &Neighbour, other: &Neighbour) -> f64 {
    let lasts = Duration::from_millis(400);
    one.does(Doing::Streams);
    pause(lasts / 4);
    let alone = one.rate(lasts);
    other.does(Doing::Streams);
    pause(lasts / 4);
    let beside = one.rate(lasts);
    one.does(Doing::Rests);
    other.does(Doing::Rests);
    alone / beside.max(1.0)
}

/// More work than cores, in pieces, as a build is: some compute, some go through memory, now and then one waits.
pub(crate) fn like_a_build<T>(what: impl FnOnce() -> T) -> T {
    let stop = AtomicU8::new(0);
    let workers = 4 * std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let stop = &stop;
            scope.spawn(move || {
                let mut memory = vec![1_u64; 1 << 20];
                let mut state = worker as u64 + 1;
                while stop.load(Ordering::Relaxed) == 0 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let until =
                        Instant::now() + Duration::from_micros(2_000 + (state >> 33) % 40_000);
                    while Instant::now() < until {
                        memory.iter_mut().step_by(8).take(4_096).for_each(|word| *word ^= state);
                        memory.rotate_left(4_096);
                        black_box(&mut memory);
                    }
                    if (state >> 40) & 7 == 0 {
                        pause(Duration::from_millis(3));
                    }
                }
            });
        }
        let result = what();
        stop.store(1, Ordering::Relaxed);
        result
    })
}

#[allow(clippy::disallowed_methods)] // a stretch of time is meant
pub(crate) fn pause(lasts: Duration) {
    std::thread::sleep(lasts);
}
