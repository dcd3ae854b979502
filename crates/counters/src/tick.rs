use crosstalk_host::Kernel;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Whether a timer of our own closes the slots of busy cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tick {
    /// Only when a hardware counter is open: time alone is split at slot edges by arithmetic.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: counters are read at context switches and divided over slots by time.
    Off,
}

impl FromStr for Tick {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            other => Err(format!("\"{other}\" is not one of auto, on, off")),
        }
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        })
    }
}

/// What was decided about the tick, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TickState {
    /// Whether it runs.
    pub on: bool,
    /// The reason.
    pub because: &'static str,
}

impl Tick {
    /// Decides from what was asked, what is counted and what the kernel can do.
    pub(crate) fn decide(self, hardware_counters: bool, kernel: &Kernel) -> TickState {
        let (on, because) = match self {
            Self::Off => (false, "switched off"),
            Self::Auto if !hardware_counters => {
                (false, "no hardware counter is open, and time needs no tick")
            }
            // On PREEMPT_RT a timer callback can itself be switched out half-way.
            _ if kernel.is_realtime() => (false, "the kernel is PREEMPT_RT"),
            _ if !has_pinned_timers(kernel) => (false, "pinned BPF timers need Linux 6.7"),
            Self::Auto => (true, "hardware counters are read at slot edges"),
            Self::On => (true, "switched on"),
        };
        TickState { on, because }
    }
}

fn has_pinned_timers(kernel: &Kernel) -> bool {
    let Some(release) = &kernel.release else { return false };
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>());
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6, 7),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(release: &str, version: &str) -> Kernel {
        Kernel { release: Some(release.into()), version: Some(version.into()), ..Kernel::default() }
    }

    #[test]
    fn without_hardware_counters_no_timer_runs_unless_asked_for() {
        let k = kernel("6.18.1", "#1 SMP PREEMPT_DYNAMIC");
        assert!(!Tick::Auto.decide(false, &k).on);
        assert!(Tick::Auto.decide(true, &k).on);
        assert!(Tick::On.decide(false, &k).on);
        assert!(!Tick::Off.decide(true, &k).on);
    }

    #[test]
    fn a_kernel_that_cannot_pin_timers_gets_none() {
        assert!(!Tick::On.decide(true, &kernel("6.6.12", "#1 SMP")).on);
        assert!(!Tick::On.decide(true, &kernel("6.12.0", "#1 SMP PREEMPT_RT")).on);
        assert!(!Tick::On.decide(true, &Kernel::default()).on);
    }
}
