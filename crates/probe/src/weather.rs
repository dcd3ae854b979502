//! From bursts to a state: pure, no clock, no I/O.

use crate::baseline::{Baseline, Floor, Known};
use crate::burst::Burst;
use crate::odds;
use crate::robust::Sample;
use crosstalk_model::{ProbeBlindness as Blind, ProbeState as State};
use std::collections::VecDeque;

/// How bursts are judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WeatherConfig {
    /// Bursts of this long are judged together.
    pub window_ns: u64,
    /// Fewer bursts than this in the window are no evidence.
    pub fewest_bursts: usize,
    /// Quiet is only claimed where this much inflation (as a natural logarithm) would be told from it. A single
    /// streaming core slows the write-back by 25 to 40 %.
    pub telling_inflation: f64,
    /// A state that is less likely than this is unknown.
    pub least_confidence: f64,
}

impl Default for WeatherConfig {
    fn default() -> Self {
        Self {
            window_ns: 1_300_000_000,
            fewest_bursts: 8,
            telling_inflation: 0.25,
            least_confidence: 0.7,
        }
    }
}

/// What the bursts of the last second say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Slowness relative to what was seen at rest, 1 being as then; absent while that is not known. Where memory is
    /// contended but was never seen at rest, relative to the fastest it was: at least so much.
    pub inflation: Option<f64>,
    /// The state.
    pub state: State,
    /// Probability that the state is right, up to 0.99; absent if unknown.
    pub confidence: Option<f64>,
    /// Why the state is unknown, if it is.
    pub blind: Option<Blind>,
}

/// Judges the bursts of one last-level cache domain.
///
/// What a burst measured becomes one number, the logarithm of what feels contention best, in which it is additive and
/// noise nearly symmetric. What quiet is, is learnt only from bursts during which nobody else ran on the machine
/// (`alone`), or taken over from an earlier run ([`adopt`](Self::adopt)): whoever starts beside a stream does not take
/// it for quiet. The median of a second of bursts is then weighed by Bayes' rule: quiet, which strays as it was seen to,
/// or slower by a tenth or more.
///
/// ```
/// use crosstalk_probe::{Burst, State, Weather, WeatherConfig};
///
/// let mut weather = Weather::new(WeatherConfig::default());
/// let mut judge = |second: f64, slower: f64, alone: bool| {
///     let burst = Burst {
///         latency_ns: 120.0 * slower,
///         bandwidth_bytes_per_s: 17e9 / slower,
///         write_back_ns: Some(3.2 * slower),
///     };
///     weather.judge((second * 1e9) as u64, Some(burst), alone).state
/// };
/// let quiet: Vec<_> = (0..200).map(|i| judge(f64::from(i) * 0.04, 1.0, true)).collect();
/// assert_eq!(quiet[199], State::Quiet);
/// let busy: Vec<_> = (200..250).map(|i| judge(f64::from(i) * 0.04, 1.3, false)).collect();
/// assert_eq!(busy[49], State::Contended);
/// ```
#[derive(Debug, Clone)]
pub struct Weather {
    config: WeatherConfig,
    recent: VecDeque<Felt>,
    /// Bursts without company that are not in the baseline yet.
    references: Vec<Felt>,
    baseline: Option<Baseline>,
    floor: Option<Floor>,
    /// How likely contention was a window ago, and since when that is held; windows that share bursts are one piece of
    /// evidence, not many.
    belief: Option<(u64, f64)>,
    alone_at_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Felt {
    at_ns: u64,
    slowness: f64,
    alone: bool,
}

/// More bursts than this are never in a window; the oldest go first.
const MOST_BURSTS: usize = 256;
/// Bursts without company further apart than this are not taken together.
const SPARSEST_NS: u64 = 10_000_000_000;
/// Without a burst alone for so long it is not learnt what quiet is.
const NOT_LEARNING_NS: u64 = 2_000_000_000;
/// What a neighbour that only computes may change, as a standard deviation: frequency, a shared core.
const COMPANY: f64 = 0.02;
/// How likely contention is before looking: after a window that was surely quiet, or surely contended, and when nothing
/// is known; less while nobody else runs on this machine, though other tenants may.
const AFTER_QUIET: f64 = 0.06;
const AFTER_CONTENDED: f64 = 0.9;
const AT_FIRST: f64 = 0.5;
const ALONE: f64 = 0.2;
/// An adopted level that is undercut by this much, as a logarithm, and more than noise explains, is of another machine.
const REFUTED: f64 = 0.1;

impl Weather {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(config: WeatherConfig) -> Self {
        Self {
            config,
            recent: VecDeque::new(),
            references: Vec::new(),
            baseline: None,
            floor: None,
            belief: None,
            alone_at_ns: None,
        }
    }

    /// Takes over what an earlier or another process learnt, unless this one has seen quiet itself.
    pub fn adopt(&mut self, at_ns: u64, known: Known) {
        if !self.has_seen_quiet() {
            self.baseline = Some(Baseline::adopted(at_ns, known));
        }
    }

    /// Takes the level that all who probe this machine agreed on, where this one has seen quiet too.
    pub fn agree(&mut self, known: Known) {
        if let Some(baseline) = self.baseline.as_mut().filter(|baseline| baseline.is_learnt()) {
            baseline.agree(known);
        }
    }

    /// What is known of quiet, if it is.
    #[must_use]
    pub fn known(&self, at_ns: u64) -> Option<Known> {
        self.baseline.as_ref().and_then(|baseline| baseline.known(at_ns))
    }

    /// Whether that was seen here, not only adopted.
    #[must_use]
    pub fn has_seen_quiet(&self) -> bool {
        self.baseline.is_some_and(|baseline| baseline.is_own() && baseline.is_learnt())
    }

    /// Takes the next burst, if it succeeded, at a monotonic time, and whether nobody else ran on the machine
    /// meanwhile; judges the last second.
    pub fn judge(&mut self, at_ns: u64, burst: Option<Burst>, alone: bool) -> Verdict {
        let slowness = burst.map(slowness).filter(|slowness| slowness.is_finite());
        if let Some(slowness) = slowness {
            let felt = Felt { at_ns, slowness, alone };
            self.recent.push_back(felt);
            if alone {
                self.alone_at_ns = Some(at_ns);
                self.refer(felt);
            }
        }
        let horizon = at_ns.saturating_sub(self.config.window_ns);
        while self.recent.front().is_some_and(|felt| felt.at_ns <= horizon)
            || self.recent.len() > MOST_BURSTS
        {
            self.recent.pop_front();
        }
        self.verdict(at_ns)
    }

    /// Collects bursts without company until there is a window's worth of them.
    fn refer(&mut self, felt: Felt) {
        let sparse = |last: &Felt| felt.at_ns.saturating_sub(last.at_ns) > SPARSEST_NS;
        if self.references.last().is_some_and(sparse) {
            self.references.clear();
        }
        self.references.push(felt);
        let spans_ns = felt.at_ns.saturating_sub(self.references[0].at_ns);
        let enough = self.references.len() >= self.config.fewest_bursts;
        if enough && spans_ns >= self.config.window_ns || self.references.len() >= MOST_BURSTS {
            let median = Sample::of(self.references.iter().map(|felt| felt.slowness)).median;
            self.references.clear();
            match &mut self.baseline {
                Some(baseline) => baseline.see(felt.at_ns, median),
                None => self.baseline = Some(Baseline::starting(felt.at_ns, median)),
            }
        }
    }

    fn verdict(&mut self, at_ns: u64) -> Verdict {
        if self.recent.len() < self.config.fewest_bursts {
            self.belief = None;
            let beginning = self.baseline.is_none() && self.floor.is_none();
            return Verdict::unknown(
                if beginning { Blind::Learning } else { Blind::Starved },
                None,
            );
        }
        let sample = Sample::of(self.recent.iter().map(|felt| felt.slowness));
        let alone = self.recent.iter().filter(|felt| felt.alone).count();
        let alone = alone * 5 >= self.recent.len() * 4;
        let floor = self.floor.get_or_insert_with(|| Floor::starting(at_ns, sample.median));
        floor.follow(at_ns, sample.median);
        let floor = floor.level();
        let Some(baseline) = self.baseline.filter(Baseline::is_learnt) else {
            return self.without_baseline(at_ns, sample, floor);
        };
        let doubt = baseline.doubt(at_ns);
        let company = if alone { 0.0 } else { COMPANY };
        let noise = baseline.noise().hypot(sample.standard_error).hypot(doubt).hypot(company);
        let undercut = baseline.level() - floor;
        if !baseline.is_own() && undercut > REFUTED.max(4.0 * noise) {
            self.baseline = None;
            return Verdict::unknown(Blind::Unseen, None);
        }
        // A machine at rest may slow its memory down to save power: company is then compared with the fastest there was.
        let faster_in_company = !alone && undercut > 3.0 * noise;
        let level = if faster_in_company { floor } else { baseline.level() };
        let contended = self.believe(at_ns, sample.median - level, noise, alone);
        self.weigh(sample.median - level, contended, noise, doubt > baseline.noise())
    }

    /// How likely contention is now, after what was believed a window ago.
    fn believe(&mut self, at_ns: u64, above: f64, noise: f64, alone: bool) -> f64 {
        let before = self.belief.map_or(AT_FIRST, |(_, contended)| {
            AFTER_QUIET + contended * (AFTER_CONTENDED - AFTER_QUIET)
        });
        let before = if alone { ALONE * before } else { before };
        let contended = odds::contended(above, noise, before);
        let held = |(since_ns, _)| at_ns.saturating_sub(since_ns) < self.config.window_ns;
        if !self.belief.is_some_and(held) {
            self.belief = Some((at_ns, contended));
        }
        contended
    }

    fn weigh(&self, above: f64, contended: f64, noise: f64, is_old: bool) -> Verdict {
        let config = &self.config;
        let inflation = Some(above.exp());
        let would_tell = odds::contended(config.telling_inflation, noise, AFTER_QUIET);
        let state = if contended > 0.5 { State::Contended } else { State::Quiet };
        let confidence = contended.max(1.0 - contended);
        let blind = state == State::Quiet && would_tell < config.least_confidence;
        if blind || confidence < config.least_confidence {
            return Verdict::unknown(if is_old { Blind::Unseen } else { Blind::Noisy }, inflation);
        }
        Verdict { inflation, state, confidence: Some(confidence), blind: None }
    }

    /// What was never seen at rest cannot be called quiet; but what is far slower than it was before is contended.
    fn without_baseline(&mut self, at_ns: u64, sample: Sample, floor: f64) -> Verdict {
        let above = sample.median - floor;
        let noise = Floor::NOISE.hypot(sample.standard_error);
        // Nothing far above itself is seen at first.
        self.belief.get_or_insert((at_ns, 0.0));
        let contended = self.believe(at_ns, above, noise, false);
        if contended >= self.config.least_confidence && above > odds::LEAST_EFFECT {
            return Verdict {
                inflation: Some(above.exp()),
                state: State::Contended,
                confidence: Some(contended),
                blind: None,
            };
        }
        let lately = |alone_at: u64| at_ns.saturating_sub(alone_at) < NOT_LEARNING_NS;
        let learning = self.alone_at_ns.is_some_and(lately);
        Verdict::unknown(if learning { Blind::Learning } else { Blind::Unseen }, None)
    }
}

/// One number for a burst, as a logarithm: by what tells a stream from quiet and from a core that only computes. On
/// recordings of a virtual machine writing back did so alone, better than any mean with the others.
fn slowness(burst: Burst) -> f64 {
    match burst.write_back_ns {
        Some(write_back_ns) => write_back_ns.ln(),
        None => 0.5 * (burst.latency_ns.ln() - burst.bandwidth_bytes_per_s.ln()),
    }
}

impl Verdict {
    fn unknown(blind: Blind, inflation: Option<f64>) -> Self {
        Self { inflation, state: State::Unknown, confidence: None, blind: Some(blind) }
    }
}
