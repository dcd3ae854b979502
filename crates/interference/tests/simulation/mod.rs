//! Recordings whose truth is known: a contention model that shares nothing with the estimator.

mod random;
mod scenario;

pub(crate) use random::Random;
pub(crate) use scenario::{KINDS, Kind, Player, Work, cast};

use crosstalk_interference::{
    Activity, Burst, Observer, Resource, Settings, Slot, Subject, Topology,
};

pub(crate) const SLOT_NS: u64 = 2_000_000;
const CORES: u32 = 5;
const PLAYERS: usize = 5;
/// Time of the kernel's tick, the grain of stolen time.
const TICK_NS: f64 = 10e6;

/// What really happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    pub(crate) on_cpu_s: [f64; PLAYERS],
    /// Seconds lost by the first to the second through cache and memory.
    pub(crate) lost_s: [[f64; PLAYERS]; PLAYERS],
    /// Seconds lost to players 2 and 3 together.
    pub(crate) lost_to_twins_s: [f64; PLAYERS],
    /// Seconds the first waited while the second held its core.
    pub(crate) waited_s: [[f64; PLAYERS]; PLAYERS],
    on_cache: [bool; PLAYERS],
    counters: bool,
}

impl Truth {
    /// What a verdict on this aggressor can know at best: without counters the cache cannot be told from the rest.
    pub(crate) fn resource(&self, aggressor: usize) -> Resource {
        match (self.on_cache[aggressor], self.counters) {
            (true, true) => Resource::Cache,
            (true, false) => Resource::CacheOrMemory,
            (false, _) => Resource::MemoryBandwidth,
        }
    }
}

/// What holds for everybody in a slot.
struct Host {
    now: f64,
    steal: f64,
    rough: f64,
    counters: bool,
}

struct State {
    player: Player,
    phase: f64,
    phase_until: f64,
    on: bool,
    on_until: f64,
    drift: f64,
    work_left: f64,
    sleep_until: f64,
    waiting_ns: u64,
}

/// Cost of the victim's work under this pressure: it saturates, unlike the estimator's exponential.
fn cost(sensitivity: f64, pressure: f64) -> f64 {
    1.0 + sensitivity * pressure / (1.0 + 0.3 * pressure)
}

/// Pushes a recording of `seconds` into an observer.
pub(crate) fn record(kind: Kind, seed: u64, seconds: f64, counters: bool) -> (Observer, Truth) {
    let mut random = Random::new(seed);
    let players = cast(kind, &mut random);
    let rough = random.between(0.5, 3.0);
    let stolen_at_all = kind == Kind::StolenTime;
    let mut observer = Observer::new(Topology::one_cache(CORES), Settings::recording());
    let mut truth = Truth { counters, ..Truth::default() };
    for (flag, player) in truth.on_cache.iter_mut().zip(&players) {
        *flag = player.on_cache;
    }
    let mut states: Vec<State> = players.into_iter().map(State::new).collect();
    let (mut steal, mut steal_until, mut steal_owed) = (0.0, 0.0, 0.0);
    let mut turn = 0;
    for slot in 0..(seconds * 1e9 / SLOT_NS as f64) as u64 {
        let now = slot as f64 * SLOT_NS as f64 / 1e9;
        if stolen_at_all && now >= steal_until {
            steal = if random.uniform() < 0.5 { 0.0 } else { random.between(0.05, 0.4) };
            steal_until = now + random.between(0.1, 1.5);
        }
        follow_schedules(&mut states, now, rough, &mut random);
        let running = schedule(&mut states, slot, now, &mut turn, &mut truth);
        let host = Host { now, steal, rough, counters };
        let entries = run(&mut states, &running, &host, &mut random, &mut truth);
        steal_owed += steal * SLOT_NS as f64;
        let ticks = (steal_owed / TICK_NS).floor();
        steal_owed -= ticks * TICK_NS;
        let stolen: Vec<(u32, u64)> =
            (0..CORES).map(|core| (core, (ticks * TICK_NS) as u64)).collect();
        let bandwidth: f64 = running.iter().map(|&at| states[at].player.bandwidth()).sum();
        let burst = Burst { core: 0, cost: 20.0 * (1.0 + 0.15 * bandwidth) * random.noise(0.05) };
        let bursts = [burst];
        observer.push(&Slot {
            start_ns: 1_700_000_000_000_000_000 + slot * SLOT_NS,
            length_ns: SLOT_NS,
            entries: &entries,
            stolen: Some(&stolen),
            bursts: if slot % 20 == 0 { &bursts } else { &[] },
            ..Slot::default()
        });
    }
    (observer, truth)
}

impl State {
    fn new(player: Player) -> Self {
        let work_left = player.piece_ns;
        Self {
            player,
            phase: 1.0,
            phase_until: 0.0,
            on: false,
            on_until: 0.0,
            drift: 0.0,
            work_left,
            sleep_until: 0.0,
            waiting_ns: 0,
        }
    }

    fn is_ready(&self, now: f64) -> bool {
        match self.player.work {
            Work::Requests => now >= self.sleep_until,
            Work::Phases => self.on,
        }
    }
}

fn follow_schedules(states: &mut [State], now: f64, rough: f64, random: &mut Random) {
    for at in 0..states.len() {
        let leader =
            states[at].player.follows.map(|leader| (states[leader].on, states[leader].on_until));
        let state = &mut states[at];
        let slow = state.player.slow;
        if now >= state.on_until {
            (state.on, state.on_until) = match leader {
                Some((on, until)) => (on && random.uniform() < state.player.loyalty, until),
                None => (!state.on, now + slow * random.between(0.2, 2.0)),
            };
        }
        if state.player.own_phases && now >= state.phase_until {
            state.phase = random.between(0.7, 1.4);
            state.phase_until = now + slow.sqrt() * random.between(0.3, 3.0);
        }
        // A slow wander, 4 % in a recording of middling roughness, alike over some 200 ms.
        state.drift = 0.99 * state.drift + 0.04 * rough * 0.141 * random.normal();
    }
}

/// One runner for each core and slot; those who share a core take turns of two slots.
fn schedule(
    states: &mut [State],
    slot: u64,
    now: f64,
    turn: &mut usize,
    truth: &mut Truth,
) -> Vec<usize> {
    let mut running = Vec::new();
    for core in 0..CORES {
        let ready: Vec<usize> = (0..states.len())
            .filter(|&at| states[at].player.core == core && states[at].is_ready(now))
            .collect();
        if ready.len() > 1 && slot.is_multiple_of(2) {
            *turn += 1;
        }
        let Some(&runner) = ready.get(*turn % ready.len().max(1)) else { continue };
        for &waiter in ready.iter().filter(|&&at| at != runner) {
            states[waiter].waiting_ns += SLOT_NS;
            truth.waited_s[waiter][runner] += SLOT_NS as f64 / 1e9;
        }
        running.push(runner);
    }
    running
}

fn run(
    states: &mut [State],
    running: &[usize],
    host: &Host,
    random: &mut Random,
    truth: &mut Truth,
) -> Vec<Activity> {
    let &Host { now, steal, rough, counters } = host;
    let pressures: Vec<f64> = states.iter().map(|state| state.player.pressure).collect();
    let mut entries = Vec::new();
    for &at in running {
        let state = &mut states[at];
        let beside = |without: &[usize]| -> f64 {
            running
                .iter()
                .filter(|&&o| o != at && !without.contains(&o))
                .map(|&o| pressures[o])
                .sum()
        };
        let factor = cost(state.player.sensitivity, beside(&[]));
        let outlier = if random.uniform() < 0.01 { 3.0 } else { 1.0 };
        let dearer = state.phase * state.drift.exp() * random.noise(0.1 * rough) * outlier * factor;
        let speed = (1.0 - steal) / dearer;
        let mut on_cpu = SLOT_NS as f64;
        let mut switches = 0;
        if state.player.work == Work::Requests {
            let needed = state.work_left / speed;
            if needed <= on_cpu {
                on_cpu = needed;
                switches = 1;
                state.work_left = state.player.piece_ns;
                state.sleep_until = now + SLOT_NS as f64 / 1e9 + random.between(0.002, 0.006);
            } else {
                state.work_left -= on_cpu * speed;
            }
        }
        let seconds = on_cpu / 1e9;
        truth.on_cpu_s[at] += seconds;
        let lost = |without: &[usize]| {
            seconds * (1.0 - cost(states[at].player.sensitivity, beside(without)) / factor)
        };
        for &other in running.iter().filter(|&&other| other != at) {
            truth.lost_s[at][other] += lost(&[other]);
        }
        truth.lost_to_twins_s[at] += lost(&[2, 3]);
        let evicted: f64 =
            running.iter().filter(|&&o| o != at).map(|&o| states[o].player.evicts()).sum();
        let cycles = on_cpu * (1.0 - steal) * 2.5;
        let instructions = cycles / dearer;
        let sensitive = states[at].player.sensitivity;
        let misses = instructions * 0.002 * (1.0 + 1.5 * sensitive * evicted) * random.noise(0.1);
        let state = &mut states[at];
        entries.push(Activity {
            wait_ns: Some(std::mem::take(&mut state.waiting_ns)),
            voluntary_switches: switches,
            cycles: counters.then_some(cycles as u64),
            instructions: counters.then_some(instructions as u64),
            llc_misses: counters.then_some(misses as u64),
            ..Activity::new(Subject(at as u32), state.player.core, on_cpu as u64)
        });
    }
    entries
}
