use crate::contention::Traits;
use crate::random::Random;
use crate::scenario::{Machine, Pattern, Workload};
use crosstalk_model::{Comm, Placement, ProcessId};
use crosstalk_settings::Period;
use std::sync::Arc;

/// Where a task is between work and rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Until this time.
    Sleeps(u64),
    /// Since this time.
    Waits(u64),
    Runs,
}

/// What happened to a task in a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) on_cpu_ns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) switches: u32,
    pub(crate) voluntary: u32,
    pub(crate) instructions: f64,
    /// Time in which it only brought back what others had driven out of the core's own cache.
    pub(crate) cold_ns: f64,
}

/// One process, which stays on its core.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) process: ProcessId,
    pub(crate) comm: Comm,
    pub(crate) place: Arc<Placement>,
    pub(crate) cgroup_id: u64,
    pub(crate) core: usize,
    pub(crate) traits: Traits,
    pub(crate) state: State,
    pub(crate) tally: Tally,
    /// Nanoseconds an instruction takes in this slot, noise and stolen time included.
    pub(crate) pace: f64,
    /// How dear its own work is now; 1 is usual.
    pub(crate) phase: f64,
    /// Instructions left of the piece at hand; of phases, without end.
    pub(crate) left: f64,
    /// When its turn ends (phases).
    pub(crate) until_ns: u64,
    /// What it still has to bring back.
    pub(crate) cold_ns: f64,
    /// Bytes it brought into its core's own cache so far.
    pub(crate) touched: f64,
    /// What those of its core had brought when it left, in their order there.
    pub(crate) seen: Vec<f64>,
    pattern: Pattern,
    service_instructions: f64,
    jitter: f64,
    rest_ns: f64,
    turns: [[f64; 2]; 2],
    loyalty: f64,
    own_phases: f64,
    own_phase: [f64; 2],
    phase_until_ns: u64,
    drift: f64,
    /// Of its turns; shared with those who follow it.
    schedule: Random,
    random: Random,
}

const fn nanos(range: [Period; 2]) -> [f64; 2] {
    [range[0].get().as_nanos() as f64, range[1].get().as_nanos() as f64]
}

impl Task {
    pub(crate) fn new(
        workload: &Workload,
        machine: &Machine,
        (pid, core): (u32, usize),
        seeds: (u64, u64),
        start_ns: u64,
    ) -> Self {
        let container_name = workload.container.as_deref().map(Arc::from);
        let steady = workload.pattern == Pattern::Steady;
        let mut task = Self {
            name: workload.name.clone(),
            // Some minutes before, in the kernel's steps of 10 ms.
            process: ProcessId {
                pid,
                start_ns: start_ns - 600_000_000_000 + u64::from(pid) * 10_000_000,
            },
            comm: Comm::from_text(&workload.name),
            place: Arc::new(Placement { container_name, ..Placement::default() }),
            cgroup_id: 10_000 + u64::from(pid),
            core,
            traits: Traits::of(workload),
            state: State::Sleeps(start_ns),
            tally: Tally::default(),
            pace: 0.0,
            phase: 1.0,
            left: f64::INFINITY,
            until_ns: if steady { u64::MAX } else { start_ns },
            cold_ns: 0.0,
            touched: 0.0,
            seen: Vec::new(),
            pattern: workload.pattern,
            service_instructions: workload.service.nanos() as f64 * machine.mhz / 1_000.0
                * workload.ipc,
            jitter: workload.jitter,
            rest_ns: workload.rest.nanos() as f64,
            turns: [nanos(workload.on), nanos(workload.off)],
            loyalty: workload.loyalty,
            own_phases: workload.own_phases,
            own_phase: nanos(workload.own_phase),
            phase_until_ns: start_ns,
            drift: 0.0,
            schedule: Random::new(seeds.0),
            random: Random::new(seeds.1),
        };
        task.sleep(start_ns);
        task
    }

    /// Goes to sleep until there is something to do again.
    pub(crate) fn sleep(&mut self, now_ns: u64) {
        let wake_ns = match self.pattern {
            Pattern::Steady => now_ns,
            Pattern::Requests => now_ns + (self.rest_ns * self.random.between(0.5, 1.5)) as u64,
            Pattern::Phases => self.next_turn(),
        };
        self.state = State::Sleeps(wake_ns.max(now_ns + 1));
    }

    /// When it is on next, turns being counted from the end of the last one, whoever held the core meanwhile.
    fn next_turn(&mut self) -> u64 {
        loop {
            let [[on_low, on_high], [off_low, off_high]] = self.turns;
            let begins = self.until_ns + self.schedule.between(off_low, off_high) as u64;
            self.until_ns = begins + self.schedule.between(on_low, on_high) as u64;
            if self.random.chance(self.loyalty) {
                return begins;
            }
        }
    }

    pub(crate) fn wake(&mut self, now_ns: u64) {
        self.state = State::Waits(now_ns);
        if self.pattern == Pattern::Requests {
            self.left = self.service_instructions * self.random.noise(self.jitter);
        }
    }

    /// Draws what this slot has in store for it, besides neighbours: a factor of its cost.
    pub(crate) fn fate(&mut self, now_ns: u64, noise: f64, drift: f64, outliers: f64) -> f64 {
        if self.own_phases > 0.0 && now_ns >= self.phase_until_ns {
            self.phase = 1.0 + self.own_phases * self.random.between(-1.0, 1.0);
            let [low, high] = self.own_phase;
            self.phase_until_ns = now_ns + self.random.between(low, high) as u64;
        }
        let bad_luck = if self.random.chance(outliers) { 3.0 } else { 1.0 };
        self.wander(drift);
        self.drift.exp() * self.random.noise(noise) * bad_luck
    }

    /// A first-order autoregression with a memory of some 200 ms.
    fn wander(&mut self, drift: f64) {
        const KEEPS: f64 = 0.995;
        if drift > 0.0 {
            let step = drift * (1.0 - KEEPS * KEEPS).sqrt();
            self.drift = KEEPS * self.drift + step * self.random.normal();
        }
    }
}
