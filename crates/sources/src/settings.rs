use crate::Filter;
use crosstalk_counters::{EventOverride, Tick};
use crosstalk_host::HostRoot;
use crosstalk_inventory::Inventory;
use crosstalk_model::SlotLength;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Whether a source is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Where the machine has what it needs.
    #[default]
    Auto,
    /// Always; what it lacks is an error, and tried again and again.
    On,
    /// Never.
    Off,
}

/// What all sources are told. The default measures all it can, and makes no groups in resctrl.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the host's `/proc` and `/sys` are.
    pub host: HostRoot,
    /// The length of a slot.
    pub slot: SlotLength,
    /// How often the node is sampled.
    pub sampling: Sampling,
    /// How often subjects are sampled; `None` follows none.
    pub subjects: Option<Duration>,
    /// Whose rows are kept.
    pub filter: Filter,
    /// Whether sources are used, by name ([`Wired::key`](crate::Wired::key)). It wins over the mode that some have among
    /// settings of their own; one that is named in neither is used where the machine has what it needs.
    pub modes: BTreeMap<String, Mode>,
    /// What containers and pods are called.
    pub inventory: Inventory,
    /// eBPF and perf events.
    pub counters: Counters,
    /// Cache and memory traffic by process, in monitor groups of our own.
    pub cache: Cache,
    /// The memory probe.
    pub probe: Probe,
    /// How often pressure is read, and whether.
    pub pressure: Pressure,
    /// Cold memory, and whether it is looked for.
    pub coldmem: ColdMemory,
    /// Cache and memory traffic of the node, from the groups there are.
    pub cache_totals: CacheTotals,
    /// Intel PCM.
    pub pcm: Pcm,
}

impl Settings {
    /// How often the counters are fetched: less often makes answers older, more often costs more.
    pub fn fetch_every(&self) -> Duration {
        Duration::from_millis(if self.slot.nanos() < 10_000_000 { 50 } else { 100 })
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            host: HostRoot::default(),
            slot: SlotLength::MILLISECOND,
            sampling: Sampling::default(),
            subjects: Some(Duration::from_secs(1)),
            filter: Filter::default(),
            modes: BTreeMap::new(),
            inventory: Inventory::new(Duration::ZERO),
            counters: Counters::default(),
            cache: Cache::default(),
            probe: Probe::default(),
            pressure: Pressure::default(),
            coldmem: ColdMemory::default(),
            cache_totals: CacheTotals::default(),
            pcm: Pcm::default(),
        }
    }
}

/// How often the node is sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Time between samples.
    pub period: Duration,
    /// Whether the period follows how much values move.
    pub adaptive: bool,
    /// Shortest adaptive period.
    pub fastest: Duration,
    /// Longest adaptive period.
    pub slowest: Duration,
    /// Share of one core a source may cost before its adaptive rate is held back.
    pub budget: f64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(1),
            adaptive: false,
            fastest: Duration::from_millis(100),
            slowest: Duration::from_secs(5),
            budget: 0.01,
        }
    }
}

impl Sampling {
    /// The shortest time between samples there can be, which sizes buffers.
    pub fn shortest(&self) -> Duration {
        if self.adaptive { self.fastest } else { self.period }
    }
}

/// The eBPF counters.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Whether they are used.
    pub mode: Mode,
    /// Whether a timer closes the slots of busy cores.
    pub tick: Tick,
    /// Other events in the counters' places.
    pub events: Vec<EventOverride>,
    /// Whether run-queue wait and migrations are followed.
    pub runq: bool,
    /// The size of the ring to user space; `None` chooses.
    pub ring_bytes: Option<u32>,
}

impl Default for Counters {
    fn default() -> Self {
        let (mode, tick) = (Mode::Auto, Tick::Auto);
        Self { mode, tick, events: Vec::new(), runq: true, ring_bytes: None }
    }
}

/// Cache and memory traffic by process.
#[derive(Clone, Debug)]
pub struct Cache {
    /// Whether it is read. Off unless asked for: its monitor groups take RMIDs from other tools.
    pub mode: Mode,
    /// Where resctrl is mounted; `None` looks for it.
    pub root: Option<PathBuf>,
    /// Share of one core that reading may take.
    pub cpu_share: f64,
    /// How often it is read, if not once a slot.
    pub every: Option<SlotLength>,
}

impl Default for Cache {
    fn default() -> Self {
        Self { mode: Mode::Off, root: None, cpu_share: 0.05, every: None }
    }
}

/// The memory probe.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Whether it is used.
    pub mode: Mode,
    /// Share of one core it may cost; `None` takes the probe's own.
    pub cpu_share: Option<f64>,
    /// The folder in which what memory is like at rest is kept from one run to the next; `None` keeps nothing.
    pub state: Option<PathBuf>,
}

impl Default for Probe {
    fn default() -> Self {
        Self { mode: Mode::Auto, cpu_share: None, state: None }
    }
}

/// The folder for what is kept from one run to the next: the one that was named, the one systemd made for this service,
/// or the usual one.
pub fn state_folder(named: Option<PathBuf>) -> PathBuf {
    choose_folder(named, std::env::var_os("STATE_DIRECTORY"))
}

fn choose_folder(named: Option<PathBuf>, of_service: Option<OsString>) -> PathBuf {
    // systemd separates several folders by colons.
    let of_service = of_service.and_then(|all| std::env::split_paths(&all).next());
    let given = |folder: &PathBuf| !folder.as_os_str().is_empty();
    named.filter(given).or(of_service.filter(given)).unwrap_or_else(|| "/var/lib/crosstalk".into())
}

/// Pressure by cgroup.
#[derive(Clone, Debug)]
pub struct Pressure {
    /// Whether it is read.
    pub mode: Mode,
    /// Time between looks.
    pub period: Duration,
}

impl Default for Pressure {
    fn default() -> Self {
        Self { mode: Mode::Auto, period: Duration::from_secs(1) }
    }
}

/// Cold memory by cgroup.
#[derive(Clone, Debug)]
pub struct ColdMemory {
    /// Whether it is looked for.
    pub mode: Mode,
    /// Time between looks.
    pub period: Duration,
    /// The back end, and when memory is cold.
    pub choice: crosstalk_coldmem::Choice,
}

impl Default for ColdMemory {
    fn default() -> Self {
        let choice = crosstalk_coldmem::Choice::default();
        Self { mode: Mode::Auto, period: Duration::from_secs(60), choice }
    }
}

/// Cache and memory traffic of the node.
#[derive(Clone, Debug, Default)]
pub struct CacheTotals {
    /// Whether it is read.
    pub mode: Mode,
    /// Where resctrl is mounted; `None` looks for it.
    pub root: Option<PathBuf>,
}

/// Intel PCM.
#[derive(Clone, Debug)]
pub struct Pcm {
    /// Whether it is used.
    pub mode: Mode,
    /// The program.
    pub command: String,
    /// Its arguments; empty means those it needs.
    pub args: Vec<String>,
    /// The program for the memory controllers; empty leaves it out.
    pub memory_command: String,
    /// Address of a running `pcm-sensor-server`; empty runs the program.
    pub sensor_server: String,
    /// How often it prints.
    pub interval: Duration,
}

impl Default for Pcm {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            command: "pcm".to_owned(),
            args: Vec::new(),
            memory_command: String::new(),
            sensor_server: String::new(),
            interval: Duration::from_secs(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_goes_where_it_was_told_to_then_where_systemd_says_then_where_it_usually_is() {
        let service = || Some(OsString::from("/run/a:/run/b"));
        assert_eq!(choose_folder(Some("x".into()), service()), PathBuf::from("x"));
        assert_eq!(choose_folder(None, service()), PathBuf::from("/run/a"));
        assert_eq!(choose_folder(Some("".into()), service()), PathBuf::from("/run/a"));
        assert_eq!(choose_folder(None, Some(OsString::new())), PathBuf::from("/var/lib/crosstalk"));
        assert_eq!(choose_folder(None, None), PathBuf::from("/var/lib/crosstalk"));
    }
}
