//! What memory is like when nobody else wants it.

/// Time constants in seconds. Falls are believed quickly: nothing makes memory faster than quiet.
const FALL_S: f64 = 3.0;
/// Rises while the state is quiet are drift: temperature, page placement, another host.
const DRIFT_S: f64 = 60.0;
/// Rises while contended: after a good quarter of an hour, contention that never ends is the
/// new normal, since by then a move to a slower host is likelier.
const SURRENDER_S: f64 = 1_200.0;
/// How fast the estimate of noise follows.
const NOISE_S: f64 = 30.0;
/// Medians further out than so many standard deviations count as being just there.
const BELIEVED: f64 = 2.0;
/// Noise assumed before any was seen, as a share of the level.
const FIRST_NOISE: f64 = 0.02;
/// Longest step that is believed at once; after a longer pause the past still counts.
const LONGEST_STEP_S: f64 = 2.0;

/// A slowly adapting quiet level, and where medians lie about it while quiet.
///
/// The level follows falls faster than rises, so that quiet medians lie a little above it: by `offset` in the mean, and
/// stray from there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Baseline {
    since_ns: u64,
    updated_ns: u64,
    level: f64,
    offset: f64,
    /// Mean absolute deviation of medians from level and offset.
    stray: f64,
}

impl Baseline {
    pub(crate) fn starting(at_ns: u64, level: f64) -> Self {
        let stray = FIRST_NOISE / STRAY_TO_DEVIATION;
        Self { since_ns: at_ns, updated_ns: at_ns, level, offset: 0.0, stray }
    }

    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    /// How far above the level a median stands out from quiet ones by so many standard deviations.
    pub(crate) fn stands_out(&self, deviations: f64) -> f64 {
        self.offset + deviations * self.noise()
    }

    /// Standard deviation of quiet medians.
    pub(crate) fn noise(&self) -> f64 {
        self.stray * STRAY_TO_DEVIATION
    }

    pub(crate) fn age_ns(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.since_ns)
    }

    /// Moves towards the latest median.
    pub(crate) fn follow(&mut self, at_ns: u64, median: f64, contended: bool) {
        let step_s = at_ns.saturating_sub(self.updated_ns) as f64 * 1e-9;
        let step_s = step_s.min(LONGEST_STEP_S);
        self.updated_ns = at_ns;
        let above = median - self.level;
        let constant_s = match (above < 0.0, contended) {
            (true, _) => FALL_S,
            (false, false) => DRIFT_S,
            (false, true) => SURRENDER_S,
        };
        if !contended {
            // The first moments of contention, before it is called so, must not pass for noise.
            let believed = above.min(self.offset + BELIEVED * self.noise().max(FIRST_NOISE));
            let share = 1.0 - (-step_s / NOISE_S).exp();
            self.offset += share * (believed - self.offset);
            self.stray += share * ((believed - self.offset).abs() - self.stray);
        }
        self.level += (1.0 - (-step_s / constant_s).exp()) * above;
    }
}

/// Of a normal distribution: the square root of pi / 2.
const STRAY_TO_DEVIATION: f64 = 1.253;
