//! Devices as the agents of the nodes report them: who was given which, from the kubelet itself.

use std::collections::{HashMap, HashSet};
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
    /// Whether agents are waited for: as configured, or because an earlier process heard some.
    awaited: bool,
    /// Whether they are only for the latter.
    expected: bool,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: HashMap<Arc<str>, (Instant, Facts)>,
    /// Devices of all.
    devices: usize,
    /// Nodes that an earlier process knew and this one has not heard; `None` where none was known.
    unheard: Option<HashSet<Arc<str>>>,
    /// Whether those that will report have.
    settled: bool,
    /// Whether something came that was not told yet.
    untold: bool,
    /// When the last report came.
    heard: Option<Instant>,
}

impl Reports {
    /// Begins with what an earlier process knew, if it did.
    pub(crate) fn new(inventory: Inventory, awaited: bool) -> Self {
        let known = inventory.facts_of(AGENTS);
        let devices = known.devices.len();
        let mut nodes: HashMap<Arc<str>, (Instant, Facts)> = HashMap::new();
        let fresh = || (Instant::now(), Facts::default());
        for device in known.devices {
            nodes.entry(Arc::clone(&device.node)).or_insert_with(fresh).1.devices.push(device);
        }
        for pod in known.pods {
            nodes.entry(Arc::clone(&pod.node)).or_insert_with(fresh).1.pods.push(pod);
        }
        let unheard = (!nodes.is_empty()).then(|| nodes.keys().map(Arc::clone).collect());
        let state = State { nodes, devices, unheard, ..State::default() };
        let expected = !awaited && state.unheard.is_some();
        let awaited = awaited || expected;
        Reports { inventory, awaited, expected, started: Instant::now(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes a report, or says why not.
    pub(crate) fn take(&self, report: &Report) -> Result<(), Untaken> {
        report.check()?;
        self.state().take(&report.node, facts_of(report), Instant::now())
    }

    /// Tells the inventory what came, until told to stop.
    pub(crate) async fn run(self: Arc<Self>, mut stopping: watch::Receiver<bool>) {
        let mut told = None;
        loop {
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            self.tell(&mut told, Instant::now());
        }
    }

    /// Tells what is new, and every so often that something came, though it was nothing new. `told` is which report was the
    /// last of those that the inventory knows to have come.
    fn tell(&self, told: &mut Option<Instant>, now: Instant) {
        let (news, heard) = {
            let mut state = self.state();
            let settled = now.saturating_duration_since(self.started) >= SETTLED;
            let whole = !self.awaited || settled || state.all_were_heard();
            if whole && state.heard.is_some() && !std::mem::replace(&mut state.settled, true) {
                state.believe_the_unheard();
            }
            (state.news(now), state.heard.filter(|_| whole))
        };
        let nobody_came = self.expected && self.state().heard.is_none();
        if nobody_came && now.saturating_duration_since(self.started) >= PATIENCE {
            // There are no agents any more, and nobody said that there would be.
            self.inventory.retire(AGENTS);
            return;
        }
        match (news, heard) {
            (Some(facts), Some(heard)) => self.inventory.update_heard(AGENTS, facts, heard),
            // One node of a thousand does not stand for the rest.
            (Some(facts), None) => self.inventory.update_partly(AGENTS, facts),
            (None, Some(heard)) if told.is_none_or(|told| heard >= told + HEARD_EVERY) => {
                self.inventory.hear(AGENTS, heard);
            }
            _ => return,
        }
        *told = heard.or(*told);
    }
}

impl State {
    fn take(&mut self, node: &Arc<str>, facts: Facts, now: Instant) -> Result<(), Untaken> {
        let before = self.nodes.get(node).map(|(_, facts)| facts);
        let full = |what| Err(Untaken::Full { what });
        if self.nodes.len() >= MAX_NODES && before.is_none() {
            return full(format!("{MAX_NODES} nodes"));
        }
        let devices = self.devices + facts.devices.len() - before.map_or(0, |f| f.devices.len());
        if devices > MAX_ALL_DEVICES {
            return full(format!("{MAX_ALL_DEVICES} devices"));
        }
        self.untold |= before != Some(&facts);
        self.devices = devices;
        self.heard = Some(now);
        if let Some(unheard) = &mut self.unheard {
            unheard.remove(node);
        }
        self.nodes.insert(Arc::clone(node), (now, facts));
        Ok(())
    }

    /// Whether everybody was heard whom an earlier process knew.
    fn all_were_heard(&self) -> bool {
        self.unheard.as_ref().is_some_and(HashSet::is_empty)
    }

    /// Until now nobody knew who holds the devices of nodes that have not reported since the start. Those nodes are believed
    /// from here as any that falls silent is, and for as long.
    fn believe_the_unheard(&mut self) {
        for device in self.nodes.values_mut().flat_map(|(_, facts)| &mut facts.devices) {
            self.untold |= device.valid.valid_to_ns.take().is_some();
        }
    }

    /// Everything, where something in it is new.
    fn news(&mut self, now: Instant) -> Option<Facts> {
        let known = self.nodes.len();
        self.nodes.retain(|_, (at, _)| now.saturating_duration_since(*at) < PATIENCE);
        self.untold |= self.nodes.len() != known;
        if !std::mem::take(&mut self.untold) {
            return None;
        }
        let mut facts = Facts::default();
        for (_, of_node) in self.nodes.values() {
            facts.pods.extend_from_slice(&of_node.pods);
            facts.devices.extend_from_slice(&of_node.devices);
        }
        self.devices = facts.devices.len();
        Some(facts)
    }
}

impl Report {
    fn check(&self) -> Result<(), Untaken> {
        if self.devices.len() > MAX_DEVICES {
            return Err(Untaken::Devices);
        }
        if self.node.is_empty() {
            return Err(Untaken::NoNode);
        }
        let of_given = |g: &Given| {
            [g.resource.len(), g.device.len(), g.namespace.len(), g.pod.len(), g.container.len()]
        };
        let lengths = self.devices.iter().flat_map(of_given).chain([self.node.len()]);
        if lengths.max() > Some(MAX_NAME_BYTES) { Err(Untaken::Name) } else { Ok(()) }
    }
}

fn facts_of(report: &Report) -> Facts {
    let mut facts = Facts::default();
    let mut pods = HashSet::new();
    for given in &report.devices {
        facts.devices.extend(given.names().into_iter().map(|(label, device)| Device {
            node: Arc::clone(&report.node),
            label,
            device,
            pod_namespace: Arc::clone(&given.namespace),
            pod_name: Arc::clone(&given.pod),
            container_name: Arc::clone(&given.container),
            ..Device::default()
        }));
        if pods.insert((&given.namespace, &given.pod)) {
            facts.pods.push(Pod {
                name: Arc::clone(&given.pod),
                namespace: Arc::clone(&given.namespace),
                node: Arc::clone(&report.node),
                ..Pod::default()
            });
        }
    }
    leave_out_shared(&mut facts.devices);
    facts
}

/// A device that several pods use in turns is nobody's to be billed for by its name; what an exporter says of pods decides.
fn leave_out_shared(devices: &mut Vec<Device>) {
    type Names = (Arc<str>, Arc<str>);
    let mut holders: HashMap<Names, Option<Names>> = HashMap::new();
    for held in devices.iter() {
        let pod = (Arc::clone(&held.pod_namespace), Arc::clone(&held.pod_name));
        let holder = holders.entry((Arc::clone(&held.label), Arc::clone(&held.device)));
        let holder = holder.or_insert_with(|| Some(pod.clone()));
        if holder.as_ref() != Some(&pod) {
            *holder = None;
        }
    }
    let mut kept = HashSet::new();
    devices.retain(|held| {
        let name = (Arc::clone(&held.label), Arc::clone(&held.device));
        holders.get(&name).is_some_and(Option::is_some) && kept.insert(name)
    });
}

impl Given {
    /// The labels that name it, with its name in each.
    fn names(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let id = Device::shared(&self.device).map_or_else(|| Arc::clone(&self.device), Arc::from);
        let slice = Device::slice_of(&id).map(|slice| (Device::SLICE.into(), slice.into()));
        let own = (Device::label_of(&self.resource).into(), id);
        [own].into_iter().chain(slice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(node: &str, devices: &[(&str, &str)]) -> Report {
        let given = |(device, pod): &(&str, &str)| Given {
            resource: "nvidia.com/gpu".to_owned(),
            device: (*device).into(),
            namespace: "ml".into(),
            pod: (*pod).into(),
            container: "main".into(),
        };
        Report { node: node.into(), devices: devices.iter().map(given).collect() }
    }

    fn reports(inventory: &Inventory) -> Reports {
        inventory.announce(AGENTS);
        Reports::new(inventory.clone(), true)
    }

    fn inventory() -> Inventory {
        Inventory::new(Duration::from_secs(60))
    }

    #[test]
    fn one_node_does_not_stand_for_those_that_were_known_before() {
        let before = inventory();
        let facts = [
            facts_of(&report("n1", &[("GPU-1", "a")])),
            facts_of(&report("n2", &[("GPU-2", "b")])),
        ];
        let [mut all, more] = facts;
        all.devices.extend(more.devices);
        all.pods.extend(more.pods);
        before.update(AGENTS, all);
        let after = inventory();
        after.announce(AGENTS);
        after.restore(before.save());
        let (reports, mut told) = (reports(&after), None);
        let now = Instant::now();
        reports.take(&report("n1", &[("GPU-1", "c")])).unwrap();
        reports.tell(&mut told, now);
        assert_eq!(after.standing().remembered, [AGENTS], "n2 may have new pods");
        assert_eq!(after.facts_of(AGENTS).devices.len(), 2, "what n1 says now is known already");
        // Nothing new in it, and all the same it was heard.
        reports.take(&report("n2", &[("GPU-2", "b")])).unwrap();
        reports.tell(&mut told, now);
        assert!(after.standing().remembered.is_empty());
        let age = |inventory: &Inventory| inventory.statuses()[0].age.unwrap();
        assert!(age(&after) < Duration::from_secs(5));
    }

    #[test]
    fn who_holds_what_on_a_node_that_is_silent_since_the_start_is_open_until_all_had_the_time() {
        let before = inventory();
        let mut all = facts_of(&report("n1", &[("GPU-1", "a")]));
        all.devices.extend(facts_of(&report("n2", &[("GPU-2", "b")])).devices);
        before.update(AGENTS, all);
        let after = inventory();
        after.announce(AGENTS);
        after.restore(before.save());
        let (reports, mut told) = (reports(&after), None);
        let now = Instant::now();
        let open = || -> Vec<String> {
            let devices = after.facts_of(AGENTS).devices.into_iter();
            let ended = devices.filter(|device| device.valid.valid_to_ns.is_some());
            let mut names: Vec<_> = ended.map(|device| device.device.to_string()).collect();
            names.sort();
            names
        };
        assert_eq!(open(), ["GPU-1", "GPU-2"]);
        reports.take(&report("n1", &[("GPU-1", "a")])).unwrap();
        reports.tell(&mut told, now);
        assert_eq!(open(), ["GPU-2"], "and a report is believed at once");
        reports.tell(&mut told, now + SETTLED);
        assert!(open().is_empty() && after.standing().remembered.is_empty());
    }

    #[test]
    fn agents_that_nobody_announced_are_remembered_and_not_waited_for_for_ever() {
        let before = inventory();
        before.update(AGENTS, facts_of(&report("n1", &[("GPU-1", "a")])));
        let after = inventory();
        let saved = tempfile::NamedTempFile::new().unwrap();
        before.save().write(saved.path()).unwrap();
        crate::cache::saved::restore(&after, saved.path(), &[AGENTS]);
        let (reports, mut told) = (Reports::new(after.clone(), false), None);
        let now = Instant::now();
        reports.tell(&mut told, now);
        assert_eq!(after.standing().remembered, [AGENTS]);
        assert_eq!(after.facts_of(AGENTS).devices.len(), 1);
        reports.tell(&mut told, now + PATIENCE);
        assert!(after.standing().doubtful().is_empty());
        assert!(after.facts_of(AGENTS).devices.is_empty());
        reports.take(&report("n2", &[("GPU-2", "b")])).unwrap();
        reports.tell(&mut told, now + PATIENCE);
        assert_eq!(after.facts_of(AGENTS).devices.len(), 1, "one that comes late is heard");
    }

    #[test]
    fn a_node_that_will_not_report_again_is_waited_for_only_so_long() {
        let after = inventory();
        let (reports, mut told) = (reports(&after), None);
        reports.take(&report("n1", &[("GPU-1", "a")])).unwrap();
        reports.tell(&mut told, Instant::now());
        assert_eq!(after.standing().waiting, [AGENTS], "others may come");
        reports.tell(&mut told, Instant::now() + SETTLED);
        assert!(after.standing().waiting.is_empty());
    }

    #[test]
    fn a_device_that_is_shared_has_its_own_name_and_is_nobodys_where_several_have_it() {
        let facts = facts_of(&report(
            "n1",
            &[("GPU-1::0", "a"), ("GPU-1::1", "a"), ("GPU-2::0", "a"), ("GPU-2::1", "b")],
        ));
        let held: Vec<_> = facts.devices.iter().map(|d| (&*d.device, &*d.pod_name)).collect();
        assert_eq!(held, [("GPU-1", "a")]);
    }

    #[test]
    fn what_agents_may_say_is_bounded() {
        let (mut state, now) = (State::default(), Instant::now());
        let many: Vec<String> = (0..MAX_DEVICES).map(|number| format!("GPU-{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (&**name, "a")).collect();
        let facts = facts_of(&report("n", &many));
        let mut nodes = 0..;
        let mut add = |state: &mut State| {
            let node = nodes.next().map_or_else(String::new, |node: usize| node.to_string());
            state.take(&node.into(), facts.clone(), now)
        };
        for _ in 0..MAX_ALL_DEVICES / MAX_DEVICES {
            add(&mut state).unwrap();
        }
        assert!(matches!(add(&mut state), Err(Untaken::Full { .. })));
        state.take(&"0".into(), facts.clone(), now).unwrap();
        assert!(state.news(now + PATIENCE).is_some_and(|facts| facts.devices.is_empty()));
        assert_eq!(add(&mut state), Ok(()));
        let long = report("n", &[(&"x".repeat(MAX_NAME_BYTES + 1), "a")]);
        assert_eq!(long.check(), Err(Untaken::Name));
    }
}
