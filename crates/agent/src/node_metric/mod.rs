//! This node's NodeMetric (`slo.koordinator.sh/v1alpha1`), which Koordinator's scheduler reads: kept up to date in
//! Kubernetes, written to a file, or both.
//!
//! What is told is what `GET /memory` tells, averaged; so it never differs from what a person can look at. A policy that has
//! no data costs memory its page cache, never processor time anything.

mod cluster;
mod cpu;
mod file;
mod spec;
mod status;
#[cfg(test)]
mod tests;

pub(crate) use spec::CollectPolicy;

use crate::config::{Config, Mode};
use crate::error::AgentError;
use crate::node::Node;
use cpu::CpuUse;
use crosstalk_host::{Cpu, HostRoot, monotonic_ns};
use crosstalk_inventory::Kubernetes;
use serde_json::{Map, Value, json};
use status::Known;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

pub(crate) const API_VERSION: &str = "slo.koordinator.sh/v1alpha1";
pub(crate) const KIND: &str = "NodeMetric";

/// Memory that was not measured by then may never be.
const MEMORY_WITHIN: Duration = Duration::from_secs(30);
/// How often processor time is noted.
const CPU_EVERY: Duration = Duration::from_secs(10);

/// How often the object was told, and how often that failed.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    pub(crate) done: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl Reports {
    pub(crate) fn count(of: &AtomicU64) {
        of.fetch_add(1, Ordering::Relaxed);
    }
}

/// Tells others of this node's usage until it is dropped.
#[derive(Debug)]
pub(crate) struct Reporter {
    /// Dropped to end it.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Reporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a report is made of.
#[derive(Debug)]
pub(crate) struct Reported {
    pub(crate) node: Arc<Node>,
    /// This node's name.
    pub(crate) name: String,
    /// What the configuration says; an object may say otherwise.
    pub(crate) policy: CollectPolicy,
    host: HostRoot,
    cpu: Mutex<CpuUse>,
    /// Memory is not measured, by configuration.
    without_memory: bool,
    began: Instant,
}

impl Reported {
    /// The status under a policy, as of now.
    pub(crate) fn status(&self, policy: &CollectPolicy) -> Map<String, Value> {
        let memory = self.node.memory.newest();
        let known = Known {
            node: &self.node,
            memory: memory.as_deref(),
            cpu: &self.cpu.lock().unwrap_or_else(PoisonError::into_inner),
            policy,
            now_ns: monotonic_ns(),
            update_time: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        };
        known.status()
    }

    /// Whether there is anything to tell. Memory is waited for a while; where nobody measures it, processor time is told
    /// without.
    pub(crate) fn is_known(&self) -> bool {
        let has_cpu = || {
            let cpu = self.cpu.lock().unwrap_or_else(PoisonError::into_inner);
            cpu.node.is_known_at(monotonic_ns())
        };
        let waited = self.without_memory || self.began.elapsed() >= MEMORY_WITHIN;
        self.node.memory.newest().is_some() || (waited && has_cpu())
    }

    /// The whole object, where no cluster has one.
    pub(crate) fn object(&self) -> Value {
        let policy = &self.policy;
        let durations: Vec<String> =
            policy.durations.iter().map(|length| spec::go_duration(*length)).collect();
        json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self.name},
            "spec": {"metricCollectPolicy": {
                "aggregateDurationSeconds": policy.aggregate.as_secs(),
                "reportIntervalSeconds": policy.every.as_secs(),
                "nodeAggregatePolicy": {"durations": durations},
                "nodeMemoryCollectPolicy": policy.memory.name(),
            }},
            "status": self.status(policy),
        })
    }

    /// Notes processor time again and again. Never returns.
    async fn note_cpu(&self) {
        let length = CPU_EVERY.min(self.node.retention);
        let mut pause = Duration::from_secs(2).min(length);
        loop {
            tokio::time::sleep(pause).await;
            let cores = Cpu::online(&self.host).len() as f64;
            let mut cpu = self.cpu.lock().unwrap_or_else(PoisonError::into_inner);
            cpu.take(&self.node, cores, length);
            pause = length;
        }
    }
}

/// Starts whatever the configuration asks for; `None` where it asks for nothing.
pub(crate) fn start(config: &Config, node: Arc<Node>) -> Result<Option<Reporter>, AgentError> {
    let settings = &config.node_metric;
    let file = Some(settings.file.clone()).filter(|file| !file.as_os_str().is_empty());
    let kubernetes = match settings.mode {
        Mode::Auto => config.inventory.kubernetes,
        Mode::On => true,
        Mode::Off => false,
    }
    .then(|| config.kubernetes());
    if file.is_none() && kubernetes.is_none() {
        return Ok(None);
    }
    let reported = Reported {
        name: config.kubernetes().node,
        policy: CollectPolicy {
            aggregate: settings.aggregate_duration.get(),
            every: settings.report_interval.get(),
            durations: node.memory.durations.clone(),
            memory: node.memory.policy,
        },
        host: HostRoot::new(&config.host_root),
        cpu: Mutex::default(),
        without_memory: config.sources.coldmem.mode == Mode::Off,
        began: Instant::now(),
        node,
    };
    Reporter::start(reported, file, kubernetes)
        .map(Some)
        .map_err(|source| AgentError::Start { what: "the report of NodeMetric", source })
}

impl Reporter {
    fn start(
        reported: Reported,
        file: Option<PathBuf>,
        kubernetes: Option<Kubernetes>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            runtime.block_on(async {
                let to_file = async {
                    match &file {
                        Some(file) => file::keep(&reported, file).await,
                        None => std::future::pending().await,
                    }
                };
                let to_cluster = async {
                    match &kubernetes {
                        Some(kubernetes) => cluster::keep(&reported, kubernetes).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    _ = stopped => {}
                    () = to_file => {}
                    () = to_cluster => {}
                    () = reported.note_cpu() => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("node-metric".to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}
