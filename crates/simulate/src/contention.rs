//! What a unit of work costs when others want the same cache and memory.
//!
//! From first principles, and nothing that the estimator assumes: a cache of random replacement, whose lines go to
//! whoever misses most; a linear miss curve; memory as a queue with one server (Pollaczek and Khinchine's mean wait for
//! equal services); a pipeline shared by two threads; a clock that falls as cores wake.

use crate::scenario::{Machine, Workload};

const LINE: f64 = 64.0;
/// What a hit in the shared cache takes, in cycles.
const HIT_CYCLES: f64 = 40.0;
/// A busy sibling leaves this much of the pipeline's pace.
const BESIDE_SIBLING: f64 = 0.65;
/// Memory is never taken to be busier: beyond, demand itself falls.
const MOST_LOAD: f64 = 0.97;

/// What of a workload decides about its cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    /// Accesses to the shared cache for each instruction.
    pub(crate) accesses: f64,
    streaming: f64,
    writes: f64,
    parallel: f64,
    cycles: f64,
    pub(crate) set: f64,
}

impl Traits {
    pub(crate) fn of(workload: &Workload) -> Self {
        Self {
            accesses: workload.accesses / 1_000.0,
            streaming: workload.streaming,
            writes: workload.writes,
            parallel: workload.parallel,
            cycles: 1.0 / workload.ipc,
            set: workload.working_set as f64,
        }
    }

    /// Share of accesses that miss when so many bytes of the set are in the cache.
    pub(crate) fn misses(&self, held: f64) -> f64 {
        self.streaming + (1.0 - self.streaming) * (1.0 - held / self.set.max(1.0)).clamp(0.0, 1.0)
    }

    /// Lines that hold data which may be used again, of those it brings into the cache.
    fn reused(&self) -> f64 {
        1.0 - self.streaming
    }
}

/// What a core's surroundings are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// Bytes of the task's set in the shared cache.
    pub(crate) held: f64,
    /// How busy memory is, 0 to 1.
    pub(crate) load: f64,
    /// How busy the sibling thread is, 0 to 1.
    pub(crate) sibling: f64,
    /// How busy the cores of the package are, 0 to 1.
    pub(crate) package: f64,
    /// How dear the task's own work is now; 1 is usual.
    pub(crate) phase: f64,
}

/// Cycles a nanosecond.
pub(crate) fn clock(machine: &Machine, package: f64) -> f64 {
    machine.mhz / 1_000.0 * (1.0 - machine.turbo * package.clamp(0.0, 1.0))
}

/// How many times as long as an idle memory's the answer of one this busy takes.
pub(crate) fn queueing(load: f64) -> f64 {
    let load = load.clamp(0.0, MOST_LOAD);
    1.0 + load / (2.0 * (1.0 - load))
}

/// Nanoseconds that an instruction takes, all waits included.
pub(crate) fn cost(machine: &Machine, traits: &Traits, at: &Surroundings) -> f64 {
    let ghz = clock(machine, at.package);
    let misses = traits.misses(at.held);
    let sibling = 1.0 / (1.0 - (1.0 - BESIDE_SIBLING) * at.sibling.clamp(0.0, 1.0));
    let compute = traits.cycles * at.phase * sibling / ghz;
    let memory = machine.latency_ns * queueing(at.load);
    let access = ((1.0 - misses) * HIT_CYCLES / ghz + misses * memory) / traits.parallel;
    compute + traits.accesses * access
}

/// Time to bring back what others drove out of the core's own cache while they ran there.
pub(crate) fn cold_start(machine: &Machine, traits: &Traits, foreign_bytes: f64) -> f64 {
    let own = machine.private_cache as f64;
    let driven_out = 1.0 - (-foreign_bytes / own).exp();
    // Who hardly leaves the core's own cache has little there that others could miss.
    let wanted = traits.set.min(own) * traits.accesses.min(0.01) / 0.01;
    wanted / LINE * HIT_CYCLES * 1_000.0 / machine.mhz / traits.parallel * driven_out
}

/// Bytes that a task's instructions bring into a core's own cache.
pub(crate) fn touched(traits: &Traits, instructions: f64) -> f64 {
    instructions * traits.accesses * LINE
}

/// The shared caches and memories, as they are or as they would be without somebody.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Who is not in it.
    pub(crate) without: Option<usize>,
    /// Bytes in the shared cache, by task.
    pub(crate) held: Vec<f64>,
    /// How busy each memory is.
    pub(crate) load: Vec<f64>,
    /// What each task lost for who is not in it: to the cache, memory, clock and sibling.
    pub(crate) lost_ns: Vec<[f64; 4]>,
    brought: Vec<f64>,
    moved: Vec<f64>,
}

impl World {
    pub(crate) fn new(
        without: Option<usize>,
        tasks: usize,
        caches: usize,
        memories: usize,
    ) -> Self {
        Self {
            without,
            held: vec![0.0; tasks],
            load: vec![0.0; memories],
            lost_ns: vec![[0.0; 4]; tasks],
            brought: vec![0.0; caches],
            moved: vec![0.0; memories],
        }
    }

    /// A task executed so many instructions: what it missed moves through memory into the cache.
    pub(crate) fn execute(
        &mut self,
        task: usize,
        traits: &Traits,
        (cache, memory): (usize, usize),
        instructions: f64,
    ) {
        let lines = instructions * traits.accesses * traits.misses(self.held[task]);
        self.moved[memory] += lines * LINE * (1.0 + traits.writes);
        self.brought[cache] += lines * LINE;
        self.held[task] = (self.held[task] + lines * LINE * traits.reused()).min(traits.set);
    }

    /// Ends a slot: each line that was brought in drove out one at random, and memory's queue is as long as what was
    /// asked of it. Half of its change a millisecond, since who waits asks for less.
    pub(crate) fn settle(&mut self, machine: &Machine, cache_of: &[usize], slot_ns: f64) {
        for brought in &mut self.brought {
            *brought = (-*brought / machine.cache as f64).exp();
        }
        for (held, cache) in self.held.iter_mut().zip(cache_of) {
            *held *= self.brought[*cache];
        }
        self.brought.fill(0.0);
        for (load, moved) in self.load.iter_mut().zip(&mut self.moved) {
            let asked = *moved / (machine.bandwidth as f64 / 1e9 * slot_ns);
            *load = (0.5 * *load + 0.5 * asked).min(MOST_LOAD);
            *moved = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Surroundings =
        Surroundings { held: 8e6, load: 0.0, sibling: 0.0, package: 0.0, phase: 1.0 };

    #[test]
    fn every_kind_of_crowding_costs_and_none_pays() {
        let machine = Machine { turbo: 0.2, ..Machine::default() };
        let traits = Traits::of(&Workload::serve("v", 8 << 20));
        let quiet = cost(&machine, &traits, &QUIET);
        for crowded in [
            Surroundings { held: 1e6, ..QUIET },
            Surroundings { held: 1e6, load: 0.8, ..QUIET },
            Surroundings { sibling: 0.5, ..QUIET },
            Surroundings { package: 1.0, ..QUIET },
        ] {
            assert!(cost(&machine, &traits, &crowded) > 1.02 * quiet, "{crowded:?}");
        }
        let computes = Traits::of(&Workload::compute("c"));
        let beside = Surroundings { held: 0.0, load: 0.9, ..QUIET };
        let alone = Surroundings { held: 16e3, ..QUIET };
        assert!(cost(&machine, &computes, &beside) < 1.02 * cost(&machine, &computes, &alone));
    }

    #[test]
    fn a_stream_drives_a_set_out_of_the_cache_and_it_comes_back_once_the_stream_ends() {
        let machine = Machine { cores: 2, ..Machine::default() };
        let (victim, stream) =
            (Traits::of(&Workload::serve("v", 16 << 20)), Traits::of(&Workload::stream("s")));
        let mut world = World::new(None, 2, 1, 1);
        let run = |world: &mut World, streams: bool, slots: usize| {
            for _ in 0..slots {
                world.execute(0, &victim, (0, 0), 1e6);
                if streams {
                    world.execute(1, &stream, (0, 0), 1.5e6);
                }
                world.settle(&machine, &[0, 0], 1e6);
            }
            world.held[0] / victim.set
        };
        let alone = run(&mut world, false, 500);
        let beside = run(&mut world, true, 500);
        let again = run(&mut world, false, 500);
        assert!(alone > 0.95 && beside < 0.8 && again > 0.95, "{alone} {beside} {again}");
    }
}
