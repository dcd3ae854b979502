//! From bursts to a state: pure, no clock, no I/O.

use crate::baseline::Baseline;
use crate::burst::Burst;
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
    /// Judged bursts before the first verdict.
    pub learning_ns: u64,
    /// Inflation (as a natural logarithm) that is contention even on the steadiest machine.
    pub least_inflation: f64,
    /// If only more inflation than this would stand out from the noise, the probe is blind. A
    /// single streaming core slows the write-back by 25 to 40 %.
    pub most_inflation: f64,
    /// Contention must stand out from quiet noise by so many standard deviations.
    pub deviations: f64,
}

impl Default for WeatherConfig {
    fn default() -> Self {
        Self {
            window_ns: 1_300_000_000,
            fewest_bursts: 8,
            learning_ns: 3_000_000_000,
            least_inflation: 0.18,
            most_inflation: 0.25,
            deviations: 3.5,
        }
    }
}

/// What the bursts of the last second say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Slowness relative to the quiet baseline, 1 being as ever; absent while that is not known.
    pub inflation: Option<f64>,
    /// The state.
    pub state: State,
    /// Probability that the state is right, given the noise seen, 0.5 to 1; absent if unknown.
    pub confidence: Option<f64>,
    /// Why the state is unknown, if it is.
    pub blind: Option<Blind>,
}

/// Judges the bursts of one last-level cache domain.
///
/// What a burst measured becomes one number, the logarithm of what feels contention best, in which it is
/// additive and noise nearly symmetric. The median of a second of these is compared with a baseline that follows falls
/// within seconds and rises within many minutes, so that it stays at the quiet level through long contention.
///
/// ```
/// use crosstalk_probe::{Burst, State, Weather, WeatherConfig};
///
/// let mut weather = Weather::new(WeatherConfig::default());
/// let mut judge = |second: f64, slower: f64| {
///     let burst = Burst {
///         latency_ns: 120.0 * slower,
///         bandwidth_bytes_per_s: 17e9 / slower,
///         write_back_ns: Some(3.2 * slower),
///     };
///     weather.judge((second * 1e9) as u64, Some(burst)).state
/// };
/// let quiet: Vec<_> = (0..200).map(|i| judge(f64::from(i) * 0.04, 1.0)).collect();
/// assert_eq!(quiet[199], State::Quiet);
/// let busy: Vec<_> = (200..250).map(|i| judge(f64::from(i) * 0.04, 1.3)).collect();
/// assert_eq!(busy[49], State::Contended);
/// ```
#[derive(Debug, Clone)]
pub struct Weather {
    config: WeatherConfig,
    /// Time and slowness of recent bursts.
    recent: VecDeque<(u64, f64)>,
    baseline: Option<Baseline>,
    contended: bool,
}

/// More bursts than this are never in a window; the oldest go first.
const MOST_BURSTS: usize = 256;

impl Weather {
    /// Knows nothing yet.
    #[must_use]
    pub fn new(config: WeatherConfig) -> Self {
        Self { config, recent: VecDeque::new(), baseline: None, contended: false }
    }

    /// Takes the next burst, if it succeeded, at a monotonic time, and judges the last second.
    pub fn judge(&mut self, at_ns: u64, burst: Option<Burst>) -> Verdict {
        let slowness = burst.map(slowness).filter(|slowness| slowness.is_finite());
        self.recent.extend(slowness.map(|slowness| (at_ns, slowness)));
        let horizon = at_ns.saturating_sub(self.config.window_ns);
        while self.recent.front().is_some_and(|(at, _)| *at <= horizon)
            || self.recent.len() > MOST_BURSTS
        {
            self.recent.pop_front();
        }
        if self.recent.len() < self.config.fewest_bursts {
            let learning = self.baseline.is_none();
            return Verdict::unknown(if learning { Blind::Learning } else { Blind::Starved }, None);
        }
        let sample = Sample::of(self.recent.iter().map(|(_, slowness)| *slowness));
        let baseline =
            self.baseline.get_or_insert_with(|| Baseline::starting(at_ns, sample.median));
        let verdict = verdict(&self.config, baseline, sample, at_ns, self.contended);
        self.contended = verdict.state == State::Contended;
        baseline.follow(at_ns, sample.median, self.contended);
        verdict
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

fn verdict(
    config: &WeatherConfig,
    baseline: &Baseline,
    sample: Sample,
    at_ns: u64,
    was_contended: bool,
) -> Verdict {
    let above = sample.median - baseline.level();
    let inflation = Some(above.exp());
    if baseline.age_ns(at_ns) < config.learning_ns {
        return Verdict::unknown(Blind::Learning, inflation);
    }
    let needed = baseline.stands_out(config.deviations);
    // Once contended, half the distance keeps it so: no flicker at the edge.
    let threshold = needed.max(config.least_inflation) * if was_contended { 0.5 } else { 1.0 };
    let uncertainty = sample.standard_error.hypot(baseline.noise()).max(1e-6);
    let distance = (above - threshold).abs() / uncertainty;
    // The logistic curve is within 0.01 of the normal distribution's at this slope.
    let confidence = 1.0 / (1.0 + (-1.702 * distance).exp());
    let state = if above > threshold { State::Contended } else { State::Quiet };
    // What stands out from much noise is contention all the same; only calm can then not be told.
    if state == State::Quiet && needed > config.most_inflation {
        return Verdict::unknown(Blind::Noisy, inflation);
    }
    Verdict { inflation, state, confidence: Some(confidence), blind: None }
}
