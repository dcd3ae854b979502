//! What the agent is told.

mod check;
mod memory;
mod settings;
mod sources;

pub use crosstalk_serve::Listener;
pub use crosstalk_settings::Period;
pub use crosstalk_sources::Mode;
pub use memory::{MemoryUsage, NodeMetric};
pub use sources::Sources;

use crosstalk_coldmem::{Choice, ColdBoundary, UnknownBackend};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
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
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where to answer HTTP.
    pub listen: SocketAddr,
    /// This node's name in recordings; empty is its host name.
    pub node: String,
    /// Where the host's `/proc` and `/sys` are.
    pub host_root: PathBuf,
    /// How the node is sampled.
    pub sampling: Sampling,
    /// How processes, containers and pods are followed.
    pub subjects: Subjects,
    /// Who may ask, and how.
    pub http: Listener,
    /// Where the names of containers and pods come from.
    pub inventory: Names,
    /// The sources.
    pub sources: Sources,
    /// Whether it is said who slows whom.
    pub verdicts: Verdicts,
    /// Whether readings are also written to files.
    pub recording: Recording,
    /// How usage of memory is told.
    pub memory: MemoryUsage,
    /// Who else is told of this node's usage.
    pub node_metric: NodeMetric,
}

/// How the node is sampled.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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

/// Where the names of containers and pods come from.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Names {
    /// Whether the sockets of container engines and the kubelet are asked where they are found.
    pub engines: bool,
    /// Whether the Kubernetes API is asked for the pods of this node.
    pub kubernetes: bool,
    /// A kubeconfig file; empty uses the pod's service account, or `$KUBECONFIG`.
    pub kubeconfig: PathBuf,
    /// This node's name in Kubernetes; empty is `node`, or else its host name.
    pub node_name: String,
    /// A file with pods and containers; empty reads none.
    pub static_file: PathBuf,
    /// URL of a processor that is told which devices the kubelet gave to whom; empty tells nobody.
    pub report_to: String,
    /// File with the token it wants; empty bears none.
    pub report_token_file: PathBuf,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            engines: true,
            kubernetes: false,
            kubeconfig: PathBuf::new(),
            node_name: String::new(),
            static_file: PathBuf::new(),
            report_to: String::new(),
            report_token_file: PathBuf::new(),
        }
    }
}

/// A source with nothing to set but whether it is used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Switch {
    /// Whether it is used.
    pub mode: Mode,
}

/// The eBPF counters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Counters {
    /// Whether they are used.
    pub mode: Mode,
    /// Slot length; `None` (`"auto"`) chooses.
    #[serde(deserialize_with = "auto", serialize_with = "or_auto")]
    pub slot: Option<Period>,
}

/// `"auto"`, or a length of time.
fn auto<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Period>, D::Error> {
    let text = String::deserialize(from)?;
    if text == "auto" { Ok(None) } else { text.parse().map(Some).map_err(D::Error::custom) }
}

fn or_auto<S: Serializer>(slot: &Option<Period>, to: S) -> Result<S::Ok, S::Error> {
    match slot {
        Some(slot) => to.collect_str(slot),
        None => to.serialize_str("auto"),
    }
}

/// Intel PCM.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resctrl {
    /// Whether it is used.
    pub mode: Mode,
    /// Where it is mounted; empty looks for it.
    pub root: PathBuf,
}

/// Cache and memory traffic by process.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
    /// Whether it is read.
    pub mode: Mode,
    /// Where resctrl is mounted; empty looks for it.
    pub root: PathBuf,
    /// Share of one core that reading may take.
    pub cpu_share: f64,
}

/// Pressure stall information.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pressure {
    /// Whether it is read.
    pub mode: Mode,
    /// Time between looks.
    pub period: Period,
}

/// Cold memory.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ColdMemory {
    /// Whether it is looked for.
    pub mode: Mode,
    /// Time between looks.
    pub period: Period,
    /// `kidled`, `damon`, `mglru` or `bounds`; empty chooses.
    pub backend: String,
    /// Memory is cold when it has been idle for so long.
    pub age: Period,
    /// Which memory can be cold: kinds, or rows of kidled.
    pub kinds: Vec<String>,
    /// Whether MGLRU is asked to begin generations.
    pub ageing: bool,
}

/// The probe.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    /// Whether it is used.
    pub mode: Mode,
    /// Share of one core it may cost.
    pub cpu_share: f64,
    /// The folder in which it keeps what memory is like at rest; empty takes the usual one.
    pub state: PathBuf,
}

/// Whether it is said who slows whom.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Verdicts {
    /// Whether it is.
    pub enabled: bool,
    /// Who victims and aggressors are.
    pub subject: SubjectName,
}

/// Who victims and aggressors are. What belongs to none of the kind stands for itself by the next lesser one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SubjectName {
    /// Each process.
    Process,
    /// Containers.
    Container,
    /// Pods.
    Pod,
    /// Workloads.
    Workload,
}

impl SubjectName {
    /// The word in the configuration and in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Container => "container",
            Self::Pod => "pod",
            Self::Workload => "workload",
        }
    }
}

impl Default for Verdicts {
    fn default() -> Self {
        Self { enabled: true, subject: SubjectName::Pod }
    }
}

/// Whether readings are also written to files.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Recording {
    /// The folder, or an object store such as `s3://bucket/recordings`; empty records nothing.
    pub out: PathBuf,
    /// Where files wait until they are in the object store; empty is `spool` in the state folder.
    pub spool: PathBuf,
    /// `csv` or `parquet`.
    pub format: String,
    /// A new file after so long.
    pub rotate_after: Period,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8000)),
            node: String::new(),
            host_root: "/".into(),
            sampling: Sampling::default(),
            subjects: Subjects::default(),
            http: Listener::default(),
            inventory: Names::default(),
            sources: Sources::default(),
            verdicts: Verdicts::default(),
            recording: Recording::default(),
            memory: MemoryUsage::default(),
            node_metric: NodeMetric::default(),
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

impl Default for Cache {
    fn default() -> Self {
        Self { mode: Mode::Off, root: PathBuf::new(), cpu_share: 0.05 }
    }
}

impl Default for Pressure {
    fn default() -> Self {
        Self { mode: Mode::Auto, period: Period::millis(1_000) }
    }
}

impl Default for ColdMemory {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            period: Period::millis(60_000),
            backend: String::new(),
            age: Period::millis(300_000),
            kinds: ["cfei", "dfei", "cfui", "dfui"].map(str::to_owned).to_vec(),
            ageing: false,
        }
    }
}

impl ColdMemory {
    /// What the source is asked for.
    ///
    /// # Errors
    /// A word names no back end or no kind; with the key it stands under.
    pub fn choice(&self) -> Result<Choice, (&'static str, String)> {
        let backend = match self.backend.as_str() {
            "" => None,
            name => Some(
                name.parse()
                    .map_err(|e: UnknownBackend| ("sources.coldmem.backend", e.to_string()))?,
            ),
        };
        let boundary = ColdBoundary::new(self.age.get(), self.kinds.iter().map(String::as_str))
            .map_err(|e| ("sources.coldmem.kinds", e.to_string()))?;
        Ok(Choice { backend, boundary, ageing: self.ageing })
    }
}

impl Default for Probe {
    fn default() -> Self {
        Self { mode: Mode::Auto, cpu_share: 0.004, state: PathBuf::new() }
    }
}

impl Default for Recording {
    fn default() -> Self {
        Self {
            out: PathBuf::new(),
            spool: PathBuf::new(),
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
