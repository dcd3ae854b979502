//! Ties monotonic time to Unix time.

/// What the wall clock did since it was last looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockStep {
    /// It advanced with the monotonic clock, within the tolerance.
    Steady,
    /// It was set forward by this many nanoseconds.
    Forward(u64),
    /// It was set back by this many nanoseconds.
    Backward(u64),
}

/// The offset between a monotonic clock and Unix time, and the steps it took.
///
/// Windows are cut in monotonic time, so a step changes only the dates on answers, never their
/// content. Slow drift (NTP slewing) below the tolerance per look is followed silently.
///
/// ```
/// use crosstalk_window::{ClockStep, Timeline};
///
/// let mut timeline = Timeline::new(1_000, 1_690_000_000_000_000_000);
/// assert_eq!(timeline.look(2_000, 1_690_000_000_000_001_000), ClockStep::Steady);
/// // Someone sets the clock back one hour.
/// let hour = 3_600_000_000_000;
/// assert_eq!(timeline.look(3_000, 1_690_000_000_000_002_000 - hour), ClockStep::Backward(hour));
/// assert_eq!(timeline.unix_ns(3_000), 1_690_000_000_000_002_000 - hour);
/// assert_eq!(timeline.steps(), 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    /// Unix time minus monotonic time. Wide enough for any pair of clocks.
    offset_ns: i128,
    steps: u64,
}

/// Two clocks are never read at the same instant; a preempted thread can be this late between.
const TOLERANCE_NS: u64 = 50_000_000;

impl Timeline {
    /// Starts from one pair of readings of both clocks.
    #[must_use]
    pub fn new(monotonic_ns: u64, unix_ns: u64) -> Self {
        Self { offset_ns: i128::from(unix_ns) - i128::from(monotonic_ns), steps: 0 }
    }

    /// Takes a new pair of readings, adopts it, and says whether the wall clock stepped.
    pub fn look(&mut self, monotonic_ns: u64, unix_ns: u64) -> ClockStep {
        let offset_ns = i128::from(unix_ns) - i128::from(monotonic_ns);
        let moved = offset_ns - self.offset_ns;
        self.offset_ns = offset_ns;
        let size = u64::try_from(moved.unsigned_abs()).unwrap_or(u64::MAX);
        if size <= TOLERANCE_NS {
            return ClockStep::Steady;
        }
        self.steps += 1;
        if moved > 0 { ClockStep::Forward(size) } else { ClockStep::Backward(size) }
    }

    /// Unix time of a monotonic instant, by the clock as it stands now.
    #[must_use]
    pub fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        (i128::from(monotonic_ns) + self.offset_ns).clamp(0, i128::from(u64::MAX)) as u64
    }

    /// Monotonic instant of a Unix time, by the clock as it stands now.
    #[must_use]
    pub fn monotonic_ns(&self, unix_ns: u64) -> u64 {
        (i128::from(unix_ns) - self.offset_ns).clamp(0, i128::from(u64::MAX)) as u64
    }

    /// How often the wall clock stepped.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_forward_is_told_once_and_then_is_the_new_normal() {
        let mut timeline = Timeline::new(0, 1_000_000_000_000);
        let minute = 60_000_000_000;
        assert_eq!(timeline.look(5, 1_000_000_000_005 + minute), ClockStep::Forward(minute));
        assert_eq!(timeline.look(9, 1_000_000_000_009 + minute), ClockStep::Steady);
        assert_eq!(timeline.steps(), 1);
        assert_eq!(timeline.monotonic_ns(timeline.unix_ns(77)), 77);
    }

    #[test]
    fn times_before_either_epoch_clamp_instead_of_wrapping() {
        let timeline = Timeline::new(100, 50);
        assert_eq!(timeline.unix_ns(20), 0);
        assert_eq!(Timeline::new(0, 100).monotonic_ns(20), 0);
    }
}
