//! Devices as the agents of the nodes report them: who was given which, from the kubelet itself.

mod node;
mod report;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crosstalk_inventory::{Facts, Inventory, KUBERNETES, Nodes};
use tokio::sync::watch;

use node::{Alive, Node};
pub(crate) use report::Report;
use report::{Named, facts_of};

/// The name of this source.
pub(crate) const AGENTS: &str = "agents";

/// So long it is waited for a node that reports nothing.
const PATIENCE: Duration = Duration::from_secs(300);

/// A node that reports nothing for so long is silent: agents report at every change, and every ten seconds anyway.
const SILENT: Duration = Duration::from_secs(30);

/// How often what came is told.
const EVERY: Duration = Duration::from_millis(500);

/// How often it is told that something came, where nothing in it is new.
const HEARD_EVERY: Duration = Duration::from_secs(5);

/// How long after a start every agent has reported, if it will: they do every ten seconds, and take up to five.
const SETTLED: Duration = Duration::from_secs(15);

/// Nodes, devices of a node, devices of all and bytes of a name at most.
const MAX_NODES: usize = 20_000;
const MAX_DEVICES: usize = 4096;
const MAX_ALL_DEVICES: usize = 400_000;
const MAX_NAME_BYTES: usize = 512;

/// Why a report was not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Untaken {
    #[error("node is empty")]
    NoNode,
    #[error("more than {MAX_DEVICES} devices")]
    Devices,
    #[error("a name of more than {MAX_NAME_BYTES} bytes")]
    Name,
    #[error("{what} of all reports are kept; those of a node that is silent for five minutes go")]
    Full { what: String },
}

/// The latest report of every node.
#[derive(Debug)]
pub(crate) struct Reports {
    inventory: Inventory,
    /// Whether agents are waited for: as configured, or because an earlier process heard some.
    awaited: bool,
    /// Whether they are only for the latter.
    expected: bool,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: HashMap<Arc<str>, Node>,
    /// Devices of all.
    devices: usize,
    /// Nodes that an earlier process knew and this one has not heard; `None` where none was known.
    unheard: Option<HashSet<Arc<str>>>,
    /// Whether every node is to report.
    every: bool,
    /// Whether something came that was not told yet.
    unpublished: bool,
    /// When the last report came.
    heard: Option<Instant>,
}

impl Reports {
    /// Begins with what an earlier process knew, if it did: of who holds a device since, nothing is known until its node
    /// reports.
    pub(crate) fn new(inventory: Inventory, configured: bool) -> Self {
        let started = Instant::now();
        let known = inventory.facts_of(AGENTS);
        let mut statuses = inventory.statuses().into_iter();
        let before = statuses.find(|status| status.name == AGENTS);
        let before = before.and_then(|status| status.remembered_at).map_or(0, unix_ns);
        let devices = known.devices.len();
        let mut nodes: HashMap<Arc<str>, Node> = HashMap::new();
        let remembered = || Node::remembered(started, before);
        for device in known.devices {
            let node = nodes.entry(Arc::clone(&device.node)).or_insert_with(remembered);
            node.add_device(device);
        }
        for pod in known.pods {
            let node = nodes.entry(Arc::clone(&pod.node)).or_insert_with(remembered);
            node.facts.pods.push(pod);
        }
        let unheard = (!nodes.is_empty()).then(|| nodes.keys().map(Arc::clone).collect());
        let state = State { nodes, devices, unheard, every: configured, ..State::default() };
        let expected = !configured && state.unheard.is_some();
        let awaited = configured || expected;
        let reports = Reports { inventory, awaited, expected, started, state: Mutex::new(state) };
        if awaited {
            reports.state().unpublished = true;
            reports.tell(&mut None, started);
        }
        reports
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes a report, or says why not.
    pub(crate) fn take(&self, report: &Report) -> Result<(), Untaken> {
        report.check()?;
        let heard_ns = unix_ns(SystemTime::now());
        // Most pods have no devices and want none: of those there is nothing to tell.
        let known = self.inventory.snapshot();
        let may_want = |named: &Named| {
            let pod = known.pod_in(&named.namespace, &named.pod);
            pod.is_some_and(|pod| pod.asks_for_devices)
        };
        let facts = facts_of(report, may_want);
        self.state().take(&report.node, facts, Instant::now(), heard_ns)
    }

    /// How many nodes there are of which it is not known who holds what.
    pub(crate) fn silent_nodes(&self) -> usize {
        self.state().nodes.values().filter(|node| node.in_doubt).count()
    }

    /// Tells the inventory what came, until told to stop; and has it look who fell silent.
    pub(crate) async fn run(self: Arc<Self>, mut stopping: watch::Receiver<bool>) {
        let mut published = None;
        loop {
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            self.inventory.notice_silence();
            self.tell(&mut published, Instant::now());
        }
    }

    /// Tells what is new, and every so often that something came, though it was nothing new. `told` is which report was the
    /// last of those that the inventory knows to have come.
    fn tell(&self, published: &mut Option<Instant>, now: Instant) {
        let known = self.inventory.snapshot();
        let alive = Alive { heard: self.inventory.hears(KUBERNETES), known: &known };
        let (news, heard) = {
            let mut state = self.state();
            let settled = now.saturating_duration_since(self.started) >= SETTLED;
            let whole = !self.awaited || settled || state.all_were_heard();
            (state.news(now, &alive), state.heard.filter(|_| whole))
        };
        let nobody_came = self.expected && self.state().heard.is_none();
        if nobody_came && now.saturating_duration_since(self.started) >= PATIENCE {
            // There are no agents any more, and nobody said that there would be.
            self.inventory.retire(AGENTS);
            return;
        }
        match (news, heard) {
            // One node of a thousand does not stand for the rest: without `heard` it is still waited for them.
            (Some((facts, nodes)), heard) => {
                self.inventory.update_nodes(AGENTS, facts, nodes, heard);
            }
            (None, Some(heard))
                if published.is_none_or(|published| heard >= published + HEARD_EVERY) =>
            {
                self.inventory.hear(AGENTS, heard);
            }
            _ => return,
        }
        *published = heard.or(*published);
    }
}

impl State {
    fn take(
        &mut self,
        node: &Arc<str>,
        facts: Facts,
        now: Instant,
        heard_ns: u64,
    ) -> Result<(), Untaken> {
        let before = self.nodes.get(node).map(|node| &node.facts);
        let full = |what| Err(Untaken::Full { what });
        if self.nodes.len() >= MAX_NODES && before.is_none() {
            return full(format!("{MAX_NODES} nodes"));
        }
        let devices = self.devices + facts.devices.len() - before.map_or(0, |f| f.devices.len());
        if devices > MAX_ALL_DEVICES {
            return full(format!("{MAX_ALL_DEVICES} devices"));
        }
        self.unpublished |= before != Some(&facts);
        self.devices = devices;
        self.heard = Some(now);
        if let Some(unheard) = &mut self.unheard {
            unheard.remove(node);
        }
        let in_doubt = self.nodes.get(node).is_some_and(|node| node.in_doubt);
        let known = Node { at: now, heard_ns, reported: true, in_doubt, facts };
        self.nodes.insert(Arc::clone(node), known);
        Ok(())
    }

    /// Whether everybody was heard whom an earlier process knew.
    fn all_were_heard(&self) -> bool {
        self.unheard.as_ref().is_some_and(HashSet::is_empty)
    }

    /// Everything, where something in it is new.
    fn news(&mut self, now: Instant, alive: &Alive<'_>) -> Option<(Facts, Nodes)> {
        let known = self.nodes.len();
        self.nodes.retain(|name, node| {
            let kept = !node.is_given_up(now, alive);
            if !kept {
                tracing::warn!(node = %name, "no agent reports its devices any more; they are nobody's now");
            }
            kept
        });
        self.unpublished |= self.nodes.len() != known;
        for node in self.nodes.values_mut() {
            self.unpublished |= node.look(now, alive);
        }
        if !std::mem::take(&mut self.unpublished) {
            return None;
        }
        let (mut facts, mut nodes) = (Facts::default(), Nodes::default());
        nodes.every = self.every;
        for (name, node) in &self.nodes {
            facts.pods.extend_from_slice(&node.facts.pods);
            facts.devices.extend_from_slice(&node.facts.devices);
            nodes.known.insert(Arc::clone(name), node.in_doubt.then_some(node.heard_ns));
        }
        self.devices = facts.devices.len();
        Some((facts, nodes))
    }
}

fn unix_ns(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

#[cfg(test)]
mod tests;
