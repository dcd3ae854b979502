//! The parts of a snapshot, each indexed by itself; immutable and shared by all snapshots in which nothing of it changed.

use crate::facts::{Container, Device, Pod};
use hashbrown::{Equivalent, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A pair of strings as a key, looked up without building one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pair(pub(crate) Arc<str>, pub(crate) Arc<str>);

#[derive(Hash)]
pub(crate) struct PairRef<'a>(pub(crate) &'a str, pub(crate) &'a str);

impl Hash for Pair {
    fn hash<H: Hasher>(&self, state: &mut H) {
        PairRef(&self.0, &self.1).hash(state);
    }
}

impl Equivalent<Pair> for PairRef<'_> {
    fn equivalent(&self, key: &Pair) -> bool {
        *self.0 == *key.0 && *self.1 == *key.1
    }
}

/// Numbers of one thing in the order of their beginnings; nearly always one.
#[derive(Debug)]
pub(crate) enum Few {
    One(u32),
    Many(Vec<u32>),
}

impl Few {
    pub(crate) fn as_slice(&self) -> &[u32] {
        match self {
            Few::One(number) => std::slice::from_ref(number),
            Few::Many(numbers) => numbers,
        }
    }

    fn push(&mut self, number: u32) {
        match self {
            Few::One(first) => *self = Few::Many(vec![*first, number]),
            Few::Many(numbers) => numbers.push(number),
        }
    }
}

/// Pods whose names belong to one part.
#[derive(Debug, Default)]
pub(crate) struct PodPart {
    /// Those that are only remembered first.
    pub(crate) pods: Vec<Pod>,
    pub(crate) by_uid: HashMap<Arc<str>, u32>,
    /// By namespace and name.
    pub(crate) by_name: HashMap<Pair, Few>,
    pub(crate) by_bare_name: HashMap<Arc<str>, Few>,
    /// By node: when it took on those of which nobody told yet which devices they were given.
    pub(crate) awaiting: HashMap<Arc<str>, Vec<u64>>,
}

impl PodPart {
    /// Of pods in the order in which they came: of two that claim a UID the last has it.
    pub(crate) fn new(pods: impl Iterator<Item = Pod>) -> PodPart {
        let mut part = PodPart::default();
        for pod in pods {
            let number = part.pods.len() as u32;
            if !pod.uid.is_empty() {
                part.by_uid.insert(Arc::clone(&pod.uid), number);
            }
            let name = Pair(Arc::clone(&pod.namespace), Arc::clone(&pod.name));
            let add = |few: &mut Few| few.push(number);
            part.by_name.entry(name).and_modify(add).or_insert(Few::One(number));
            let bare = Arc::clone(&pod.name);
            part.by_bare_name.entry(bare).and_modify(add).or_insert(Few::One(number));
            if let Some(started) = awaits_devices_since(&pod) {
                part.awaiting.entry(Arc::clone(&pod.node)).or_default().push(started);
            }
            part.pods.push(pod);
        }
        part
    }
}

/// Since when a pod has devices that nobody told of.
fn awaits_devices_since(pod: &Pod) -> Option<u64> {
    let over = pod.finished_ns.is_some() || pod.valid.valid_to_ns.is_some();
    pod.started_ns.filter(|_| pod.asks_for_devices && !pod.reports_devices && !over)
}

/// Devices under one label.
#[derive(Debug, Default)]
struct Held {
    /// By node and device: who held it, one after another.
    by_device: HashMap<Pair, Few>,
    /// Which sources told of such devices there.
    nodes: HashMap<Arc<str>, u16>,
}

/// Devices whose nodes belong to one part.
#[derive(Debug, Default)]
pub(crate) struct DevicePart {
    /// By label.
    labels: Vec<(Arc<str>, Held)>,
    holdings: Vec<Device>,
}

impl DevicePart {
    pub(crate) fn new(devices: impl Iterator<Item = Device>) -> DevicePart {
        let mut part = DevicePart::default();
        for device in devices {
            let place = part.labels.iter().position(|(label, _)| *label == device.label);
            let place = place.unwrap_or_else(|| {
                part.labels.push((Arc::clone(&device.label), Held::default()));
                part.labels.len() - 1
            });
            let key = Pair(Arc::clone(&device.node), Arc::clone(&device.device));
            let number = part.holdings.len() as u32;
            let held = &mut part.labels[place].1;
            *held.nodes.entry(Arc::clone(&device.node)).or_default() |= device.reporters;
            let held = held.by_device.entry(key);
            held.and_modify(|few| few.push(number)).or_insert(Few::One(number));
            part.holdings.push(device);
        }
        part
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = &Arc<str>> {
        self.labels.iter().map(|(label, _)| label)
    }

    /// Who held a device, one after another.
    pub(crate) fn held<'a>(
        &'a self,
        label: &str,
        node: &str,
        device: &str,
    ) -> impl DoubleEndedIterator<Item = &'a Device> + Clone + use<'a> {
        let held = self.labels.iter().find(|(known, _)| **known == *label);
        let few = held.and_then(|(_, held)| held.by_device.get(&PairRef(node, device)));
        self.of(few.map_or(&[], Few::as_slice))
    }

    /// Whether anybody held a device of this node under this label.
    pub(crate) fn has_devices(&self, label: &str, node: &str) -> bool {
        let mut labels = self.labels.iter();
        labels.any(|(known, held)| **known == *label && held.nodes.contains_key(node))
    }

    /// Whether anybody held any device of this node.
    pub(crate) fn knows_node(&self, node: &str) -> bool {
        self.labels.iter().any(|(_, held)| held.nodes.contains_key(node))
    }

    /// Which sources told of devices of this node under this label.
    pub(crate) fn reporters(&self, label: &str, node: &str) -> u16 {
        let held = self.labels.iter().find(|(known, _)| **known == *label);
        held.and_then(|(_, held)| held.nodes.get(node)).copied().unwrap_or(0)
    }

    /// Who held each device, one after another.
    pub(crate) fn all(&self) -> impl Iterator<Item = impl DoubleEndedIterator<Item = &Device>> {
        let few = self.labels.iter().flat_map(|(_, held)| held.by_device.values());
        few.map(move |few| self.of(few.as_slice()))
    }

    fn of<'a>(
        &'a self,
        numbers: &'a [u32],
    ) -> impl DoubleEndedIterator<Item = &'a Device> + Clone + use<'a> {
        numbers.iter().map(move |&number| &self.holdings[number as usize])
    }
}

/// All containers.
#[derive(Debug, Default)]
pub(crate) struct ContainerPart {
    pub(crate) by_id: HashMap<Arc<str>, Container>,
    /// Ids by cgroup path.
    pub(crate) by_cgroup: HashMap<Arc<str>, Arc<str>>,
}

impl ContainerPart {
    pub(crate) fn new(containers: impl Iterator<Item = Container>) -> ContainerPart {
        let mut part = ContainerPart::default();
        for container in containers {
            if let Some(cgroup) = &container.cgroup {
                part.by_cgroup.insert(Arc::clone(cgroup), Arc::clone(&container.id));
            }
            part.by_id.insert(Arc::clone(&container.id), container);
        }
        part
    }
}
