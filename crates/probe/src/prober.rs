use crate::budget::Budget;
use crate::burst::{Arena, Burst, Reach};
use crate::error::ProbeError;
use crate::weather::{Weather, WeatherConfig};
use crosstalk_host::{Clock, HostRoot, L3Domain, l3_domains, thread};
use crosstalk_model::ProbeReading;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bounds of the probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeConfig {
    /// Where the host's `/sys` hangs.
    pub host: HostRoot,
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
    /// Half a per cent of one core and 12 MiB of memory, 1 ms slots.
    fn default() -> Self {
        Self {
            host: HostRoot::default(),
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
    /// Processor time of the probe's thread.
    pub cpu: Duration,
    /// Memory bursts run over.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Counts {
    bursts: AtomicU64,
    disturbed: AtomicU64,
    cpu_ns: AtomicU64,
    bytes: AtomicU64,
}

/// Probes every last-level cache domain in turn on one thread of idle priority, until dropped.
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
        let (probed, shared) = (domains.clone(), Arc::clone(&counts));
        let thread = std::thread::Builder::new()
            .name("probe".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || Rounds::new(config, probed, shared).run(&stopped, on_reading))
            .map_err(ProbeError::Thread)?;
        Ok(Self { counts, domains, stop: Some(stop), thread: Some(thread) })
    }

    /// The domains probed.
    #[must_use]
    pub fn domains(&self) -> &[L3Domain] {
        &self.domains
    }

    /// What it has cost so far.
    #[must_use]
    pub fn cost(&self) -> ProbeCost {
        ProbeCost {
            bursts: self.counts.bursts.load(Ordering::Relaxed),
            disturbed: self.counts.disturbed.load(Ordering::Relaxed),
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
    begin: Instant,
}

impl Rounds {
    fn new(mut config: ProbeConfig, domains: Vec<L3Domain>, counts: Arc<Counts>) -> Self {
        // The budget is for all domains together; where there are many, each second of evidence
        // takes longer to come by.
        config.weather.window_ns *= domains.len().div_ceil(2) as u64;
        let weather = Weather::new(config.weather);
        let domains = domains.into_iter().map(|domain| (domain, weather.clone())).collect();
        Self { config, domains, arenas: Vec::new(), counts, begin: Instant::now() }
    }

    fn run(mut self, stopped: &Receiver<()>, mut on_reading: impl FnMut(ProbeReading)) {
        // Not being polite is no reason not to measure: the budget holds all the same.
        let _ = thread::be_idle();
        let mut budget = Budget::new(self.config.cpu_share);
        let mut spent = thread::cpu_time();
        for at in (0..self.domains.len()).cycle() {
            // Any core of the domain will do: the kernel wakes an idle-class thread on an idle one, where it
            // is in nobody's way and shares no core with the neighbour it is to feel.
            let placed = thread::stay_on(&self.domains[at].0.cores).is_ok();
            let (core, burst) = self.burst(at);
            on_reading(self.reading(at, core, burst.filter(|_| placed)));
            let now_spent = thread::cpu_time();
            let pause = budget.pause(now_spent.saturating_sub(spent));
            spent = now_spent;
            self.counts.cpu_ns.store(spent.as_nanos() as u64, Ordering::Relaxed);
            if stopped.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
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

    fn reading(&mut self, at: usize, core: Option<u32>, burst: Option<Burst>) -> ProbeReading {
        let (domain, weather) = &mut self.domains[at];
        let verdict = weather.judge(self.begin.elapsed().as_nanos() as u64, burst);
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
        }
    }
}

/// Wall time a burst may take beyond its processor time; a context switch takes more.
const LONGEST_INTERRUPTION: Duration = Duration::from_micros(20);
