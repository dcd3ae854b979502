//! A row of `tasks` while it waits for the rest of its slot.

use crosstalk_interference::{Activity, Subject};

/// An [`Activity`] in little more than a third of the room. Two seconds of rows wait, each in its own slot's memory, and
/// fetching that memory is most of what waiting costs. Sums of many rows need no more than the seven digits kept here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Brief {
    subject: u32,
    core: u32,
    on_cpu_ns: f32,
    voluntary_switches: u32,
    /// 0 is absent: no core stands still and runs somebody.
    freq_mhz: u32,
    /// Not a number is absent, here and below.
    wait_ns: f32,
    cycles: f32,
    instructions: f32,
    llc_misses: f32,
}

fn short(value: Option<u64>) -> f32 {
    value.map_or(f32::NAN, |value| value as f32)
}

fn long(value: f32) -> Option<u64> {
    (!value.is_nan()).then_some(value as u64)
}

impl From<Activity> for Brief {
    #[inline]
    fn from(activity: Activity) -> Self {
        Self {
            subject: activity.subject.0,
            core: activity.core,
            on_cpu_ns: activity.on_cpu_ns as f32,
            voluntary_switches: activity.voluntary_switches,
            freq_mhz: activity.freq_mhz.unwrap_or(0),
            wait_ns: short(activity.wait_ns),
            cycles: short(activity.cycles),
            instructions: short(activity.instructions),
            llc_misses: short(activity.llc_misses),
        }
    }
}

impl From<&Brief> for Activity {
    #[inline]
    fn from(brief: &Brief) -> Self {
        Self {
            wait_ns: long(brief.wait_ns),
            voluntary_switches: brief.voluntary_switches,
            cycles: long(brief.cycles),
            instructions: long(brief.instructions),
            llc_misses: long(brief.llc_misses),
            freq_mhz: Some(brief.freq_mhz).filter(|mhz| *mhz > 0),
            ..Self::new(Subject(brief.subject), brief.core, brief.on_cpu_ns as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_is_what_went_in_to_seven_digits_and_absent_stays_absent() {
        let bare = Activity::new(Subject(7), 3, 999_999);
        assert_eq!(Activity::from(&Brief::from(bare)), bare);
        let full = Activity {
            wait_ns: Some(12_345_678_901),
            voluntary_switches: 5,
            cycles: Some(0),
            instructions: Some(4_000_000_001),
            llc_misses: Some(77),
            freq_mhz: Some(3_100),
            ..bare
        };
        let back = Activity::from(&Brief::from(full));
        assert_eq!(
            Activity { wait_ns: full.wait_ns, instructions: full.instructions, ..back },
            full
        );
        for (one, other) in [(back.wait_ns, full.wait_ns), (back.instructions, full.instructions)] {
            let (one, other) = (one.unwrap() as f64, other.unwrap() as f64);
            assert!((one / other - 1.0).abs() < 1e-7, "{one} {other}");
        }
        assert_eq!(size_of::<(u64, Brief)>(), 48);
    }
}
