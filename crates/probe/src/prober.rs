use crate::baseline_file::Key;
use crate::budget::Budget;
use crate::burst::{Arena, Burst, Reach};
use crate::error::ProbeError;
use crate::keeper::{BaselineNote, Keeper, Note};
use crate::priority::Priority;
use crate::weather::{Weather, WeatherConfig};
use crosstalk_host::{Clock, HostRoot, L3Domain, RunQueue, l3_domains, thread};
use crosstalk_model::ProbeReading;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bounds of the probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeConfig {
    /// Where the host's `/proc` and `/sys` hang.
    pub host: HostRoot,
    /// The folder in which what was learnt of quiet is kept for the next run; `None` keeps nothing.
    pub state: Option<PathBuf>,
    /// Share of one core all bursts together may cost.
    pub cpu_share: f64,
    /// Memory all bursts together may use.
    pub most_bytes: usize,
    /// Length of a slot.
    pub slot_ns: u64,
    /// What Unix time is, the same for all data sets of a recording.
    pub clock: Clock,
    /// How bursts are judged.
    pub weather: WeatherConfig,
}

impl Default for ProbeConfig {
    /// Half a per cent of one core and 12 MiB of memory, 1 ms slots, nothing kept.
    fn default() -> Self {
        Self {
            host: HostRoot::default(),
            state: None,
            cpu_share: 0.005,
            // The thread's stack and the code want the rest of 16 MiB.
            most_bytes: 12 * 1024 * 1024,
            slot_ns: 1_000_000,
            clock: Clock::measure(),
            weather: WeatherConfig::default(),
        }
    }
}

/// What the probe has cost, by its own measure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProbeCost {
    /// Bursts run.
    pub bursts: u64,
    /// Bursts thrown away because the thread was interrupted or moved meanwhile.
    pub disturbed: u64,
    /// Bursts run at normal priority, because every core was busy or the one before was interrupted.
    pub insisted: u64,
    /// Processor time of the probe's thread.
    pub cpu: Duration,
    /// Memory bursts run over.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Counts {
    bursts: AtomicU64,
    disturbed: AtomicU64,
    insisted: AtomicU64,
    cpu_ns: AtomicU64,
    bytes: AtomicU64,
}

/// Probes every last-level cache domain in turn on one thread, until dropped.
///
/// ```no_run
/// use crosstalk_probe::{ProbeConfig, Prober};
///
/// let prober = Prober::start(ProbeConfig::default(), |reading| println!("{reading:?}"))?;
/// # drop(prober);
/// # Ok::<(), crosstalk_probe::ProbeError>(())
/// ```
#[derive(Debug)]
pub struct Prober {
    counts: Arc<Counts>,
    note: Note,
    domains: Vec<L3Domain>,
    /// Dropping it is the signal to stop.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Prober {
    /// Starts the thread; each reading is handed to `on_reading` on it, which should be quick: its time
    /// counts against the budget.
    ///
    /// # Errors
    /// If the machine's cores are not known or the thread cannot be made.
    pub fn start(
        config: ProbeConfig,
        on_reading: impl FnMut(ProbeReading) + Send + 'static,
    ) -> Result<Self, ProbeError> {
        let domains = l3_domains(&config.host)?;
        let counts = Arc::new(Counts::default());
        let (stop, stopped) = channel();
        let queue = RunQueue::open(&config.host).ok();
        let (note, probed, shared) = (Note::default(), domains.clone(), Arc::clone(&counts));
        let noted = note.clone();
        let rounds =
            move || Rounds::new(config, probed, shared, queue).run(noted, &stopped, on_reading);
        let thread = std::thread::Builder::new()
            .name("probe".to_owned())
            .stack_size(256 * 1024)
            .spawn(rounds)
            .map_err(ProbeError::Thread)?;
        Ok(Self { counts, note, domains, stop: Some(stop), thread: Some(thread) })
    }

    /// The domains probed.
    #[must_use]
    pub fn domains(&self) -> &[L3Domain] {
        &self.domains
    }

    /// What became of the file in which quiet is kept, if there is anything to say.
    #[must_use]
    pub fn baseline_note(&self) -> Option<BaselineNote> {
        self.note.get()
    }

    /// What it has cost so far.
    #[must_use]
    pub fn cost(&self) -> ProbeCost {
        ProbeCost {
            bursts: self.counts.bursts.load(Ordering::Relaxed),
            disturbed: self.counts.disturbed.load(Ordering::Relaxed),
            insisted: self.counts.insisted.load(Ordering::Relaxed),
            cpu: Duration::from_nanos(self.counts.cpu_ns.load(Ordering::Relaxed)),
            bytes: self.counts.bytes.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's own state.
struct Rounds {
    config: ProbeConfig,
    domains: Vec<(L3Domain, Weather)>,
    arenas: Vec<Arena>,
    counts: Arc<Counts>,
    /// Absent where the kernel does not say who wants a core: nothing then counts as seen at rest.
    queue: Option<RunQueue>,
    cores: usize,
    begin: Instant,
}

/// One burst and what was around it.
struct Attempt {
    core: Option<u32>,
    burst: Option<Burst>,
    alone: bool,
}

impl Rounds {
    fn new(
        mut config: ProbeConfig,
        domains: Vec<L3Domain>,
        counts: Arc<Counts>,
        queue: Option<RunQueue>,
    ) -> Self {
        // The budget is for all domains together; where there are many, each second of evidence
        // takes longer to come by.
        config.weather.window_ns *= domains.len().div_ceil(2) as u64;
        let cores = domains.iter().map(|domain| domain.cores.len()).sum();
        let weather = Weather::new(config.weather);
        let domains = domains.into_iter().map(|domain| (domain, weather.clone())).collect();
        let (arenas, begin) = (Vec::new(), Instant::now());
        Self { config, domains, arenas, counts, queue, cores, begin }
    }

    fn run(mut self, note: Note, stopped: &Receiver<()>, mut on_reading: impl FnMut(ProbeReading)) {
        let mut keeper = self.keeper(note);
        let mut priority = Priority::new();
        let mut budget = Budget::new(self.config.cpu_share);
        let (mut spent, mut calm, mut placed_in) = (thread::cpu_time(), 0, None);
        for at in (0..self.domains.len()).cycle() {
            // Any core of the domain will do: the kernel wakes a thread on an idle one where there is one, where it
            // is in nobody's way and shares no core with the neighbour it is to feel.
            if placed_in != Some(at) {
                placed_in = thread::stay_on(&self.domains[at].0.cores).is_ok().then_some(at);
            }
            let placed = placed_in.is_some();
            let mut attempt = self.attempt(at, &mut priority);
            attempt.burst = attempt.burst.filter(|_| placed);
            on_reading(self.reading(at, &attempt));
            if let Some(keeper) = &mut keeper {
                keeper.look(self.begin.elapsed().as_nanos() as u64, &mut self.domains);
            }
            let now_spent = thread::cpu_time();
            // A machine at rest has less to tell, and is left to rest; the first company is noticed by the next burst.
            calm = if attempt.alone { calm + 1 } else { 0 };
            let pause = budget.pause(now_spent.saturating_sub(spent));
            let pause = if calm > CALM * self.domains.len() { 2 * pause } else { pause };
            spent = now_spent;
            self.counts.cpu_ns.store(spent.as_nanos() as u64, Ordering::Relaxed);
            if stopped.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                break;
            }
        }
        if let Some(keeper) = &mut keeper {
            keeper.write(self.begin.elapsed().as_nanos() as u64, &mut self.domains);
        }
    }

    fn keeper(&mut self, note: Note) -> Option<Keeper> {
        let folder = self.config.state.clone()?;
        let domains: Vec<L3Domain> =
            self.domains.iter().map(|(domain, _)| domain.clone()).collect();
        let method = self.arena(0).method();
        let key = Key::of(&self.config.host, &domains, method);
        Some(Keeper::open(&folder, key, self.config.clock.clone(), note, &mut self.domains))
    }

    /// How many other tasks run or want to, on the whole machine.
    fn others(&self) -> Option<usize> {
        let runnable = self.queue.as_ref()?.runnable().ok()?;
        Some(runnable as usize - 1)
    }

    fn attempt(&mut self, at: usize, priority: &mut Priority) -> Attempt {
        let before = self.others();
        let crowded = before.is_none_or(|others| others >= self.cores);
        let insisted = priority.choose(crowded);
        self.counts.insisted.fetch_add(u64::from(insisted), Ordering::Relaxed);
        let (core, burst) = self.burst(at);
        priority.done(burst.is_none());
        let after = self.others();
        // One busy core of many dozens is not felt by the others.
        let rest = |others: Option<usize>| others.is_some_and(|others| others <= self.cores / 32);
        Attempt { core, burst, alone: rest(before) && rest(after) }
    }

    /// Runs a burst; absent if something else ran in the middle of it.
    fn burst(&mut self, at: usize) -> (Option<u32>, Option<Burst>) {
        let arena = self.arena(at);
        let (core, spent, begin) = (thread::core(), thread::cpu_time(), Instant::now());
        let burst = arena.burst();
        let interrupted = begin.elapsed().saturating_sub(thread::cpu_time() - spent);
        let moved = thread::core() != core;
        self.counts.bursts.fetch_add(1, Ordering::Relaxed);
        if moved || interrupted > LONGEST_INTERRUPTION {
            self.counts.disturbed.fetch_add(1, Ordering::Relaxed);
            return (Some(core).filter(|_| !moved), None);
        }
        (Some(core), Some(burst))
    }

    /// The arena of a domain, made by a thread that is on it so that its memory is near. Domains
    /// beyond the memory bound share.
    fn arena(&mut self, at: usize) -> &mut Arena {
        let each = self.config.most_bytes / self.domains.len();
        let used: usize = self.arenas.iter().map(Arena::bytes).sum();
        if at >= self.arenas.len() && (used < self.config.most_bytes / 2 || at == 0) {
            self.arenas.push(Arena::new(Reach::HERE, each));
            let bytes: usize = self.arenas.iter().map(Arena::bytes).sum();
            self.counts.bytes.store(bytes as u64, Ordering::Relaxed);
        }
        let shared = at % self.arenas.len();
        &mut self.arenas[shared]
    }

    fn reading(&mut self, at: usize, attempt: &Attempt) -> ProbeReading {
        let Attempt { core, burst, alone } = *attempt;
        let (domain, weather) = &mut self.domains[at];
        let verdict = weather.judge(self.begin.elapsed().as_nanos() as u64, burst, alone);
        let unix_ns = self.config.clock.now_unix_ns();
        ProbeReading {
            slot_start_ns: unix_ns - unix_ns % self.config.slot_ns.max(1),
            read_at_ns: unix_ns,
            core,
            l3_domain: domain.id,
            latency_ns: burst.map(|burst| burst.latency_ns),
            bandwidth_bytes_per_s: burst.map(|burst| burst.bandwidth_bytes_per_s),
            write_back_ns: burst.and_then(|burst| burst.write_back_ns),
            inflation: verdict.inflation,
            state: verdict.state,
            confidence: verdict.confidence,
            blind: verdict.blind,
            alone: self.queue.is_some().then_some(alone),
        }
    }
}

/// Bursts of each domain, one after another, in which nobody else ran: some two seconds.
const CALM: usize = 40;
/// Wall time a burst may take beyond its processor time; a context switch takes more.
const LONGEST_INTERRUPTION: Duration = Duration::from_micros(20);
