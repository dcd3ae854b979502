//! What the agent is told: a commented TOML file, the environment, and flags.

mod load;
mod place;
mod quantity;

pub use load::{Overrides, load};
pub use quantity::{Mode, Period};

use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The sample file: every key with its default and what it means.
pub const SAMPLE: &str = include_str!("sample.toml");

/// The whole configuration. Its keys are explained in [`SAMPLE`].
///
/// ```
/// use crosstalk_agent::config::Config;
///
/// let config = Config::default();
/// assert!(config.listen.ip().is_loopback());
/// assert_eq!(config.sampling.period.get().as_secs(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where to answer HTTP.
    pub listen: SocketAddr,
    /// Where the host's `/proc` and `/sys` are.
    pub host_root: PathBuf,
    /// How the node is sampled.
    pub sampling: Sampling,
    /// How processes, containers and pods are followed.
    pub subjects: Subjects,
    /// Bounds of the HTTP server.
    pub http: Http,
    /// The sources.
    pub sources: Sources,
    /// Whether readings are also written to files.
    pub recording: Recording,
}

/// How the node is sampled.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// Time between samples.
    pub period: Period,
    /// How far back windows can reach.
    pub retention: Period,
    /// Whether the period follows how much values move.
    pub adaptive: bool,
    /// Shortest adaptive period.
    pub fastest: Period,
    /// Longest adaptive period.
    pub slowest: Period,
    /// Share of one core a source may cost before its adaptive rate is held back.
    pub budget: f64,
}

/// How processes, containers and pods are followed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Subjects {
    /// Whether they are.
    pub enabled: bool,
    /// Time between their samples.
    pub period: Period,
    /// How many of each kind at most.
    pub limit: usize,
    /// How many of each kind Prometheus is shown.
    pub prometheus_limit: usize,
}

/// Bounds of the HTTP server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Connections at once.
    pub connections: usize,
    /// How long a request may take to arrive.
    pub read_timeout: Period,
    /// How long a client may take nothing of its answer.
    pub write_timeout: Period,
}

/// The sources.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sources {
    /// eBPF and perf events.
    pub counters: Counters,
    /// Node and processes from `/proc`.
    pub proc: Switch,
    /// Containers and pods from cgroup files.
    pub cgroup: Switch,
    /// Intel PCM.
    pub pcm: Pcm,
    /// Cache and memory traffic from resctrl.
    pub resctrl: Resctrl,
    /// The probe.
    pub probe: Probe,
}

/// A source with nothing to set but whether it is used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Switch {
    /// Whether it is used.
    pub mode: Mode,
}

/// The eBPF counters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Counters {
    /// Whether they are used.
    pub mode: Mode,
    /// Slot length; `None` (`"auto"`) chooses.
    #[serde(deserialize_with = "quantity::auto")]
    pub slot: Option<Period>,
}

/// Intel PCM.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
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
    pub interval: Period,
}

/// resctrl.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resctrl {
    /// Whether it is used.
    pub mode: Mode,
    /// Where it is mounted; empty looks for it.
    pub root: PathBuf,
}

/// The probe.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    /// Whether it is used.
    pub mode: Mode,
    /// Share of one core it may cost.
    pub cpu_share: f64,
}

/// Whether readings are also written to files.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recording {
    /// The folder; empty records nothing.
    pub out: PathBuf,
    /// `csv` or `parquet`.
    pub format: String,
    /// A new file after so long.
    pub rotate_after: Period,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8000)),
            host_root: "/".into(),
            sampling: Sampling::default(),
            subjects: Subjects::default(),
            http: Http::default(),
            sources: Sources::default(),
            recording: Recording::default(),
        }
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            period: Period::millis(1_000),
            retention: Period::millis(30_000),
            adaptive: false,
            fastest: Period::millis(100),
            slowest: Period::millis(5_000),
            budget: 0.01,
        }
    }
}

impl Default for Subjects {
    fn default() -> Self {
        Self { enabled: true, period: Period::millis(1_000), limit: 512, prometheus_limit: 50 }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            connections: 1024,
            read_timeout: Period::millis(30_000),
            write_timeout: Period::millis(10_000),
        }
    }
}

impl Default for Pcm {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            command: "pcm".to_owned(),
            args: Vec::new(),
            memory_command: String::new(),
            sensor_server: String::new(),
            interval: Period::millis(1_000),
        }
    }
}

impl Default for Probe {
    fn default() -> Self {
        Self { mode: Mode::Auto, cpu_share: 0.004 }
    }
}

impl Default for Recording {
    fn default() -> Self {
        Self {
            out: PathBuf::new(),
            format: "parquet".to_owned(),
            rotate_after: Period::millis(600_000),
        }
    }
}

impl Sampling {
    /// The shortest time worth keeping: two samples at the slowest pace there can be.
    fn two_samples(&self) -> Period {
        let longest = if self.adaptive { self.slowest } else { self.period };
        Period::millis(2 * longest.get().as_millis() as u64)
    }
}

impl Config {
    /// The length of the counters' slots.
    #[must_use]
    pub fn slot(&self) -> Period {
        /// Few enough hand-overs to cost little, short enough that a core's table seldom overflows.
        const COARSE: Period = Period::millis(20);
        const FINE: Period = Period::millis(1);
        let wanted = if self.recording.out.as_os_str().is_empty() { COARSE } else { FINE };
        let pace =
            if self.sampling.adaptive { self.sampling.fastest } else { self.sampling.period };
        let fits = pace.is_multiple_of(wanted) && self.subjects.period.is_multiple_of(wanted);
        self.sources.counters.slot.unwrap_or_else(|| if fits { wanted } else { FINE.min(pace) })
    }
}
