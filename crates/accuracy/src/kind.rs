use crosstalk_simulate::{Host, Machine, Random, Scenario, Workload};

/// What happens in a simulated recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Neighbours that compute, and nobody who hurts.
    NoInterference,
    /// One stream or thrash among those who compute.
    OneAggressor,
    /// Two of them.
    SeveralAggressors,
    /// Nobody hurts, and the victim's own work changes its cost: phases coincide by chance.
    CoincidingPhases,
    /// The victim's own work changes its cost, and one neighbour hurts.
    OwnPhases,
    /// A neighbour that hurts, and an innocent one that is on whenever it is.
    Twins,
    /// The innocent one is on nearly whenever the other is.
    LooseTwins,
    /// Phases ten times as long, so few of them, and own phases besides.
    SlowPhases,
    /// A neighbour on the victim's own core: waiting, no memory.
    CpuContention,
    /// The hypervisor steals from all at once; in half of them somebody hurts too.
    StolenTime,
    /// A clock that falls as cores wake.
    Frequency,
    /// Two threads of one core.
    Sibling,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::NoInterference,
        Self::OneAggressor,
        Self::SeveralAggressors,
        Self::CoincidingPhases,
        Self::OwnPhases,
        Self::Twins,
        Self::LooseTwins,
        Self::SlowPhases,
        Self::CpuContention,
        Self::StolenTime,
        Self::Frequency,
        Self::Sibling,
    ];

    /// As it stands in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoInterference => "no interference",
            Self::OneAggressor => "one aggressor",
            Self::SeveralAggressors => "several aggressors",
            Self::CoincidingPhases => "phases that coincide by chance",
            Self::OwnPhases => "a victim that changes phase itself, and an aggressor",
            Self::Twins => "an aggressor and its shadow",
            Self::LooseTwins => "an aggressor and one mostly on with it",
            Self::SlowPhases => "few long phases",
            Self::CpuContention => "a neighbour on the same core",
            Self::StolenTime => "stolen time",
            Self::Frequency => "a falling clock",
            Self::Sibling => "a sibling hyper-thread",
        }
    }

    /// A scenario of this kind: task 0 may suffer, 1 serves out of a small set, 2 to 4 are neighbours.
    #[must_use]
    pub fn scenario(self, seed: u64, counters: bool) -> Scenario {
        let mut random = Random::new(seed ^ 0x00c0_ffee);
        let cores = if self == Self::Sibling { 6 } else { 5 };
        let machine = Machine {
            cores,
            cores_per_cache: cores,
            cores_per_memory: cores,
            threads_per_core: if self == Self::Sibling { 2 } else { 1 },
            cache: 16 << 20 << (random.bits() % 2),
            bandwidth: (random.between(15.0, 40.0) * 1e9) as u64,
            turbo: if self == Self::Frequency { random.between(0.1, 0.3) } else { 0.0 },
            counters,
            ..Machine::default()
        };
        let rough = random.between(0.5, 3.0);
        let host = Host {
            stolen: if self == Self::StolenTime { random.between(0.1, 0.4) } else { 0.0 },
            noise: 0.05 * rough,
            drift: 0.02 * rough,
            ..Host::default()
        };
        let mut workload = self.cast(&mut random);
        for (at, one) in workload.iter_mut().enumerate() {
            // Threads 0 and 1 are one physical core: the first neighbour is the victim's sibling there.
            one.cores = vec![match (self, at) {
                (Self::Sibling, 0) => 0,
                (Self::Sibling, 1) => 5,
                (Self::Sibling, _) => at as u32 - 1,
                (Self::CpuContention, 2) => 0,
                _ => at as u32,
            }];
        }
        Scenario { machine, host, workload }
    }

    fn cast(self, random: &mut Random) -> Vec<Workload> {
        let guilty = match self {
            Self::NoInterference | Self::CoincidingPhases | Self::CpuContention => 0,
            Self::Frequency | Self::Sibling => 0,
            Self::StolenTime | Self::SlowPhases => usize::from(random.chance(0.5)),
            Self::SeveralAggressors => 2,
            Self::OneAggressor | Self::OwnPhases | Self::Twins | Self::LooseTwins => 1,
        };
        let suffers = Workload {
            accesses: random.between(1.0, 12.0),
            parallel: random.between(1.0, 4.0),
            ipc: random.between(0.8, 2.5),
            jitter: if random.chance(0.3) { random.between(0.0, 0.3) } else { 0.0 },
            ..Workload::serve("victim", (random.between(2.0, 14.0) * 1048576.0) as u64)
        };
        let mut all = vec![suffers, Workload::serve("small", 128 << 10)];
        all[1].accesses = 0.2;
        for at in 0..3 {
            let name = ["first", "second", "third"][at];
            let one = match (at < guilty, random.chance(0.5)) {
                (true, true) => {
                    Workload { accesses: random.between(15.0, 60.0), ..Workload::stream(name) }
                }
                (true, false) => {
                    Workload { accesses: random.between(15.0, 50.0), ..Workload::thrash(name) }
                }
                (false, _) => Workload::compute(name),
            };
            all.push(one);
        }
        match self {
            Self::CoincidingPhases | Self::OwnPhases => all[0].own_phases = 0.35,
            Self::Twins => all[3].follows = Some("first".to_owned()),
            Self::LooseTwins => {
                all[3].follows = Some("first".to_owned());
                all[3].loyalty = 0.85;
            }
            Self::SlowPhases => {
                all[0].own_phases = 0.35;
                for one in &mut all {
                    one.slow_down(10);
                }
            }
            _ => {}
        }
        all
    }
}
