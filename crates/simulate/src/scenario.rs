use crosstalk_settings::{Configuration, Fault, Period, bytes};
use serde::{Deserialize, Serialize};

/// What is simulated: a machine, what its host does to it, and what runs on it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Scenario {
    /// The machine of every node.
    pub machine: Machine,
    /// What the world does to it.
    pub host: Host,
    /// What runs.
    pub workload: Vec<Workload>,
}

/// Cores, caches and memory.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Machine {
    /// Logical CPUs.
    pub cores: u32,
    /// Hardware threads of a physical core: 1 or 2. Thread t of physical core c is CPU c x threads + t.
    pub threads_per_core: u32,
    /// Logical CPUs that share a last-level cache.
    pub cores_per_cache: u32,
    /// Logical CPUs that share a memory controller.
    pub cores_per_memory: u32,
    /// Size of one last-level cache.
    #[serde(deserialize_with = "bytes")]
    pub cache: u64,
    /// Size of a core's own cache.
    #[serde(deserialize_with = "bytes")]
    pub private_cache: u64,
    /// Bytes a second that one memory controller can move.
    #[serde(deserialize_with = "bytes")]
    pub bandwidth: u64,
    /// What an access to idle memory takes.
    pub latency_ns: f64,
    /// The clock of a core while the others rest.
    pub mhz: f64,
    /// Share of the clock that is lost when all cores of a memory controller are busy.
    pub turbo: f64,
    /// Whether cycles, instructions and misses are counted.
    pub counters: bool,
    /// Whether the memory probe runs.
    pub probe: bool,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            cores: 36,
            threads_per_core: 1,
            cores_per_cache: 18,
            cores_per_memory: 18,
            cache: 32 << 20,
            private_cache: 1 << 20,
            bandwidth: 60 << 30,
            latency_ns: 90.0,
            mhz: 2_600.0,
            turbo: 0.0,
            counters: true,
            probe: true,
        }
    }
}

/// What disturbs measurements without being anybody's doing.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Host {
    /// Greatest share of time that the hypervisor steals in a phase of stealing; 0: none.
    pub stolen: f64,
    /// Length of such phases and of the rests between, from and to.
    pub stolen_phase: [Period; 2],
    /// Deviation of the cost of a millisecond of work.
    pub noise: f64,
    /// Deviation of a slow wander of cost, alike over some 200 ms.
    pub drift: f64,
    /// Share of milliseconds that cost thrice as much, for no reason.
    pub outliers: f64,
    /// Share of slots of a core whose rows are lost while recording, as of a node that cannot keep up; 0: none.
    pub lost: f64,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            stolen: 0.0,
            stolen_phase: [Period::millis(100), Period::millis(1_500)],
            noise: 0.05,
            drift: 0.02,
            outliers: 0.005,
            lost: 0.0,
        }
    }
}

/// How a workload spends its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Pieces of work with pauses between.
    #[default]
    Requests,
    /// On and off in turns of random length.
    Phases,
    /// Always on.
    Steady,
}

/// A process, or some copies of it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Copies.
    pub count: u32,
    /// Where the copies run, in turn; empty: spread over all cores.
    pub cores: Vec<u32>,
    /// How it spends its time.
    pub pattern: Pattern,
    /// Memory it uses again and again.
    #[serde(deserialize_with = "bytes")]
    pub working_set: u64,
    /// Accesses to the shared cache in a thousand instructions.
    pub accesses: f64,
    /// Share of these that never come back to a line, and so always miss.
    pub streaming: f64,
    /// Lines written back for each line read.
    pub writes: f64,
    /// Accesses under way at once.
    pub parallel: f64,
    /// Instructions a cycle where no access has to wait.
    pub ipc: f64,
    /// Time a piece of work takes at full speed (requests).
    pub service: Period,
    /// Spread of the size of pieces; 0: all are equal.
    pub jitter: f64,
    /// Mean pause between pieces (requests).
    pub rest: Period,
    /// Length of the time on, from and to (phases).
    pub on: [Period; 2],
    /// Length of the time off, from and to (phases).
    pub off: [Period; 2],
    /// Another workload whose turns it shares (phases).
    pub follows: Option<String>,
    /// How often it does share them.
    pub loyalty: f64,
    /// How far its own work changes its cost from phase to phase: 0.5 is by up to a half either way.
    pub own_phases: f64,
    /// Length of such a phase, from and to.
    pub own_phase: [Period; 2],
    /// Container its processes are in.
    pub container: Option<String>,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            name: "work".to_owned(),
            count: 1,
            cores: Vec::new(),
            pattern: Pattern::Requests,
            working_set: 256 << 10,
            accesses: 1.0,
            streaming: 0.0,
            writes: 0.0,
            parallel: 2.0,
            ipc: 1.5,
            service: Period::millis(3),
            jitter: 0.0,
            rest: Period::millis(4),
            on: [Period::millis(200), Period::seconds(2)],
            off: [Period::millis(200), Period::seconds(2)],
            follows: None,
            loyalty: 1.0,
            own_phases: 0.0,
            own_phase: [Period::millis(300), Period::seconds(3)],
            container: None,
        }
    }
}

impl Workload {
    /// Reads and writes through far more memory than any cache holds.
    #[must_use]
    pub fn stream(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            pattern: Pattern::Phases,
            working_set: 256 << 20,
            accesses: 40.0,
            streaming: 1.0,
            writes: 1.0,
            parallel: 8.0,
            ..Self::default()
        }
    }

    /// Touches lines of a set as large as the cache at random.
    #[must_use]
    pub fn thrash(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            pattern: Pattern::Phases,
            working_set: 48 << 20,
            accesses: 30.0,
            writes: 0.5,
            parallel: 4.0,
            ..Self::default()
        }
    }

    /// Takes a core and nothing else.
    #[must_use]
    pub fn compute(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            pattern: Pattern::Phases,
            working_set: 16 << 10,
            accesses: 0.01,
            ipc: 3.0,
            ..Self::default()
        }
    }

    /// Makes its phases so many times as long.
    pub fn slow_down(&mut self, times: u32) {
        for period in [&mut self.on, &mut self.off, &mut self.own_phase].into_iter().flatten() {
            let millis = u64::try_from(period.get().as_millis()).unwrap_or(u64::MAX);
            *period = Period::millis(millis.saturating_mul(times.into()));
        }
    }

    /// Serves requests out of a set that the shared cache can hold.
    #[must_use]
    pub fn serve(name: &str, working_set: u64) -> Self {
        Self { name: name.to_owned(), working_set, accesses: 12.0, ..Self::default() }
    }
}

impl Default for Scenario {
    /// A busy node: web servers, a cache, training, and a backup and a batch job that come and go.
    fn default() -> Self {
        let named = |container: &str, count: u32, one: Workload| Workload {
            count,
            container: Some(container.to_owned()),
            ..one
        };
        let (ms, long) = (Period::millis, [Period::seconds(5), Period::seconds(20)]);
        let workload = vec![
            named("web", 16, Workload { rest: ms(1), ..Workload::serve("nginx", 2 << 20) }),
            named("cache", 4, Workload { rest: ms(1), ..Workload::serve("redis", 12 << 20) }),
            named("train", 8, Workload { pattern: Pattern::Steady, ..Workload::compute("train") }),
            named("backup", 1, Workload { on: long, off: long, ..Workload::stream("backup") }),
            named("batch", 2, Workload { on: long, ..Workload::thrash("sort") }),
            named("build", 6, Workload::compute("cc1")),
        ];
        Self { machine: Machine::default(), host: Host::default(), workload }
    }
}

/// More would be no machine.
const MOST_CORES: u32 = 1_024;
const MOST_TASKS: u32 = 4_096;

impl Configuration for Scenario {
    fn fault(&self) -> Option<Fault> {
        let machine = &self.machine;
        let between = |key: &str, value: f64, low: f64, high: f64| {
            let fits = (low..=high).contains(&value);
            (!fits).then(|| Fault::new(key, format!("{value} is not between {low} and {high}")))
        };
        let of_machine = [
            between("machine.cores", machine.cores.into(), 1.0, MOST_CORES.into()),
            between("machine.threads_per_core", machine.threads_per_core.into(), 1.0, 2.0),
            between("machine.cores_per_cache", machine.cores_per_cache.into(), 1.0, 1e4),
            between("machine.cores_per_memory", machine.cores_per_memory.into(), 1.0, 1e4),
            between("machine.latency_ns", machine.latency_ns, 1.0, 10_000.0),
            between("machine.mhz", machine.mhz, 100.0, 10_000.0),
            between("machine.turbo", machine.turbo, 0.0, 0.9),
            between("host.stolen", self.host.stolen, 0.0, 0.9),
            between("host.noise", self.host.noise, 0.0, 1.0),
            between("host.drift", self.host.drift, 0.0, 1.0),
            between("host.outliers", self.host.outliers, 0.0, 0.5),
            between("host.lost", self.host.lost, 0.0, 0.9),
        ];
        let turned = |key: &str, [low, high]: [Period; 2]| {
            (low > high).then(|| Fault::new(key, format!("{low} is longer than {high}")))
        };
        let tasks: u32 = self.workload.iter().map(|one| one.count).fold(0, u32::saturating_add);
        let of_all = (tasks == 0 || tasks > MOST_TASKS).then(|| {
            Fault::new("workload", format!("{tasks} processes; 1 to {MOST_TASKS} can be"))
        });
        let of_each = self.workload.iter().enumerate().find_map(|(at, one)| {
            let key = |name: &str| format!("workload[{at}].{name}");
            let lost = one.cores.iter().find(|core| **core >= machine.cores);
            let leader = one
                .follows
                .as_ref()
                .filter(|leader| !self.workload[..at].iter().any(|before| before.name == **leader));
            between(&key("accesses"), one.accesses, 0.0, 1_000.0)
                .or_else(|| between(&key("streaming"), one.streaming, 0.0, 1.0))
                .or_else(|| between(&key("writes"), one.writes, 0.0, 10.0))
                .or_else(|| between(&key("parallel"), one.parallel, 1.0, 64.0))
                .or_else(|| between(&key("ipc"), one.ipc, 0.01, 10.0))
                .or_else(|| between(&key("jitter"), one.jitter, 0.0, 2.0))
                .or_else(|| between(&key("loyalty"), one.loyalty, 0.0, 1.0))
                .or_else(|| between(&key("own_phases"), one.own_phases, 0.0, 0.9))
                .or_else(|| turned(&key("on"), one.on))
                .or_else(|| turned(&key("off"), one.off))
                .or_else(|| turned(&key("own_phase"), one.own_phase))
                .or_else(|| {
                    lost.map(|core| Fault::new(key("cores"), format!("there is no core {core}")))
                })
                .or_else(|| {
                    leader.map(|name| {
                        Fault::new(key("follows"), format!("no workload {name} stands above it"))
                    })
                })
        });
        of_machine
            .into_iter()
            .flatten()
            .next()
            .or(turned("host.stolen_phase", self.host.stolen_phase))
            .or(of_all)
            .or(of_each)
    }
}
