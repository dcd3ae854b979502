//! Simulated recordings, judged.

use crate::{Kind, Rival, Score};
use crosstalk_interference::comparators::{Cpi2, Fences, Named, cpi2, fences};
use crosstalk_interference::{
    Activity, Burst, CorePlace, Observer, Resource, Settings, Signal, Slot, Subject, Topology,
    Verdict, VictimBins,
};
use crosstalk_simulate::{Machine, Node, Pattern, SLOT_NS, Scenario, Truth};
use std::collections::{BTreeMap, BTreeSet};

/// From this share on a loss must be found.
pub const MATTERS: f64 = 0.05;
/// Up to this share the neighbour is innocent.
pub const INNOCENT: f64 = 0.001;
const START_NS: u64 = 1_767_225_600_000_000_000;

/// How a recording is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// Slots of the model that are one slot of the view: the agent's are longer.
    pub slots: u64,
    /// What the observer is given.
    pub settings: Settings,
}

impl View {
    /// As `crosstalk analyze` does.
    pub const RECORDED: Self = Self { slots: 1, settings: Settings::recording() };

    /// As the agent does at its defaults: slots of 20 ms, the last minute.
    #[must_use]
    pub fn live() -> Self {
        Self { slots: 20, settings: Settings::live(60) }
    }
}

/// A recording in memory: what an observer made of it, and what really happened.
pub fn observe(scenario: &Scenario, seed: u64, seconds: f64, view: &View) -> (Observer, Truth) {
    let mut node = Node::new(scenario, seed, START_NS);
    let mut observer = Observer::new(topology(&scenario.machine), view.settings);
    let mut joined = Joined::default();
    for number in 1..=(seconds * 1e9 / SLOT_NS as f64) as u64 {
        let measured = node.step();
        for (task, reading) in &measured.tasks {
            joined.add(Activity {
                wait_ns: reading.runq_wait_ns,
                voluntary_switches: reading.voluntary_switches,
                cycles: reading.cycles,
                instructions: reading.instructions,
                llc_misses: reading.llc_misses,
                freq_mhz: reading.freq_mhz,
                ..Activity::new(Subject(*task as u32), reading.core, reading.on_cpu_ns)
            });
        }
        joined.stolen.extend_from_slice(&measured.stolen);
        let bursts = measured.probe.iter();
        joined.bursts.extend(
            bursts
                .filter_map(|burst| Some(Burst { core: burst.core?, cost: burst.write_back_ns? })),
        );
        if number.is_multiple_of(view.slots) {
            let length_ns = view.slots * SLOT_NS;
            let start_ns = measured.start_ns + SLOT_NS - length_ns;
            observer.push(&Slot { start_ns, length_ns, ..joined.slot() });
            joined = Joined::default();
        }
    }
    (observer, node.take_truth())
}

/// Slots of the model that are one of the view, added up as the collector would have.
#[derive(Default)]
struct Joined {
    entries: Vec<Activity>,
    bursts: Vec<Burst>,
    stolen: Vec<(u32, u64)>,
}

impl Joined {
    fn add(&mut self, more: Activity) {
        let same = |one: &&mut Activity| (one.subject, one.core) == (more.subject, more.core);
        let Some(one) = self.entries.iter_mut().find(same) else {
            return self.entries.push(more);
        };
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        // A clock is that of the time it was seen in.
        let (before, now) = (one.on_cpu_ns, more.on_cpu_ns);
        one.freq_mhz = one.freq_mhz.zip(more.freq_mhz).map(|(a, b)| {
            let cycles = u64::from(a) * before + u64::from(b) * now;
            (cycles / (before + now).max(1)) as u32
        });
        one.on_cpu_ns += now;
        one.wait_ns = sum(one.wait_ns, more.wait_ns);
        one.voluntary_switches += more.voluntary_switches;
        one.cycles = sum(one.cycles, more.cycles);
        one.instructions = sum(one.instructions, more.instructions);
        one.llc_misses = sum(one.llc_misses, more.llc_misses);
    }

    fn slot(&self) -> Slot<'_> {
        Slot {
            entries: &self.entries,
            bursts: &self.bursts,
            stolen: Some(&self.stolen),
            ..Slot::default()
        }
    }
}

fn topology(machine: &Machine) -> Topology {
    let place = |core: u32| CorePlace {
        physical: core / machine.threads_per_core.max(1),
        cache: core / machine.cores_per_cache.max(1),
        memory: core / machine.cores_per_memory.max(1),
    };
    Topology::new((0..machine.cores).map(place).collect())
}

/// Judges one recording. The rivals learn what is normal for each victim from an earlier recording of the same machine and
/// workloads in which nobody hurts it; ours needs none.
#[must_use]
pub fn judge(kind: Kind, seed: u64, seconds: f64, counters: bool, view: &View) -> Score {
    let scenario = kind.scenario(seed, counters);
    let (observer, truth) = observe(&scenario, seed, seconds, view);
    let rests = |pair: &(u32, u32)| scenario.workload[pair.1 as usize].pattern == Pattern::Phases;
    let dearer = |victim, other| truth.dearer_s(victim, other);
    let (must, never): (BTreeSet<_>, BTreeSet<_>) =
        pairs(&truth, counters, MATTERS, dearer).into_iter().partition(rests);
    let with_cold = |victim, other| dearer(victim, other) + truth.cold_s(victim, other);
    let mut cold = pairs(&truth, counters, MATTERS, with_cold);
    cold.retain(|pair| !must.contains(pair) && !never.contains(pair));
    let guilty = pairs(&truth, true, INNOCENT, dearer);
    let quiet = Quiet::of(&scenario, seed, seconds, view, &guilty);
    let earlier = quiet.victims();
    let mut score = Score {
        recordings: 1,
        true_pairs: must.len() as u32,
        never_rested: never.len() as u32,
        cold: cold.len() as u32,
        ..Score::default()
    };
    let findings = observer.findings();
    score.judge(&findings.verdicts, &truth, &guilty, [&must, &never, &cold]);
    let victims = observer.victims();
    let rivals = [
        cpi2(&victims, &earlier, &Cpi2::default()),
        fences(&victims, &earlier, &Fences::default()),
    ];
    for (rival, named) in score.rivals.iter_mut().zip(rivals) {
        *rival = rival_score(kind, &named, &guilty, &must);
    }
    score
}

/// Earlier recordings, for rivals: the same machine and workloads at another time, without those who hurt a victim. Who
/// hurts several is missing in one for all of them.
pub struct Quiet {
    /// Without these; and the victims that it is of.
    recordings: BTreeMap<BTreeSet<u32>, (Observer, Vec<Subject>)>,
}

/// What is random in an earlier recording is drawn anew.
const EARLIER: u64 = 0x0ea2_11e2;
/// A turn so many times as long as usual begins after a recording ends.
const NEVER: u32 = 100_000;

impl Quiet {
    /// Makes them for every victim of a scenario.
    #[must_use]
    pub fn of(
        scenario: &Scenario,
        seed: u64,
        seconds: f64,
        view: &View,
        guilty: &BTreeSet<(u32, u32)>,
    ) -> Self {
        let mut recordings: BTreeMap<BTreeSet<u32>, (Observer, Vec<Subject>)> = BTreeMap::new();
        for victim in 0..scenario.workload.len() as u32 {
            let hurt = guilty.iter().filter(|pair| pair.0 == victim).map(|pair| pair.1).collect();
            let recording = recordings.entry(hurt);
            let (_, victims) = recording.or_insert_with_key(|without| {
                let calm = silenced(scenario, without);
                (observe(&calm, seed ^ EARLIER, seconds, view).0, Vec::new())
            });
            victims.push(Subject(victim));
        }
        Self { recordings }
    }

    /// The earlier bins of every victim.
    #[must_use]
    pub fn victims(&self) -> Vec<VictimBins<'_>> {
        let mut bins = Vec::new();
        for (observer, victims) in self.recordings.values() {
            let all = observer.victims().into_iter();
            bins.extend(all.filter(|one| victims.contains(&one.victim)));
        }
        bins
    }
}

/// The same scenario in which some never run. They stay in their places, since subjects are numbered by them.
fn silenced(scenario: &Scenario, without: &BTreeSet<u32>) -> Scenario {
    let mut calm = scenario.clone();
    for &who in without {
        let one = &mut calm.workload[who as usize];
        one.pattern = Pattern::Phases;
        one.slow_down(NEVER);
    }
    calm
}

/// Pairs whose loss can be measured at all: without counters only who sleeps has a signal.
fn pairs(
    truth: &Truth,
    counters: bool,
    least: f64,
    lost_s: impl Fn(usize, usize) -> f64,
) -> BTreeSet<(u32, u32)> {
    let victims = if counters { truth.on_cpu_s.len() } else { 2 };
    let mut pairs = BTreeSet::new();
    for victim in 0..victims {
        for other in 0..truth.on_cpu_s.len() {
            if lost_s(victim, other) > least * truth.on_cpu_s[victim].max(1e-9) {
                pairs.insert((victim as u32, other as u32));
            }
        }
    }
    pairs
}

fn rival_score(
    kind: Kind,
    named: &[Named],
    guilty: &BTreeSet<(u32, u32)>,
    must: &BTreeSet<(u32, u32)>,
) -> Rival {
    // A shadow cannot be told from who casts it: naming either is right.
    let twin = |n: &Named| kind == Kind::Twins && n.aggressor == Subject(3);
    let right = |n: &&Named| {
        guilty.contains(&(n.victim.0, n.aggressor.0))
            || twin(n) && guilty.contains(&(n.victim.0, 2))
    };
    let names = |&&(v, a): &&(u32, u32)| {
        named.iter().any(|n| n.victim.0 == v && (n.aggressor.0 == a || twin(n) && a == 2))
    };
    Rival {
        named: named.len() as u32,
        rightly: named.iter().filter(right).count() as u32,
        found: must.iter().filter(names).count() as u32,
    }
}

impl Score {
    fn judge(
        &mut self,
        verdicts: &[Verdict],
        truth: &Truth,
        guilty: &BTreeSet<(u32, u32)>,
        [must, never, cold]: [&BTreeSet<(u32, u32)>; 3],
    ) {
        let dearer = || verdicts.iter().filter(|v| v.resource != Resource::CpuTime);
        let mut slandered = false;
        for verdict in dearer() {
            let right =
                verdict.aggressors.iter().any(|who| guilty.contains(&(verdict.victim.0, who.0)));
            let is_guilty = |who: &&Subject| guilty.contains(&(verdict.victim.0, who.0));
            self.named += 1;
            self.rightly += u32::from(right);
            self.members += verdict.aggressors.len() as u32;
            self.guilty_members += verdict.aggressors.iter().filter(is_guilty).count() as u32;
            slandered |= !right;
            if right {
                self.measure(verdict, truth);
            } else {
                self.wrong.push(format!("{verdict:?}"));
            }
        }
        self.slandered = u32::from(slandered);
        let names = |pair: &&(u32, u32)| {
            dearer().any(|v| v.victim.0 == pair.0 && v.aggressors.contains(&Subject(pair.1)))
        };
        self.found = must.iter().filter(names).count() as u32;
        self.found_never_rested = never.iter().filter(names).count() as u32;
        self.found_cold = cold.iter().filter(names).count() as u32;
        for (victim, other) in must.iter().chain(never).filter(|pair| !names(pair)) {
            let (at, by) = (*victim as usize, *other as usize);
            let share = truth.dearer_s(at, by) / truth.on_cpu_s[at].max(1e-9);
            self.wrong.push(format!("missed: {victim} lost {:.1} % to {other}", 100.0 * share));
        }
        for verdict in verdicts.iter().filter(|v| v.resource == Resource::CpuTime) {
            let waited =
                truth.waited_s(verdict.victim.0 as usize, verdict.aggressors[0].0 as usize);
            let seconds = verdict.lost_seconds / verdict.slowdown;
            let holds = (verdict.low * seconds..=verdict.high * seconds).contains(&waited);
            self.waits += 1;
            self.waits_right += u32::from((verdict.lost_seconds / waited - 1.0).abs() < 0.05);
            self.waits_holding += u32::from(holds);
        }
    }

    fn measure(&mut self, verdict: &Verdict, truth: &Truth) {
        use crosstalk_simulate::Cause;
        let victim = verdict.victim.0 as usize;
        let of = |cause: Cause, who: &Subject| {
            truth.lost_s.get(&(victim, who.0 as usize, cause)).copied().unwrap_or(0.0)
        };
        let through = |who: &Subject| match verdict.signal {
            Signal::Frequency => of(Cause::Frequency, who),
            // Cycles do not tell how long they last.
            Signal::CyclesPerInstruction => {
                truth.dearer_s(victim, who.0 as usize) - of(Cause::Frequency, who)
            }
            _ => truth.dearer_s(victim, who.0 as usize),
        };
        let lost_s: f64 = verdict.aggressors.iter().map(through).sum();
        let scale = verdict.lost_seconds / verdict.slowdown;
        let holds = (verdict.low * scale..=verdict.high * scale).contains(&lost_s);
        self.intervals += 1;
        self.holding += u32::from(holds);
        if !holds {
            let share = lost_s / scale;
            self.wrong.push(format!("beside the truth of {:.1} %: {verdict:?}", 100.0 * share));
        }
        self.errors.push((verdict.lost_seconds - lost_s).abs() / truth.on_cpu_s[victim]);
        let first = &verdict.aggressors[0];
        let most = [
            (Cause::Cache, Resource::Cache),
            (Cause::MemoryBandwidth, Resource::MemoryBandwidth),
            (Cause::Frequency, Resource::Frequency),
            (Cause::SiblingThread, Resource::SiblingThread),
        ]
        .into_iter()
        .max_by(|a, b| of(a.0, first).total_cmp(&of(b.0, first)));
        let vague = verdict.resource == Resource::CacheOrMemory;
        if let (false, Some((_, resource))) = (vague, most) {
            self.resources += 1;
            self.resources_right += u32::from(resource == verdict.resource);
        }
    }
}
