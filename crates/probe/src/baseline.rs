//! What memory is like when nobody else wants it: pure.

/// Noise assumed before any was seen, and how many references that counts for.
const FIRST_NOISE: f64 = 0.03;
const FIRST_WEIGHT: f64 = 4.0;
/// Falls beyond the noise are believed within seconds: nothing makes memory faster than quiet.
const FALL_S: f64 = 3.0;
/// A rise beyond the noise while nobody here wants memory: other tenants of the host, or a slower host. After a good
/// quarter of an hour the latter is likelier.
const SURRENDER_S: f64 = 1_200.0;
/// The level is a mean over so many references, the noise over somewhat more.
const LEVEL_OVER: f64 = 40.0;
const NOISE_OVER: f64 = 60.0;
/// References further out than so many standard deviations count as being just there.
const BELIEVED: f64 = 3.0;
/// Longest time between references that is believed at once.
const LONGEST_STEP_S: f64 = 5.0;
/// Fewer references than this are no baseline.
const FEWEST: f64 = 3.0;
/// A level that others learnt counts for so many references of our own.
const ADOPTED: f64 = 8.0;
/// How far the level strays from one process to the next, by where its memory happens to lie.
const PLACEMENT: f64 = 0.03;
/// How far it strays while not looked at: so much in the first quarter of an hour, and as the root of time.
const DRIFT: f64 = 0.01;
const DRIFT_OVER_S: f64 = 900.0;

/// What is known of quiet, as it is kept and handed on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known {
    /// What a burst feels when memory is quiet, as a natural logarithm.
    pub level: f64,
    /// Standard deviation of a second of bursts about it.
    pub noise: f64,
    /// How often it was seen, up to some dozens.
    pub references: u32,
    /// How long ago it was last seen.
    pub age_ns: u64,
}

/// The level of references, and how they stray about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Baseline {
    level: f64,
    variance: f64,
    references: f64,
    /// Those seen since the start of this process.
    own: f64,
    seen_at_ns: u64,
    /// How old it was when it was adopted.
    older_ns: u64,
}

impl Baseline {
    pub(crate) fn starting(at_ns: u64, level: f64) -> Self {
        let variance = FIRST_NOISE * FIRST_NOISE;
        Self { level, variance, references: 1.0, own: 1.0, seen_at_ns: at_ns, older_ns: 0 }
    }

    pub(crate) fn adopted(at_ns: u64, known: Known) -> Self {
        Self {
            level: known.level,
            variance: known.noise * known.noise,
            references: f64::from(known.references).min(ADOPTED),
            own: 0.0,
            seen_at_ns: at_ns,
            older_ns: known.age_ns,
        }
    }

    /// Takes the level that all who probe this machine agreed on.
    pub(crate) fn agree(&mut self, known: Known) {
        (self.level, self.variance) = (known.level, known.noise * known.noise);
    }

    pub(crate) fn known(&self, at_ns: u64) -> Option<Known> {
        self.is_learnt().then(|| Known {
            level: self.level,
            noise: self.variance.sqrt(),
            references: self.references as u32,
            age_ns: self.age_ns(at_ns),
        })
    }

    pub(crate) fn is_learnt(&self) -> bool {
        self.references >= FEWEST
    }

    /// Whether it was seen by this process.
    pub(crate) fn is_own(&self) -> bool {
        self.own > 0.0
    }

    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    /// Standard deviation of a quiet median about the level.
    pub(crate) fn noise(&self) -> f64 {
        self.variance.sqrt()
    }

    /// How far the level itself may be off by now.
    pub(crate) fn doubt(&self, at_ns: u64) -> f64 {
        let age_s = self.age_ns(at_ns) as f64 * 1e-9;
        let placement = PLACEMENT / (1.0 + self.own);
        (DRIFT * (age_s / DRIFT_OVER_S).sqrt()).hypot(placement)
    }

    fn age_ns(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.seen_at_ns).saturating_add(self.older_ns)
    }

    /// Takes the median of a second of bursts during which nobody else ran.
    pub(crate) fn see(&mut self, at_ns: u64, median: f64) {
        let step_s = (self.age_ns(at_ns) as f64 * 1e-9).min(LONGEST_STEP_S);
        let off = median - self.level;
        let believed = BELIEVED * self.noise().max(FIRST_NOISE);
        let within = off.abs() <= believed || !self.is_learnt();
        let share = match (within, off < 0.0) {
            (true, _) => 1.0 / (self.references + 1.0).min(LEVEL_OVER),
            (false, true) => 1.0 - (-step_s / FALL_S).exp(),
            (false, false) => 1.0 - (-step_s / SURRENDER_S).exp(),
        };
        self.level += share * off;
        let stray = off.clamp(-believed, believed);
        let weight = (self.references + FIRST_WEIGHT).min(NOISE_OVER);
        self.variance += (stray * stray - self.variance) / weight;
        self.references = (self.references + 1.0).min(LEVEL_OVER);
        self.own += 1.0;
        (self.seen_at_ns, self.older_ns) = (at_ns, 0);
    }
}

/// The lowest level that was held for seconds, whoever else ran. It proves nothing quiet, but what is far above it is
/// contended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor {
    level: f64,
    updated_ns: u64,
}

impl Floor {
    pub(crate) fn starting(at_ns: u64, level: f64) -> Self {
        Self { level, updated_ns: at_ns }
    }

    pub(crate) fn level(&self) -> f64 {
        self.level
    }

    /// Noise to expect where none could be learnt: the floor lies at the lower edge of it.
    pub(crate) const NOISE: f64 = 0.05;

    pub(crate) fn follow(&mut self, at_ns: u64, median: f64) {
        let step_s = at_ns.saturating_sub(self.updated_ns) as f64 * 1e-9;
        self.updated_ns = at_ns;
        let off = median - self.level;
        let constant_s = if off < 0.0 { FALL_S } else { SURRENDER_S };
        self.level += off * (1.0 - (-step_s.min(LONGEST_STEP_S) / constant_s).exp());
    }
}
