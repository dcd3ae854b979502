//! A core's frequency where cycles are not counted.

use crosstalk_host::{Cpu, HostRoot};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Where `freq_mhz` comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FrequencySource {
    /// Counted cycles over time on the core: exact for the slot.
    Cycles,
    /// `scaling_cur_freq`, read every 200 ms.
    ScalingCurFreq,
    /// Nothing here tells it; the column is empty.
    None,
}

const EVERY: Duration = Duration::from_millis(200);

/// The last frequency read of every core.
#[derive(Debug)]
pub(crate) struct Frequencies {
    host: HostRoot,
    source: FrequencySource,
    mhz: Vec<Option<u32>>,
    read_at: Option<Instant>,
}

impl Frequencies {
    pub(crate) fn new(host: &HostRoot, cycles_counted: bool, possible: u32) -> Self {
        let source = if cycles_counted {
            FrequencySource::Cycles
        } else if (0..possible).any(|core| Cpu::current_mhz(host, core).is_some()) {
            FrequencySource::ScalingCurFreq
        } else {
            FrequencySource::None
        };
        Self { host: host.clone(), source, mhz: vec![None; possible as usize], read_at: None }
    }

    pub(crate) fn source(&self) -> FrequencySource {
        self.source
    }

    /// Reads the frequencies again when they are due.
    pub(crate) fn refresh(&mut self) {
        let due = self.read_at.is_none_or(|at| at.elapsed() >= EVERY);
        if self.source == FrequencySource::ScalingCurFreq && due {
            for core in 0..self.mhz.len() {
                self.mhz[core] = Cpu::current_mhz(&self.host, core as u32);
            }
            self.read_at = Some(Instant::now());
        }
    }

    /// The frequency of `core` while it counted `cycles` in `on_cpu_ns`.
    pub(crate) fn of(&self, core: u32, cycles: Option<u64>, on_cpu_ns: u64) -> Option<u32> {
        /// Below this the time of the reads themselves is a visible part of the quotient.
        const TELLING_NS: u64 = 10_000;
        match self.source {
            FrequencySource::Cycles if on_cpu_ns >= TELLING_NS => {
                u32::try_from(cycles?.saturating_mul(1000) / on_cpu_ns).ok()
            }
            FrequencySource::ScalingCurFreq => self.mhz.get(core as usize).copied().flatten(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_over_time_is_the_frequency_and_a_moment_too_short_has_none() {
        let counted = Frequencies::new(&HostRoot::default(), true, 1);
        assert_eq!(counted.of(0, Some(3_200_000), 1_000_000), Some(3200));
        assert_eq!(counted.of(0, Some(3_200), 1_000), None);
        assert_eq!(counted.of(0, None, 1_000_000), None);
    }

    #[test]
    fn without_cycles_the_kernel_is_asked_and_absence_stays_absent() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sys/devices/system/cpu/cpu1/cpufreq");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("scaling_cur_freq"), "2450000\n").unwrap();
        let mut asked = Frequencies::new(&HostRoot::new(dir.path()), false, 2);
        asked.refresh();
        assert_eq!(asked.source(), FrequencySource::ScalingCurFreq);
        assert_eq!((asked.of(1, None, 5), asked.of(0, None, 5)), (Some(2450), None));
    }
}
