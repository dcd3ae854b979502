//! What the processor is told.
//!
//! Every field has a default, so an empty file (or none) is a working processor on loopback with a local database.

mod log_forward;
mod retention;
mod validate;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use crate::queue::WhenFull;
pub use crosstalk_serve::Listener;
pub use crosstalk_settings::{Period, Secret};
pub use log_forward::{LogForward, LogStore};
pub use retention::Retention;

/// The sample file: every key with its default, or an example, and what it means.
pub const SAMPLE: &str = include_str!("sample.toml");

/// The whole configuration.
///
/// ```
/// use crosstalk_processor::Config;
/// let config = Config::from_text("example.toml", r#"
///     listen = "127.0.0.1:9000"
///     [[endpoint]]
///     name = "store"
///     url = "http://127.0.0.1:8428/api/v1/write"
/// "#).unwrap();
/// assert_eq!(config.listen.port(), 9000);
/// assert_eq!(config.endpoints[0].name, "store");
///
/// let error = Config::from_text("example.toml", "\nlisten = \"here\"").unwrap_err();
/// assert!(error.to_string().starts_with("example.toml:2: "), "{error}");
/// ```
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address of the HTTP service; loopback unless told otherwise.
    pub listen: SocketAddr,
    /// Folder for the forward queues and the default database.
    pub data_dir: PathBuf,
    /// `sqlite://`, `postgres://` or `mysql://` URL; empty means a SQLite file in `data_dir`.
    pub database: Secret,
    /// How long a statement of the database may take.
    pub database_timeout: Period,
    /// How long rows are kept.
    pub retention: Retention,
    /// Who may speak to the service, and how.
    pub listener: Listener,
    /// Bounds on one remote write request.
    pub limits: RequestLimits,
    /// How series get their workload.
    pub enrichment: Enrichment,
    /// Where pods, devices and workloads are learnt from.
    pub cache: CacheSources,
    /// Remote-write stores to forward to.
    #[serde(rename = "endpoint")]
    pub endpoints: Vec<Endpoint>,
    /// How logs are taken.
    pub logs: Logs,
}

impl Config {
    /// What happens when the queue of `endpoint` is full.
    #[must_use]
    pub fn when_full(&self, endpoint: &Endpoint) -> WhenFull {
        endpoint.when_full.unwrap_or(usual(self.endpoints.len()))
    }

    /// What happens when the queue of a log store is full.
    #[must_use]
    pub fn when_log_store_is_full(&self, store: &LogForward) -> WhenFull {
        store.when_full.unwrap_or(usual(self.logs.forwards.len()))
    }
}

/// What a full queue does where there are so many: one of several that is away must not stop the others.
fn usual(stores: usize) -> WhenFull {
    if stores < 2 { WhenFull::Block } else { WhenFull::DropOldest }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8989)),
            data_dir: PathBuf::from("crosstalk-data"),
            database: Secret::default(),
            database_timeout: Period::seconds(30),
            retention: Retention::default(),
            listener: Listener::default(),
            limits: RequestLimits::default(),
            enrichment: Enrichment::default(),
            cache: CacheSources::default(),
            endpoints: Vec::new(),
            logs: Logs::default(),
        }
    }
}

/// Bounds on one request; the names appear in refusals.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestLimits {
    /// Compressed bytes of a remote write body.
    #[serde(deserialize_with = "crosstalk_settings::bytes")]
    pub max_body_bytes: usize,
    /// Bytes of it after decompression.
    #[serde(deserialize_with = "crosstalk_settings::bytes")]
    pub max_decoded_bytes: usize,
    /// Series of a request.
    pub max_series: usize,
    /// Samples, histograms and exemplars of a request.
    pub max_samples: usize,
    /// Labels of a series.
    pub max_labels: usize,
    /// Bytes of a label name.
    pub max_label_name_bytes: usize,
    /// Bytes of a label value.
    pub max_label_value_bytes: usize,
    /// Bytes of a logs body.
    #[serde(deserialize_with = "crosstalk_settings::bytes")]
    pub max_logs_body_bytes: usize,
    /// Records, or lines, of a logs body.
    pub max_logs_records: usize,
    /// Training lines of a logs body, each counted for every workload it is of.
    pub max_logs_observations: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        let limits = crosstalk_remote_write::Limits::default();
        RequestLimits {
            max_body_bytes: limits.max_body_bytes,
            max_decoded_bytes: limits.max_decoded_bytes,
            max_series: limits.max_series,
            max_samples: limits.max_samples,
            max_labels: limits.max_labels,
            max_label_name_bytes: limits.max_label_name_bytes,
            max_label_value_bytes: limits.max_label_value_bytes,
            max_logs_body_bytes: 32 << 20,
            max_logs_records: 100_000,
            max_logs_observations: 100_000,
        }
    }
}

impl RequestLimits {
    /// As the decoder takes them.
    pub fn remote_write(&self) -> crosstalk_remote_write::Limits {
        crosstalk_remote_write::Limits {
            max_body_bytes: self.max_body_bytes,
            max_decoded_bytes: self.max_decoded_bytes,
            max_series: self.max_series,
            max_samples: self.max_samples,
            max_labels: self.max_labels,
            max_label_name_bytes: self.max_label_name_bytes,
            max_label_value_bytes: self.max_label_value_bytes,
            ..Default::default()
        }
    }
}

/// What happens to a series that belongs to no known workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Missing {
    /// Counted and left out.
    Drop,
    /// Forwarded as it came.
    Pass,
    /// Forwarded with the label `workload_missing`, whose value is the reason.
    Tag,
}

/// How series get their workload.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Enrichment {
    /// Series without a workload.
    pub missing: Missing,
    /// Whether a series that has a workload is also forwarded as it came.
    pub keep_original: bool,
    /// Value of the label `job` of enriched series.
    pub job: String,
    /// Label that keeps the `job` a series came with; empty means it is not kept, and series that differ in it alone become
    /// one.
    pub original_job_label: String,
    /// Labels that may name the node, in order. Of `instance` the port is cut off, and it counts only where it is the name of a
    /// node whose devices are known.
    pub node_labels: Vec<String>,
    /// Labels that may name the pod, in order: what the exporter said (`exported_pod`, where Prometheus has `honor_labels`
    /// off) before whoever scraped it.
    pub pod_labels: Vec<String>,
    /// Labels that may hold the pod's UID, in order.
    pub uid_labels: Vec<String>,
    /// Labels that may name the device, in order, by what the inventory calls them: `gpu_uuid` stands for DCGM's `UUID`, and
    /// `gpu_id` for `gpu`. Others that are known come after.
    pub device_labels: Vec<String>,
    /// Names of pods that watch devices for others and are never billed for one; a pattern may hold `*`. Pods of a DaemonSet
    /// never are.
    pub exporter_pods: Vec<String>,
    /// Labels that name devices of other resources than those that are known, by the kubelet's name of the resource.
    pub device_resources: BTreeMap<String, String>,
    /// What happens to samples below zero, in every series that is forwarded.
    pub negative: Negative,
}

impl Default for Enrichment {
    fn default() -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Enrichment {
            missing: Missing::Drop,
            keep_original: false,
            job: "crosstalk-processor".to_owned(),
            original_job_label: "exported_job".to_owned(),
            node_labels: names(&[
                "node",
                "node_name",
                "primus_lens_node_name",
                "kubernetes_node",
                "nodename",
                "hostname",
                "Hostname",
                "instance",
            ]),
            pod_labels: names(&["exported_pod", "pod", "pod_name"]),
            uid_labels: names(&["exported_uid", "uid", "pod_uid"]),
            device_labels: names(&["gpu_uuid", "serial_number", "gpu_id", "device", "asic"]),
            device_resources: BTreeMap::new(),
            exporter_pods: names(&[
                "*dcgm-exporter*",
                "*metrics-exporter*",
                "*gpu-exporter*",
                "*node-exporter*",
            ]),
            negative: Negative::default(),
        }
    }
}

/// Samples below zero: left out unless a rule says otherwise. A pattern may hold `*`.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Negative {
    /// Metrics whose negative samples are kept.
    pub keep: Vec<String>,
    /// Metrics whose negative samples are left out even though a `keep` pattern matches.
    pub drop: Vec<String>,
}

/// Where pods, devices and workloads are learnt from; several may be used together.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheSources {
    /// Time between refreshes.
    pub refresh: Period,
    /// How long a deleted pod's name is still believed, for samples that come late.
    pub grace: Period,
    /// How long it stays known who held what, for samples of that time.
    pub history: Period,
    /// JSON, YAML or TOML file with pods, devices and workloads.
    pub static_file: Option<PathBuf>,
    /// Whether the database's tables are read.
    pub database: bool,
    /// Whether agents report devices, so that they are waited for. Reports are taken in any case.
    pub agents: bool,
    /// Kubernetes watches.
    pub kubernetes: Kubernetes,
}

impl Default for CacheSources {
    fn default() -> Self {
        CacheSources {
            refresh: Period::seconds(20),
            grace: Period::seconds(300),
            history: Period::seconds(7200),
            static_file: None,
            database: true,
            agents: false,
            kubernetes: Kubernetes::default(),
        }
    }
}

/// The Kubernetes API as a source.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kubernetes {
    /// Whether pods are watched.
    pub enabled: bool,
    /// Kubeconfig file; without one the pod's own service account is used or, outside a cluster, `$KUBECONFIG`.
    pub kubeconfig: Option<PathBuf>,
    /// Only this namespace; all when empty.
    pub namespace: String,
    /// How long what was learnt of an owner is believed; a tenth of it where the owner could not be read.
    pub owner_ttl: Period,
    /// How long samples and lines of a pod are refused while its owners cannot be asked for; then its nearest known owner counts
    /// as the top.
    pub owner_wait: Period,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Kubernetes {
            enabled: false,
            kubeconfig: None,
            namespace: String::new(),
            owner_ttl: Period::seconds(300),
            owner_wait: Period::seconds(300),
        }
    }
}

/// A remote-write store.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Name in metrics, and of the queue's folder.
    pub name: String,
    /// Where to POST. A user and password in it become basic authentication.
    pub url: Secret,
    /// Protocol to speak.
    #[serde(default)]
    pub protocol: EndpointProtocol,
    /// Bytes that may wait on disk.
    #[serde(default = "default_queue_bytes", deserialize_with = "crosstalk_settings::bytes")]
    pub max_queue_bytes: u64,
    /// What happens when they do: senders wait (so it is for a single endpoint), or the oldest are dropped (so it is for
    /// each of several: one that is away must not stop the others).
    #[serde(default)]
    pub when_full: Option<WhenFull>,
    /// Requests in flight at once. Series are shared out among them, so that each series' samples arrive in order.
    #[serde(default = "default_in_flight")]
    pub in_flight: u8,
    /// Bytes of dead letters, the blocks the store refused for good; the oldest go first.
    #[serde(default = "default_dead_letter_bytes", deserialize_with = "crosstalk_settings::bytes")]
    pub max_dead_letter_bytes: u64,
    /// How long a request may take.
    #[serde(default = "half_a_minute")]
    pub timeout: Period,
    /// Longest pause between two tries.
    #[serde(default = "half_a_minute")]
    pub max_backoff: Period,
    /// Token to bear.
    #[serde(default)]
    pub bearer_token: Option<Secret>,
    /// File with that token, read again when it is renewed.
    #[serde(default)]
    pub bearer_token_file: Option<PathBuf>,
    /// PEM file of the authority that signed the store's certificate; the system's are used without it.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// PEM certificate chain that we show to the store; read again for every connection.
    #[serde(default)]
    pub client_cert: Option<PathBuf>,
    /// Its PEM key.
    #[serde(default)]
    pub client_key: Option<PathBuf>,
    /// Headers that go with every request, for example `X-Scope-OrgID`.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
}

fn default_in_flight() -> u8 {
    4
}
fn default_queue_bytes() -> u64 {
    2 << 30
}
fn default_dead_letter_bytes() -> u64 {
    64 << 20
}
fn half_a_minute() -> Period {
    Period::seconds(30)
}

impl Endpoint {
    /// An endpoint with default bounds.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Endpoint {
            name: name.into(),
            url: Secret::new(url),
            protocol: EndpointProtocol::default(),
            max_queue_bytes: default_queue_bytes(),
            when_full: None,
            in_flight: default_in_flight(),
            max_dead_letter_bytes: default_dead_letter_bytes(),
            timeout: half_a_minute(),
            max_backoff: half_a_minute(),
            bearer_token: None,
            bearer_token_file: None,
            ca_file: None,
            client_cert: None,
            client_key: None,
            headers: BTreeMap::new(),
        }
    }
}

/// Remote write protocol of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
pub enum EndpointProtocol {
    /// 1.0, which every store speaks.
    #[default]
    #[serde(rename = "1.0")]
    V1,
    /// 2.0, which keeps start timestamps and metadata by series.
    #[serde(rename = "2.0")]
    V2,
}

impl From<EndpointProtocol> for crosstalk_remote_write::Protocol {
    fn from(protocol: EndpointProtocol) -> Self {
        match protocol {
            EndpointProtocol::V1 => crosstalk_remote_write::Protocol::V1,
            EndpointProtocol::V2 => crosstalk_remote_write::Protocol::V2,
        }
    }
}

/// How logs are taken.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Logs {
    /// Pods whose logs are skipped, so that the processor's own lines do not come back; a pattern may hold `*`. The
    /// pod it runs in is always skipped.
    pub skip_pods: Vec<String>,
    /// Whether what lines say about training is forwarded to the endpoints as series.
    pub series: bool,
    /// Requests with logs in work at once; more are answered 429.
    pub requests: usize,
    /// Bytes of training lines that may wait on disk for the database.
    #[serde(deserialize_with = "crosstalk_settings::bytes")]
    pub max_queue_bytes: u64,
    /// Log stores that every record is forwarded to.
    #[serde(rename = "forward")]
    pub forwards: Vec<LogForward>,
    /// Log formats of your own, tried on lines the built-in ones give nothing for.
    #[serde(rename = "pattern")]
    pub patterns: Vec<LogPattern>,
}

impl Default for Logs {
    fn default() -> Self {
        Logs {
            skip_pods: vec!["crosstalk-processor*".to_owned()],
            series: true,
            requests: 64,
            max_queue_bytes: 256 << 20,
            forwards: Vec::new(),
            patterns: Vec::new(),
        }
    }
}

impl Logs {
    /// A parser with the configured patterns, as the processor and `explain-log` use it.
    pub fn parser(&self) -> Result<crosstalk_training_log::Parser, crosstalk_training_log::Error> {
        let patterns = self.patterns.iter();
        let patterns = patterns
            .map(|pattern| crosstalk_training_log::Pattern::new(&pattern.name, &pattern.regex));
        Ok(crosstalk_training_log::Parser::with_patterns(patterns.collect::<Result<_, _>>()?))
    }
}

/// A log format of your own.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LogPattern {
    /// Name shown as the format of a line.
    pub name: String,
    /// Regular expression with named groups; a group's name is the field's.
    pub regex: String,
}
