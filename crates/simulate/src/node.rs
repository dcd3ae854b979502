//! One machine, slot by slot.

use crate::contention::{Surroundings, World, clock, cold_start, cost, queueing, touched};
use crate::random::Random;
use crate::scenario::{Machine, Scenario};
use crate::task::{State, Tally, Task};
use crate::truth::{Cause, Truth};
use crosstalk_model::{
    Placement, ProbeBlindness, ProbeReading, ProbeState, SlotCoverage, TaskReading,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// Length of a slot.
pub const SLOT_NS: u64 = 1_000_000;
/// A task that others wait for is taken off the core after this long.
const TURN_NS: u64 = 3_000_000;
/// The kernel's tick, the grain of stolen time.
const TICK_NS: f64 = 10e6;
/// The probe's pace.
const BURST_SLOTS: u64 = 50;
/// Tasks for each of which a world without them is kept.
const MOST_WORLDS: usize = 12;
/// What a world without somebody tells apart.
const BY_WORLD: [Cause; 4] =
    [Cause::Cache, Cause::MemoryBandwidth, Cause::Frequency, Cause::SiblingThread];
/// Accesses for each instruction below which a task leaves no trace in any memory.
const LEAST_ACCESSES: f64 = 1e-4;

/// What is measured of one slot.
#[derive(Debug, Default)]
pub struct Measured {
    /// Start of the slot, Unix nanoseconds.
    pub start_ns: u64,
    /// Who ran, with the number of its task.
    pub tasks: Vec<(usize, TaskReading)>,
    /// Idle time of every core.
    pub slots: Vec<SlotCoverage>,
    /// The probe's bursts.
    pub probe: Vec<ProbeReading>,
    /// Time stolen, by core, as far as the kernel's ticks tell.
    pub stolen: Vec<(u32, u64)>,
}

/// A machine and all that runs on it.
#[derive(Debug)]
pub struct Node {
    scenario: Scenario,
    tasks: Vec<Task>,
    cores: Vec<Core>,
    /// As it is; then as it would be without one task each.
    worlds: Vec<World>,
    cache_of: Vec<usize>,
    memory_of: Vec<usize>,
    /// Share of the last slot that each task ran.
    ran: Vec<f64>,
    now_ns: u64,
    slot: u64,
    stolen: Stolen,
    random: Random,
    truth: Truth,
    measured: Measured,
}

#[derive(Debug, Default)]
struct Core {
    tasks: Vec<usize>,
    queue: VecDeque<usize>,
    current: Option<usize>,
    turn_ends_ns: u64,
    /// Share of the last slot in which it was busy.
    busy: f64,
    busy_now: f64,
    /// Share of this slot that is stolen.
    stolen: f64,
    stolen_ns: f64,
}

#[derive(Debug, Default)]
struct Stolen {
    level: f64,
    until_ns: u64,
}

impl Node {
    /// A node at rest; `start_ns` is a multiple of a slot.
    #[must_use]
    pub fn new(scenario: &Scenario, seed: u64, start_ns: u64) -> Self {
        let machine = &scenario.machine;
        let mut random = Random::new(seed);
        let mut cores: Vec<Core> = (0..machine.cores).map(|_| Core::default()).collect();
        let mut tasks: Vec<Task> = Vec::new();
        let mut spread = 0;
        let schedules: Vec<u64> = scenario.workload.iter().map(|_| random.bits()).collect();
        for (at, workload) in scenario.workload.iter().enumerate() {
            let leader = workload.follows.as_ref().and_then(|name| {
                scenario.workload[..at].iter().position(|before| before.name == *name)
            });
            for copy in 0..workload.count as usize {
                let core = match workload.cores.as_slice() {
                    [] => {
                        spread += 1;
                        (spread - 1) % cores.len()
                    }
                    some => some[copy % some.len()] as usize % cores.len(),
                };
                let pid = 1_000 + tasks.len() as u32;
                let turns = schedules[leader.unwrap_or(at)].wrapping_add(copy as u64);
                let seeds = (turns, random.bits());
                cores[core].tasks.push(tasks.len());
                tasks.push(Task::new(workload, machine, (pid, core), seeds, start_ns));
            }
        }
        for core in &cores {
            for &task in &core.tasks {
                tasks[task].seen = vec![0.0; core.tasks.len()];
            }
        }
        let part = |core: usize, size: u32| core / size.max(1) as usize;
        let cache_of: Vec<usize> =
            tasks.iter().map(|task| part(task.core, machine.cores_per_cache)).collect();
        let memory_of: Vec<usize> =
            tasks.iter().map(|task| part(task.core, machine.cores_per_memory)).collect();
        let last = machine.cores as usize - 1;
        let (caches, memories) =
            (part(last, machine.cores_per_cache) + 1, part(last, machine.cores_per_memory) + 1);
        let world = |without| World::new(without, tasks.len(), caches, memories);
        let mut worlds = vec![world(None)];
        worlds.extend(suspects(&tasks, machine).into_iter().map(|task| world(Some(task))));
        Self {
            scenario: scenario.clone(),
            ran: vec![0.0; tasks.len()],
            truth: Truth::new(tasks.len()),
            tasks,
            cores,
            worlds,
            cache_of,
            memory_of,
            now_ns: start_ns,
            slot: 0,
            stolen: Stolen::default(),
            random,
            measured: Measured::default(),
        }
    }

    /// How many tasks there are.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// The name and process id of a task.
    #[must_use]
    pub fn name(&self, task: usize) -> (&str, u32) {
        (&self.tasks[task].name, self.tasks[task].process.pid)
    }

    /// Where a task belongs.
    #[must_use]
    pub fn place(&self, task: usize) -> &Arc<Placement> {
        &self.tasks[task].place
    }

    /// What really happened since this was last taken.
    pub fn take_truth(&mut self) -> Truth {
        for world in &mut self.worlds {
            let Some(without) = world.without else { continue };
            for (victim, sums) in world.lost_ns.iter_mut().enumerate() {
                for (cause, ns) in BY_WORLD.into_iter().zip(std::mem::take(sums)) {
                    self.truth.add(victim, without, cause, ns);
                }
            }
        }
        std::mem::replace(&mut self.truth, Truth::new(self.tasks.len()))
    }

    /// The next slot.
    pub fn step(&mut self) -> &Measured {
        let start_ns = self.now_ns;
        self.measured.start_ns = start_ns;
        self.measured.tasks.clear();
        self.measured.slots.clear();
        self.measured.probe.clear();
        self.measured.stolen.clear();
        self.follow_host();
        for core in 0..self.cores.len() {
            self.run_core(core, start_ns);
        }
        self.settle();
        if self.scenario.machine.probe && self.slot.is_multiple_of(BURST_SLOTS) {
            self.probe();
        }
        self.lose();
        self.slot += 1;
        self.now_ns += SLOT_NS;
        &self.measured
    }

    /// Rows of some cores are lost on their way into the recording: all of a slot, which then says how many.
    fn lose(&mut self) {
        let share = self.scenario.host.lost;
        if share <= 0.0 {
            return;
        }
        let Measured { tasks, slots, .. } = &mut self.measured;
        for slot in slots {
            let rows = tasks.iter().filter(|(_, row)| row.core == slot.core).count() as u32;
            if rows > 0 && self.random.chance(share) {
                tasks.retain(|(_, row)| row.core != slot.core);
                *slot = SlotCoverage::lost(slot.slot_start_ns, slot.core, rows);
            }
        }
    }

    fn follow_host(&mut self) {
        let host = &self.scenario.host;
        if host.stolen > 0.0 && self.now_ns >= self.stolen.until_ns {
            let rests = self.random.chance(0.5);
            self.stolen.level =
                if rests { 0.0 } else { self.random.between(0.1, 1.0) * host.stolen };
            let [low, high] = host.stolen_phase.map(|period| period.nanos() as f64);
            self.stolen.until_ns = self.now_ns + self.random.between(low, high) as u64;
        }
    }

    /// What surrounds a task in a world, as of the last slot.
    fn surroundings(&self, task: usize, world: &World) -> Surroundings {
        let machine = &self.scenario.machine;
        let core = self.tasks[task].core;
        let memory = self.memory_of[task];
        let gone = |core: usize| {
            world
                .without
                .filter(|one| self.tasks[*one].core == core)
                .map_or(0.0, |one| self.ran[one])
        };
        let sibling = match machine.threads_per_core {
            2 if (core ^ 1) < self.cores.len() => self.cores[core ^ 1].busy - gone(core ^ 1),
            _ => 0.0,
        };
        let package = if machine.turbo > 0.0 {
            let size = machine.cores_per_memory.max(1) as usize;
            let first = core / size * size;
            let all = &self.cores[first..(first + size).min(self.cores.len())];
            let busy: f64 = all.iter().map(|core| core.busy).sum();
            let gone = world.without.filter(|one| self.memory_of[*one] == memory);
            (busy - gone.map_or(0.0, |one| self.ran[one])) / all.len() as f64
        } else {
            0.0
        };
        let (held, load) = (world.held[task], world.load[memory]);
        Surroundings { held, load, sibling, package, phase: self.tasks[task].phase }
    }

    /// Who runs when on one core, for one slot.
    fn run_core(&mut self, core: usize, start_ns: u64) {
        let end_ns = start_ns + SLOT_NS;
        let stolen = match self.stolen.level {
            0.0 => 0.0,
            level => (level * self.random.exponential()).min(0.95),
        };
        let mut now_ns = start_ns;
        let (mut idle_ns, mut events) = (0, 0);
        for at in 0..self.cores[core].tasks.len() {
            let task = self.cores[core].tasks[at];
            self.tasks[task].tally = Tally::default();
            self.tasks[task].pace = 0.0;
        }
        while now_ns < end_ns {
            let next_ns = self.wake(core, now_ns).min(end_ns);
            let Some(task) = self.dispatch(core, now_ns) else {
                idle_ns += next_ns - now_ns;
                now_ns = next_ns;
                continue;
            };
            events += 1;
            self.set_pace(task, stolen);
            let until_ns = self.run(core, task, now_ns, next_ns);
            now_ns = until_ns;
        }
        let busy_ns = SLOT_NS - idle_ns;
        let place = &mut self.cores[core];
        place.stolen = stolen;
        place.stolen_ns += stolen * busy_ns as f64;
        place.busy_now = busy_ns as f64 / SLOT_NS as f64;
        let tick_late_ns = None;
        let slot_start_ns = start_ns;
        let (core, idle_ns) = (core as u32, Some(idle_ns));
        self.measured.slots.push(SlotCoverage {
            slot_start_ns,
            core,
            idle_ns,
            events,
            lost: 0,
            tick_late_ns,
        });
    }

    /// Wakes whose time has come; answers when the next one's comes.
    fn wake(&mut self, core: usize, now_ns: u64) -> u64 {
        let mut next_ns = u64::MAX;
        let core = &mut self.cores[core];
        for &at in &core.tasks {
            let task = &mut self.tasks[at];
            match task.state {
                State::Sleeps(wake_ns) if wake_ns <= now_ns => {
                    task.wake(now_ns);
                    core.queue.push_back(at);
                }
                State::Sleeps(wake_ns) => next_ns = next_ns.min(wake_ns),
                State::Waits(_) | State::Runs => {}
            }
        }
        next_ns
    }

    /// Who has the core now.
    fn dispatch(&mut self, core: usize, now_ns: u64) -> Option<usize> {
        loop {
            let place = &mut self.cores[core];
            if let Some(current) = place.current {
                if place.queue.is_empty() || now_ns < place.turn_ends_ns {
                    return Some(current);
                }
                place.current = None;
                place.queue.push_back(current);
                self.leave(current, now_ns, false);
                self.tasks[current].state = State::Waits(now_ns);
                continue;
            }
            let next = place.queue.pop_front()?;
            let State::Waits(since_ns) = self.tasks[next].state else { continue };
            // A turn that passed while it waited is over.
            if self.tasks[next].until_ns <= now_ns && self.tasks[next].left.is_infinite() {
                self.tasks[next].sleep(now_ns);
                continue;
            }
            place.current = Some(next);
            place.turn_ends_ns = now_ns + TURN_NS;
            self.tasks[next].state = State::Runs;
            self.tasks[next].tally.wait_ns += now_ns - since_ns;
            self.warm_up(core, next);
        }
    }

    fn leave(&mut self, task: usize, now_ns: u64, voluntary: bool) {
        let core = self.tasks[task].core;
        for at in 0..self.cores[core].tasks.len() {
            let other = self.cores[core].tasks[at];
            self.tasks[task].seen[at] = self.tasks[other].touched;
        }
        let task = &mut self.tasks[task];
        task.tally.switches += 1;
        if voluntary {
            task.tally.voluntary += 1;
            task.sleep(now_ns);
        }
    }

    /// What others did on the core meanwhile has to be made up for first, and is theirs.
    fn warm_up(&mut self, core: usize, task: usize) {
        let others = &self.cores[core].tasks;
        if others.len() < 2 {
            return;
        }
        let came: Vec<(usize, f64)> = others
            .iter()
            .zip(&self.tasks[task].seen)
            .filter(|(other, _)| **other != task)
            .map(|(other, seen)| (*other, self.tasks[*other].touched - seen))
            .collect();
        let all: f64 = came.iter().map(|(_, bytes)| bytes).sum();
        if all <= 0.0 {
            return;
        }
        let cold_ns = cold_start(&self.scenario.machine, &self.tasks[task].traits, all);
        for (other, bytes) in came {
            self.truth.add(task, other, Cause::ColdCache, cold_ns * bytes / all);
        }
        self.tasks[task].cold_ns += cold_ns;
    }

    fn set_pace(&mut self, task: usize, stolen: f64) {
        if self.tasks[task].pace > 0.0 {
            return;
        }
        let host = &self.scenario.host;
        let fate = self.tasks[task].fate(self.now_ns, host.noise, host.drift, host.outliers);
        let around = self.surroundings(task, &self.worlds[0]);
        let plain = cost(&self.scenario.machine, &self.tasks[task].traits, &around);
        self.tasks[task].pace = plain * fate / (1.0 - stolen);
    }

    /// Runs the task until it ends, its turn does, or somebody wakes. Answers when.
    fn run(&mut self, core: usize, at: usize, now_ns: u64, next_ns: u64) -> u64 {
        let place = &self.cores[core];
        let mut until_ns = next_ns;
        if !place.queue.is_empty() {
            until_ns = until_ns.min(place.turn_ends_ns.max(now_ns + 1));
        }
        let task = &mut self.tasks[at];
        let needs = task.cold_ns + task.left * task.pace;
        let done_ns =
            if needs.is_finite() { now_ns + (needs.ceil() as u64).max(1) } else { task.until_ns };
        let done_ns = done_ns.max(now_ns + 1);
        until_ns = until_ns.min(done_ns);
        let took = (until_ns - now_ns) as f64;
        let cold = task.cold_ns.min(took);
        task.cold_ns -= cold;
        let instructions = ((took - cold) / task.pace).min(task.left);
        task.left -= instructions;
        task.touched += touched(&task.traits, instructions);
        task.tally.on_cpu_ns += until_ns - now_ns;
        task.tally.instructions += instructions;
        task.tally.cold_ns += cold;
        for waiting in &self.cores[core].queue {
            self.truth.add(*waiting, at, Cause::CpuTime, took);
        }
        if until_ns == done_ns {
            self.cores[core].current = None;
            self.leave(at, until_ns, true);
        }
        until_ns
    }

    /// Ends the slot: what each did to cache and memory, what that cost the others, and what was counted.
    fn settle(&mut self) {
        for at in 0..self.tasks.len() {
            let tally = self.tasks[at].tally;
            if tally.on_cpu_ns == 0 && tally.switches == 0 {
                continue;
            }
            self.truth.on_cpu_s[at] += tally.on_cpu_ns as f64 / 1e9;
            let traits = &self.tasks[at].traits;
            let missed = traits.misses(self.worlds[0].held[at]);
            let misses = tally.instructions * traits.accesses * missed;
            self.blame(at, &tally);
            self.note(at, &tally, misses);
        }
        let mut worlds = std::mem::take(&mut self.worlds);
        for world in &mut worlds {
            world.settle(&self.scenario.machine, &self.cache_of, SLOT_NS as f64);
        }
        self.worlds = worlds;
        for (ran, task) in self.ran.iter_mut().zip(&self.tasks) {
            *ran = task.tally.on_cpu_ns as f64 / SLOT_NS as f64;
        }
        for (core, place) in self.cores.iter_mut().enumerate() {
            place.busy = place.busy_now;
            let ticks = (place.stolen_ns / TICK_NS).floor() * TICK_NS;
            place.stolen_ns -= ticks;
            self.measured.stolen.push((core as u32, ticks as u64));
        }
    }

    /// Lets the task's instructions happen in every world, and charges who made them dearer in the real one.
    fn blame(&mut self, at: usize, tally: &Tally) {
        let machine = &self.scenario.machine;
        let traits = self.tasks[at].traits;
        let place = (self.cache_of[at], self.memory_of[at]);
        let real = self.surroundings(at, &self.worlds[0]);
        let here = cost(machine, &traits, &real);
        let worked = tally.on_cpu_ns as f64 - tally.cold_ns;
        self.worlds[0].execute(at, &traits, place, tally.instructions);
        for number in 1..self.worlds.len() {
            let Some(without) = self.worlds[number].without.filter(|one| *one != at) else {
                continue;
            };
            if self.memory_of[without] != place.1 {
                continue;
            }
            let other = self.surroundings(at, &self.worlds[number]);
            let there = cost(machine, &traits, &other);
            self.worlds[number].execute(at, &traits, place, tally.instructions * here / there);
            let lost = |cost: f64| worked * (1.0 - cost / here);
            let total = lost(there);
            let bandwidth =
                lost(cost(machine, &traits, &Surroundings { load: other.load, ..real }));
            let frequency = match machine.turbo > 0.0 {
                true => {
                    lost(cost(machine, &traits, &Surroundings { package: other.package, ..real }))
                }
                false => 0.0,
            };
            let sibling = match machine.threads_per_core > 1 {
                true => {
                    lost(cost(machine, &traits, &Surroundings { sibling: other.sibling, ..real }))
                }
                false => 0.0,
            };
            let cache = total - bandwidth - frequency - sibling;
            let sums = &mut self.worlds[number].lost_ns[at];
            for (sum, ns) in sums.iter_mut().zip([cache, bandwidth, frequency, sibling]) {
                *sum += ns;
            }
        }
    }

    fn note(&mut self, at: usize, tally: &Tally, misses: f64) {
        let machine = &self.scenario.machine;
        let around = self.surroundings(at, &self.worlds[0]);
        let task = &self.tasks[at];
        let stolen = self.cores[task.core].stolen;
        // Cycles pass neither for a core that is stolen nor faster than its clock.
        let cycles = tally.on_cpu_ns as f64 * clock(machine, around.package) * (1.0 - stolen);
        let counted = |value: f64| machine.counters.then_some(value.max(0.0) as u64);
        let reading = TaskReading {
            slot_start_ns: self.now_ns,
            process: task.process,
            parent: None,
            comm: task.comm,
            core: task.core as u32,
            freq_mhz: machine
                .counters
                .then(|| (cycles * 1_000.0 / (tally.on_cpu_ns as f64).max(1.0)) as u32),
            cycles: counted(cycles),
            instructions: counted(tally.instructions),
            llc_misses: counted(misses),
            on_cpu_ns: tally.on_cpu_ns,
            runq_wait_ns: Some(tally.wait_ns),
            switches: tally.switches,
            voluntary_switches: tally.voluntary,
            page_faults: 0,
            migrations: Some(0),
            multiplexed: machine.counters.then_some(false),
            cgroup_id: task.cgroup_id,
        };
        self.measured.tasks.push((at, reading));
    }

    /// A burst in every cache's domain, on a core that changes.
    fn probe(&mut self) {
        let machine = &self.scenario.machine;
        let (size, memory) = (machine.cores_per_cache.max(1), machine.cores_per_memory.max(1));
        for domain in 0..machine.cores.div_ceil(size) {
            let first = domain * size;
            let here = size.min(machine.cores - first);
            let core = first + (self.slot / BURST_SLOTS) as u32 % here;
            let load = self.worlds[0].load[(core / memory) as usize];
            let slower = queueing(load);
            let mut felt = |usual: f64| Some(usual * slower * self.random.noise(0.05));
            let (latency_ns, write_back_ns) = (felt(20.0), felt(35.0));
            let bandwidth = 12e9 / slower * self.random.noise(0.05);
            let early = self.slot < 5_000;
            let contended = slower > 1.1;
            let state = match (early, contended) {
                (true, _) => ProbeState::Unknown,
                (false, true) => ProbeState::Contended,
                (false, false) => ProbeState::Quiet,
            };
            self.measured.probe.push(ProbeReading {
                slot_start_ns: self.now_ns,
                read_at_ns: self.now_ns + SLOT_NS / 2,
                core: Some(core),
                l3_domain: domain,
                latency_ns,
                bandwidth_bytes_per_s: Some(bandwidth),
                write_back_ns,
                inflation: (!early).then_some(slower),
                state,
                confidence: (!early).then_some(0.9),
                blind: early.then_some(ProbeBlindness::Learning),
                alone: None,
            });
        }
    }
}

/// Those who may hurt others through cache, memory or clock, the greatest traffic first.
fn suspects(tasks: &[Task], machine: &Machine) -> Vec<usize> {
    let traffic = |task: &Task| task.traits.accesses * task.traits.misses(task.traits.set / 2.0);
    let everybody = machine.turbo > 0.0 || machine.threads_per_core > 1;
    let mut some: Vec<usize> = (0..tasks.len())
        .filter(|at| everybody || tasks[*at].traits.accesses >= LEAST_ACCESSES)
        .collect();
    some.sort_by(|a, b| traffic(&tasks[*b]).total_cmp(&traffic(&tasks[*a])).then(a.cmp(b)));
    some.truncate(MOST_WORLDS);
    some
}
