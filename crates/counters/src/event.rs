use crosstalk_host::Vendor;
use perf_event_open_sys::bindings as perf;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A counter column of the `tasks` data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// CPU cycles.
    Cycles,
    /// Retired instructions.
    Instructions,
    /// Last-level-cache misses.
    LlcMisses,
}

impl Counter {
    /// In the order the programs count them.
    pub const ALL: [Self; 3] = [Self::Cycles, Self::Instructions, Self::LlcMisses];

    /// The column it fills.
    pub const fn column(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::LlcMisses => "llc_misses",
        }
    }
}

/// A perf event that a counter column can count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// What it is called.
    pub name: String,
    /// The perf event type (PERF_TYPE_*).
    #[serde(rename = "type")]
    pub kind: u32,
    /// The perf event configuration.
    pub config: u64,
}

/// Another event in a column's place, such as `llc_misses=raw:0x412e`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventOverride {
    /// The column.
    pub counter: Counter,
    /// The event counted in it.
    pub event: Event,
}

/// Why a text is not an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not COLUMN=EVENT; columns: cycles, instructions, llc_misses; events: cycles, \
     instructions, cache-misses, task-clock, cpu-clock, page-faults, context-switches, \
     cpu-migrations, raw:0xHEX"
)]
pub struct EventSyntaxError(String);

const NAMED: &[(&str, u32, u32)] = &[
    ("cycles", perf::PERF_TYPE_HARDWARE, perf::PERF_COUNT_HW_CPU_CYCLES),
    ("instructions", perf::PERF_TYPE_HARDWARE, perf::PERF_COUNT_HW_INSTRUCTIONS),
    ("cache-misses", perf::PERF_TYPE_HARDWARE, perf::PERF_COUNT_HW_CACHE_MISSES),
    ("cpu-clock", perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_CPU_CLOCK),
    ("task-clock", perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_TASK_CLOCK),
    ("page-faults", perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_PAGE_FAULTS),
    ("context-switches", perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_CONTEXT_SWITCHES),
    ("cpu-migrations", perf::PERF_TYPE_SOFTWARE, perf::PERF_COUNT_SW_CPU_MIGRATIONS),
];

impl Event {
    fn named(name: &str) -> Option<Self> {
        let &(name, kind, config) = NAMED.iter().find(|(known, ..)| *known == name)?;
        Some(Self { name: name.to_owned(), kind, config: config.into() })
    }

    fn raw(name: &str, config: u64) -> Self {
        Self { name: name.to_owned(), kind: perf::PERF_TYPE_RAW, config }
    }

    /// Whether the event needs a hardware PMU.
    pub const fn is_hardware(&self) -> bool {
        self.kind != perf::PERF_TYPE_SOFTWARE
    }

    /// The event that means `counter` on this vendor's processors.
    ///
    /// The kernel's generic cache-misses is a last-level miss on Intel only: on AMD it is an L2
    /// event, on Arm an L1 refill. So misses are asked for by their own event.
    pub fn for_vendor(counter: Counter, vendor: Vendor) -> Self {
        let generic = |name| Self::named(name).expect("the table holds the generic names");
        match (counter, vendor) {
            (Counter::Cycles, _) => generic("cycles"),
            (Counter::Instructions, _) => generic("instructions"),
            (Counter::LlcMisses, Vendor::Intel) => Self::raw("LONGEST_LAT_CACHE.MISS", 0x412e),
            // Data-cache fills from DRAM or IO; the L3 PMU is uncore and cannot be split by task.
            (Counter::LlcMisses, Vendor::Amd) => Self::raw("ls_any_fills_from_sys.dram_io", 0x4844),
            (Counter::LlcMisses, Vendor::Arm) => Self::raw("LL_CACHE_MISS_RD", 0x37),
            (Counter::LlcMisses, Vendor::Other) => generic("cache-misses"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == perf::PERF_TYPE_RAW {
            write!(f, "{} (raw {:#x})", self.name, self.config)
        } else {
            f.write_str(&self.name)
        }
    }
}

impl FromStr for EventOverride {
    type Err = EventSyntaxError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (column, event) = text.split_once('=')?;
            let counter = Counter::ALL.into_iter().find(|c| c.column() == column)?;
            let event = match event.strip_prefix("raw:") {
                Some(hex) => {
                    let digits = hex.strip_prefix("0x").unwrap_or(hex);
                    Event::raw(event, u64::from_str_radix(digits, 16).ok()?)
                }
                None => Event::named(event)?,
            };
            Some(Self { counter, event })
        };
        parse().ok_or_else(|| EventSyntaxError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vendor_counts_its_own_last_level_misses() {
        let config = |vendor| Event::for_vendor(Counter::LlcMisses, vendor).config;
        assert_eq!(config(Vendor::Intel), 0x412e);
        assert_eq!(config(Vendor::Amd), 0x4844);
        assert_eq!(config(Vendor::Arm), 0x37);
    }

    #[test]
    fn an_override_names_a_column_and_an_event() {
        let parsed: EventOverride = "llc_misses=raw:0x412e".parse().unwrap();
        assert_eq!((parsed.counter, parsed.event.config), (Counter::LlcMisses, 0x412e));
        let parsed: EventOverride = "cycles=task-clock".parse().unwrap();
        assert!(!parsed.event.is_hardware());
        for bad in ["", "cycles", "cycles=", "speed=cycles", "cycles=raw:zz", "cycles=warp"] {
            assert!(bad.parse::<EventOverride>().is_err(), "{bad}");
        }
    }
}
