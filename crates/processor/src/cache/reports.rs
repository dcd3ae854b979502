//! Devices as the agents of the nodes report them: who was given which, from the kubelet itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crosstalk_inventory::{Device, Facts, Inventory, Pod};
use serde::Deserialize;
use tokio::sync::watch;

/// The name of this source.
pub(crate) const AGENTS: &str = "agents";

/// A node that reports nothing for so long is taken to be gone, with its devices.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often what came is told.
const EVERY: Duration = Duration::from_millis(500);

/// Nodes and devices of a node at most.
const MAX_NODES: usize = 20_000;
const MAX_DEVICES: usize = 4096;

/// What an agent says of its node: everything it knows, each time.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    /// The node.
    #[schema(value_type = String)]
    node: Arc<str>,
    /// Its devices that were given to somebody.
    devices: Vec<Given>,
}

/// A device and whom it was given to.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    /// The kubelet's name of such devices (`nvidia.com/gpu`), a type (`gpu`, `rdma`), or the metric label itself.
    resource: String,
    /// Its id: a number, a name or a UUID; of a part of a GPU (`mig`) the card and the instance, `0/7`.
    #[schema(value_type = String)]
    device: Arc<str>,
    /// The pod's namespace.
    #[schema(value_type = String)]
    namespace: Arc<str>,
    /// The pod's name.
    #[schema(value_type = String)]
    pod: Arc<str>,
    /// The container in it.
    #[serde(default)]
    #[schema(value_type = String)]
    container: Arc<str>,
}

/// The latest report of every node.
#[derive(Debug)]
pub(crate) struct Reports {
    inventory: Inventory,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: HashMap<Arc<str>, (Instant, Facts)>,
    /// Whether something came that was not told yet.
    untold: bool,
}

impl Reports {
    /// Begins with what an earlier process knew, if it did.
    pub(crate) fn new(inventory: Inventory) -> Self {
        let known = inventory.facts_of(AGENTS);
        let mut nodes: HashMap<Arc<str>, (Instant, Facts)> = HashMap::new();
        let fresh = || (Instant::now(), Facts::default());
        for device in known.devices {
            nodes.entry(Arc::clone(&device.node)).or_insert_with(fresh).1.devices.push(device);
        }
        for pod in known.pods {
            nodes.entry(Arc::clone(&pod.node)).or_insert_with(fresh).1.pods.push(pod);
        }
        Reports { inventory, state: Mutex::new(State { nodes, untold: false }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes a report, or says why not.
    pub(crate) fn take(&self, report: Report) -> Result<(), String> {
        if report.devices.len() > MAX_DEVICES {
            return Err(format!("more than {MAX_DEVICES} devices"));
        }
        if report.node.is_empty() {
            return Err("node is empty".to_owned());
        }
        let facts = facts_of(&report);
        let mut state = self.state();
        if state.nodes.len() >= MAX_NODES && !state.nodes.contains_key(&report.node) {
            return Err(format!("more than {MAX_NODES} nodes"));
        }
        let before = state.nodes.insert(report.node, (Instant::now(), facts.clone()));
        state.untold |= before.is_none_or(|(_, before)| before != facts);
        Ok(())
    }

    /// Tells the inventory what came, until told to stop.
    pub(crate) async fn run(self: Arc<Self>, mut stopping: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            let (heard, facts) = {
                let mut state = self.state();
                let known = state.nodes.len();
                state.nodes.retain(|_, (at, _)| at.elapsed() < PATIENCE);
                state.untold |= state.nodes.len() != known;
                if !std::mem::take(&mut state.untold) {
                    continue;
                }
                let mut facts = Facts::default();
                for (_, of_node) in state.nodes.values() {
                    facts.pods.extend_from_slice(&of_node.pods);
                    facts.devices.extend_from_slice(&of_node.devices);
                }
                (state.nodes.values().map(|(at, _)| *at).max(), facts)
            };
            self.inventory.update_heard(AGENTS, facts, heard.unwrap_or_else(Instant::now));
        }
    }
}

fn facts_of(report: &Report) -> Facts {
    let mut facts = Facts::default();
    for given in &report.devices {
        let slice = Device::slice_of(&given.device).map(|slice| (Device::SLICE, slice.into()));
        let own = (Device::label_of(&given.resource), Arc::clone(&given.device));
        facts.devices.extend([own].into_iter().chain(slice).map(|(label, device)| Device {
            node: Arc::clone(&report.node),
            label: label.into(),
            device,
            pod_namespace: Arc::clone(&given.namespace),
            pod_name: Arc::clone(&given.pod),
            container_name: Arc::clone(&given.container),
            ..Device::default()
        }));
        let known = |pod: &Pod| pod.name == given.pod && pod.namespace == given.namespace;
        if !facts.pods.iter().any(known) {
            facts.pods.push(Pod {
                name: Arc::clone(&given.pod),
                namespace: Arc::clone(&given.namespace),
                node: Arc::clone(&report.node),
                ..Pod::default()
            });
        }
    }
    facts
}
