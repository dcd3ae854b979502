use serde::Serialize;

/// How the kernel's clocks relate to Unix time on this machine, measured once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Clocks {
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC, ns: turns kernel event times into Unix time.
    pub realtime_minus_monotonic_ns: u64,
    /// CLOCK_REALTIME minus CLOCK_BOOTTIME, ns, rounded to 1 ms so that two measurements agree:
    /// the Unix time of the boot.
    pub boot_unix_ns: u64,
}

/// User space sees process start times in steps of 1 / USER_HZ, which is 100 on every Linux.
const START_STEP_NS: u64 = 10_000_000;

impl Clocks {
    /// Measures the offsets.
    pub fn measure() -> Self {
        const MS: u64 = 1_000_000;
        let boot = offset(libc::CLOCK_BOOTTIME);
        Self {
            realtime_minus_monotonic_ns: offset(libc::CLOCK_MONOTONIC),
            boot_unix_ns: (boot + MS / 2) / MS * MS,
        }
    }

    /// The Unix time of a process start given in ns since boot.
    pub const fn process_start_ns(&self, start_boottime_ns: u64) -> u64 {
        self.boot_unix_ns + start_boottime_ns / START_STEP_NS * START_STEP_NS
    }

    /// The Unix time of a CLOCK_MONOTONIC time.
    pub const fn unix_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns + self.realtime_minus_monotonic_ns
    }
}

/// CLOCK_MONOTONIC now.
pub(crate) fn monotonic_ns() -> u64 {
    now(libc::CLOCK_MONOTONIC)
}

fn now(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid timespec the kernel fills; the clocks used exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CLOCK_REALTIME minus `clock`: the tightest of many bracketed readings.
fn offset(clock: libc::clockid_t) -> u64 {
    (0..200)
        .map(|_| {
            let before = now(clock);
            let real = now(libc::CLOCK_REALTIME);
            let after = now(clock);
            (after - before, real - (before + after) / 2)
        })
        .min()
        .map_or(0, |(_, offset)| offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_measurements_agree_to_a_microsecond_and_name_the_same_boot() {
        let (a, b) = (Clocks::measure(), Clocks::measure());
        assert!(a.realtime_minus_monotonic_ns.abs_diff(b.realtime_minus_monotonic_ns) < 20_000);
        assert!(a.boot_unix_ns.abs_diff(b.boot_unix_ns) <= 1_000_000);
    }

    #[test]
    fn a_process_start_is_the_one_proc_shows() {
        let clocks = Clocks { realtime_minus_monotonic_ns: 0, boot_unix_ns: 7_000_000 };
        assert_eq!(clocks.process_start_ns(123_456_789), 7_000_000 + 120_000_000);
    }
}
