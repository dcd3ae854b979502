//! The one clock of a process: what Unix time a kernel time is, and when that was changed under us.

use crate::process::TICK_NS;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SECOND: u64 = 1_000_000_000;
/// Tries at reading the clocks close together.
const TRIES: usize = 200;
/// A change below this is the spread of two measurements.
const NOISE_NS: i64 = 100_000;
/// Changes kept one by one; more of them are only counted.
const MOST_STEPS: usize = 1_000;

/// CLOCK_MONOTONIC, which the kernel programs use too.
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// The kernel's clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReadings {
    /// CLOCK_REALTIME: Unix time, which can be set.
    pub realtime_ns: u64,
    /// CLOCK_MONOTONIC: never set, and stands still while the machine is suspended.
    pub monotonic_ns: u64,
    /// CLOCK_BOOTTIME: never set, and goes on.
    pub boottime_ns: u64,
}

impl ClockReadings {
    /// Reads them close together: the tightest of many tries.
    #[must_use]
    pub fn now() -> Self {
        let one = |_| {
            let before = monotonic_ns();
            let (realtime_ns, boottime_ns) =
                (nanoseconds(ClockId::Realtime), nanoseconds(ClockId::Boottime));
            let after = monotonic_ns();
            (
                after - before,
                Self { realtime_ns, monotonic_ns: before.midpoint(after), boottime_ns },
            )
        };
        (0..TRIES).map(one).min_by_key(|(spread, _)| *spread).unwrap_or_default().1
    }

    /// How far Unix time is ahead of the time since boot: changes when the clock is set.
    fn set_by(&self) -> i64 {
        self.realtime_ns.wrapping_sub(self.boottime_ns) as i64
    }

    /// How long the machine has been suspended since boot.
    fn suspended_for(&self) -> i64 {
        self.boottime_ns.wrapping_sub(self.monotonic_ns) as i64
    }
}

/// What made Unix time and this clock differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockStepKind {
    /// Somebody set the clock. Slewing, as NTP does it, moves all clocks alike and is none.
    Step,
    /// The machine was suspended: no time passed on this clock.
    Suspend,
}

/// From here on, Unix time is ahead of this clock by so much more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ClockStep {
    /// When it was noticed, on this clock: Unix ns as everything recorded has them.
    pub at_unix_ns: u64,
    /// By how much; negative where the clock was set back.
    pub by_ns: i64,
    /// What happened.
    pub kind: ClockStepKind,
}

/// Unix time as CLOCK_MONOTONIC plus an offset that is measured once. A clock that is set meanwhile moves no slot and
/// makes no process another; what changed is kept in [`steps`](Self::steps). Clones are the same clock.
///
/// ```
/// use crosstalk_host::{Clock, monotonic_ns};
///
/// let clock = Clock::measure();
/// assert!(clock.unix_ns(monotonic_ns()) <= clock.now_unix_ns());
/// assert_eq!(clock.process_start_ns(123_456_789), clock.process_start_ns(120_000_000));
/// ```
#[derive(Clone, Debug)]
pub struct Clock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    realtime_minus_monotonic_ns: u64,
    boot_unix_ns: u64,
    seen: Mutex<Seen>,
}

/// What was known at the last look.
#[derive(Debug)]
struct Seen {
    set_by: i64,
    suspended_for: i64,
    steps: Vec<ClockStep>,
    unlisted: u64,
    ahead_ns: i64,
}

impl Default for Clock {
    fn default() -> Self {
        Self::measure()
    }
}

/// Two that were measured apart and agree are as good as one.
impl PartialEq for Clock {
    fn eq(&self, other: &Self) -> bool {
        let offsets = |clock: &Self| (clock.0.realtime_minus_monotonic_ns, clock.0.boot_unix_ns);
        offsets(self) == offsets(other)
    }
}

impl Clock {
    /// Measures the offsets. A process does this once and hands out clones.
    #[must_use]
    pub fn measure() -> Self {
        Self::of(ClockReadings::now())
    }

    /// The clock of which these are readings.
    #[must_use]
    pub fn of(now: ClockReadings) -> Self {
        const MS: u64 = 1_000_000;
        let boot = now.realtime_ns.saturating_sub(now.boottime_ns);
        Self(Arc::new(Shared {
            realtime_minus_monotonic_ns: now.realtime_ns.saturating_sub(now.monotonic_ns),
            // Rounded so that two processes that measure it mostly agree.
            boot_unix_ns: (boot + MS / 2) / MS * MS,
            seen: Mutex::new(Seen {
                set_by: now.set_by(),
                suspended_for: now.suspended_for(),
                steps: Vec::new(),
                unlisted: 0,
                ahead_ns: 0,
            }),
        }))
    }

    /// CLOCK_REALTIME minus CLOCK_MONOTONIC when it was measured.
    #[must_use]
    pub fn offset_ns(&self) -> u64 {
        self.0.realtime_minus_monotonic_ns
    }

    /// The Unix time of a CLOCK_MONOTONIC time.
    #[must_use]
    pub fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add(self.0.realtime_minus_monotonic_ns)
    }

    /// The Unix time of this moment, on this clock.
    #[must_use]
    pub fn now_unix_ns(&self) -> u64 {
        self.unix_ns(monotonic_ns())
    }

    /// The Unix time of a process start given in ns since boot, in the steps of 10 ms that `/proc` shows.
    #[must_use]
    pub fn process_start_ns(&self, start_boottime_ns: u64) -> u64 {
        self.0.boot_unix_ns.saturating_add(start_boottime_ns / TICK_NS * TICK_NS)
    }

    /// Sleeps until a time on this clock.
    pub fn sleep_until(&self, unix_ns: u64) {
        let at = unix_ns.saturating_sub(self.0.realtime_minus_monotonic_ns);
        let (Ok(tv_sec), Ok(tv_nsec)) = ((at / SECOND).try_into(), (at % SECOND).try_into()) else {
            return;
        };
        let at = Timespec { tv_sec, tv_nsec };
        while clock_nanosleep_absolute(ClockId::Monotonic, &at) == Err(rustix::io::Errno::INTR) {}
    }

    /// Looks whether the clock was set or the machine suspended since the last look; answers what is new.
    pub fn look(&self) -> Vec<ClockStep> {
        self.notice(ClockReadings::now())
    }

    /// As [`look`](Self::look), with the readings given.
    pub fn notice(&self, now: ClockReadings) -> Vec<ClockStep> {
        let at_unix_ns = self.unix_ns(now.monotonic_ns);
        let mut guard = self.seen();
        let seen = &mut *guard;
        let (set_by, suspended_for) = (now.set_by(), now.suspended_for());
        let mut new = Vec::new();
        for (known, found, kind) in [
            (&mut seen.suspended_for, suspended_for, ClockStepKind::Suspend),
            (&mut seen.set_by, set_by, ClockStepKind::Step),
        ] {
            let by_ns = found.wrapping_sub(*known);
            if by_ns.unsigned_abs() >= NOISE_NS.unsigned_abs() {
                *known = found;
                seen.ahead_ns = seen.ahead_ns.saturating_add(by_ns);
                new.push(ClockStep { at_unix_ns, by_ns, kind });
            }
        }
        let room = MOST_STEPS - seen.steps.len();
        seen.steps.extend(new.iter().take(room));
        seen.unlisted += new.len().saturating_sub(room) as u64;
        new
    }

    /// What was noticed so far, the first thousand.
    #[must_use]
    pub fn steps(&self) -> Vec<ClockStep> {
        self.seen().steps.clone()
    }

    /// How many more were noticed than [`steps`](Self::steps) holds.
    #[must_use]
    pub fn unlisted_steps(&self) -> u64 {
        self.seen().unlisted
    }

    /// How far Unix time was ahead of this clock at the last look: the sum of all steps.
    #[must_use]
    pub fn ahead_ns(&self) -> i64 {
        self.seen().ahead_ns
    }

    /// Plain values are whole even if a thread died while it held them.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Serialize for Clock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seen = self.seen();
        let mut clock = serializer.serialize_struct("Clock", 4)?;
        clock.serialize_field("realtime_minus_monotonic_ns", &self.offset_ns())?;
        clock.serialize_field("boot_unix_ns", &self.0.boot_unix_ns)?;
        clock.serialize_field("steps", &seen.steps)?;
        clock.serialize_field("unlisted_steps", &seen.unlisted)?;
        clock.end()
    }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * SECOND + time.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: ClockReadings = ClockReadings {
        realtime_ns: 1_000 * SECOND,
        monotonic_ns: 90 * SECOND,
        boottime_ns: 100 * SECOND,
    };

    /// The readings after some seconds awake, some suspended, and a clock set forward by some.
    fn later(awake: i64, suspended: i64, set: i64) -> ClockReadings {
        let add = |from: u64, seconds: i64| from.wrapping_add_signed(seconds * SECOND as i64);
        ClockReadings {
            realtime_ns: add(BEGIN.realtime_ns, awake + suspended + set),
            monotonic_ns: add(BEGIN.monotonic_ns, awake),
            boottime_ns: add(BEGIN.boottime_ns, awake + suspended),
        }
    }

    #[test]
    fn two_measurements_agree_to_a_few_microseconds_and_name_the_same_boot() {
        let (a, b) = (Clock::measure(), Clock::measure());
        assert!(a.offset_ns().abs_diff(b.offset_ns()) < 20_000);
        assert!(a.0.boot_unix_ns.abs_diff(b.0.boot_unix_ns) <= 1_000_000);
        assert!(a.look().is_empty(), "nothing was set meanwhile");
    }

    #[test]
    fn a_process_start_is_the_one_proc_shows_whatever_happens_to_the_clock() {
        let clock = Clock::of(BEGIN);
        let start = clock.process_start_ns(123_456_789);
        assert_eq!(start, 900 * SECOND + 120_000_000);
        clock.notice(later(10, 0, 5));
        assert_eq!(clock.process_start_ns(123_456_789), start);
        assert_eq!(clock.unix_ns(BEGIN.monotonic_ns), BEGIN.realtime_ns);
    }

    #[test]
    fn a_clock_that_is_set_is_told_from_a_machine_that_slept() {
        let clock = Clock::of(BEGIN);
        assert_eq!(clock.notice(later(10, 0, 0)), []);
        let set = ClockStep {
            at_unix_ns: 1_020 * SECOND,
            by_ns: -3 * SECOND as i64,
            kind: ClockStepKind::Step,
        };
        assert_eq!(clock.notice(later(20, 0, -3)), [set]);
        assert_eq!(clock.notice(later(30, 0, -3)), [], "told once");
        let slept = ClockStep {
            at_unix_ns: 1_040 * SECOND,
            by_ns: 60 * SECOND as i64,
            kind: ClockStepKind::Suspend,
        };
        assert_eq!(clock.clone().notice(later(40, 60, -3)), [slept]);
        assert_eq!(clock.steps(), [set, slept]);
        assert_eq!(clock.ahead_ns(), 57 * SECOND as i64);
    }

    #[test]
    fn steps_beyond_the_bound_are_counted() {
        let clock = Clock::of(BEGIN);
        for n in 1..=MOST_STEPS as i64 + 5 {
            clock.notice(later(n, 0, n));
        }
        assert_eq!((clock.steps().len(), clock.unlisted_steps()), (MOST_STEPS, 5));
        let told = serde_json::to_value(&clock).unwrap();
        assert_eq!(told["steps"][0]["kind"], "step");
        assert_eq!(told["unlisted_steps"], 5);
    }

    #[test]
    fn sleeping_ends_at_the_time_and_not_before() {
        let clock = Clock::measure();
        let until = clock.now_unix_ns() + 2_000_000;
        clock.sleep_until(until);
        assert!(clock.now_unix_ns() >= until);
        clock.sleep_until(0);
    }
}
