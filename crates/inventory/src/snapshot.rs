//! One moment's knowledge, indexed; immutable.

use crate::cgroup::Cgroup;
use crate::changes::{self, Changes};
use crate::facts::{Container, Device, Facts, Pod, Validity};
use crosstalk_model::Placement;
use hashbrown::{Equivalent, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A pair of strings as a key, looked up without building one.
#[derive(Debug, PartialEq, Eq)]
struct Pair(Arc<str>, Arc<str>);

#[derive(Hash)]
struct PairRef<'a>(&'a str, &'a str);

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

/// The pods that a name alone leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named<'a> {
    /// One, or several that followed each other in one namespace: the latest.
    One(&'a Pod),
    /// Pods of several namespaces have this name.
    Several,
}

/// Numbers of one thing in the order of their beginnings; nearly always one.
#[derive(Debug)]
enum Few {
    One(u32),
    Many(Vec<u32>),
}

impl Few {
    fn as_slice(&self) -> &[u32] {
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

/// Clocks of nodes and of whoever dates facts differ, and creation times have whole seconds: what begins so little after
/// a moment is taken to have been there.
const SKEW_NS: u64 = 60_000_000_000;

/// Everything known at one moment, what is over among it (see [`crate::Validity`]).
#[derive(Debug, Default)]
pub struct Snapshot {
    pods: Vec<Pod>,
    by_uid: HashMap<Arc<str>, u32>,
    /// By namespace and name.
    by_name: HashMap<Pair, Few>,
    by_bare_name: HashMap<Arc<str>, Few>,
    containers: HashMap<Arc<str>, Container>,
    /// Container ids by cgroup path.
    by_cgroup: HashMap<Arc<str>, Arc<str>>,
    /// By label.
    devices: Vec<(Arc<str>, Held)>,
    holdings: Vec<Holding>,
    /// When this was put together, in Unix nanoseconds.
    built_ns: u64,
    /// How long after its end a pod is still spoken of.
    grace_ns: u64,
    version: u64,
    changes: Changes,
}

/// By node and device: who held it, one after another.
type Held = HashMap<Pair, Few>;

/// A device in the hands of a pod, for a time.
#[derive(Debug)]
struct Holding {
    device: Device,
    pod: u32,
}

/// A moment, and for how long after its end what is over counts as there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Built {
    pub(crate) at_ns: u64,
    pub(crate) grace_ns: u64,
    pub(crate) version: u64,
    pub(crate) changes: Changes,
}

impl Snapshot {
    /// Indexes what is there and what is only remembered; where both claim a place, what is there has it.
    pub(crate) fn build(current: &Facts, remembered: Facts, built: Built) -> Snapshot {
        let mut snapshot = Snapshot {
            built_ns: built.at_ns,
            grace_ns: built.grace_ns,
            version: built.version,
            changes: built.changes,
            ..Snapshot::default()
        };
        // Last in wins, so the remembered go first, the longest gone before the others.
        snapshot.add_pods(remembered.pods.into_iter());
        snapshot.add_pods(current.pods.iter().cloned());
        snapshot.add_containers(remembered.containers.into_iter());
        snapshot.add_containers(current.containers.iter().cloned());
        snapshot.add_devices(remembered.devices.into_iter());
        snapshot.add_devices(current.devices.iter().cloned());
        snapshot
    }

    fn add_pods(&mut self, pods: impl Iterator<Item = Pod>) {
        for pod in pods {
            let number = self.pods.len() as u32;
            if !pod.uid.is_empty() {
                self.by_uid.insert(Arc::clone(&pod.uid), number);
            }
            let name = Pair(Arc::clone(&pod.namespace), Arc::clone(&pod.name));
            let add = |few: &mut Few| few.push(number);
            self.by_name.entry(name).and_modify(add).or_insert(Few::One(number));
            let bare = Arc::clone(&pod.name);
            self.by_bare_name.entry(bare).and_modify(add).or_insert(Few::One(number));
            self.pods.push(pod);
        }
    }

    fn add_containers(&mut self, containers: impl Iterator<Item = Container>) {
        for container in containers {
            if let Some(cgroup) = &container.cgroup {
                self.by_cgroup.insert(Arc::clone(cgroup), Arc::clone(&container.id));
            }
            self.containers.insert(Arc::clone(&container.id), container);
        }
    }

    fn add_devices(&mut self, devices: impl Iterator<Item = Device>) {
        for device in devices {
            let pod = match &*device.pod_uid {
                "" => {
                    let named = self.by_name.get(&PairRef(&device.pod_namespace, &device.pod_name));
                    named.and_then(|few| few.as_slice().last())
                }
                uid => self.by_uid.get(uid),
            };
            let Some(&pod) = pod else { continue };
            let place = self.devices.iter().position(|(label, _)| *label == device.label);
            let place = place.unwrap_or_else(|| {
                self.devices.push((Arc::clone(&device.label), HashMap::new()));
                self.devices.len() - 1
            });
            let key = Pair(Arc::clone(&device.node), Arc::clone(&device.device));
            let number = self.holdings.len() as u32;
            let held = self.devices[place].1.entry(key);
            held.and_modify(|few| few.push(number)).or_insert(Few::One(number));
            self.holdings.push(Holding { device, pod });
        }
    }

    /// The pod with this UID.
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        self.by_uid.get(uid).map(|&pod| &self.pods[pod as usize])
    }

    /// The pod of this namespace and name; the latest, if several followed each other.
    pub fn pod_in(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pod_in_at(namespace, name, None)
    }

    /// The pod that had this namespace and name at that moment (Unix nanoseconds), or has it now.
    pub fn pod_in_at(&self, namespace: &str, name: &str, at_ns: Option<u64>) -> Option<&Pod> {
        let few = self.by_name.get(&PairRef(namespace, name))?;
        self.latest(few, at_ns).map(|pod| &self.pods[pod as usize])
    }

    /// The pod of this name, whatever its namespace.
    pub fn pod_named(&self, name: &str) -> Option<Named<'_>> {
        self.pod_named_at(name, None)
    }

    /// The pod that had this name at that moment (Unix nanoseconds), or has it now, whatever its namespace. One of another
    /// namespace is a reason for doubt also when it is just gone: late samples may be its own.
    pub fn pod_named_at(&self, name: &str, at_ns: Option<u64>) -> Option<Named<'_>> {
        let few = self.by_bare_name.get(name)?;
        let one = &self.pods[self.latest(few, at_ns)? as usize];
        let at = at_ns.unwrap_or(self.built_ns);
        let other = |number: &u32| {
            let pod = &self.pods[*number as usize];
            pod.namespace != one.namespace && self.was_there(pod.valid, at)
        };
        Some(if few.as_slice().iter().any(other) { Named::Several } else { Named::One(one) })
    }

    /// Of pods that followed each other, the one that was there: the one whose time it was, else the last that was just
    /// gone.
    fn latest(&self, few: &Few, at_ns: Option<u64>) -> Option<u32> {
        let at = at_ns.unwrap_or(self.built_ns);
        let valid = |number: &u32| self.pods[*number as usize].valid;
        let numbers = few.as_slice();
        if let [number] = numbers {
            return Some(*number).filter(|number| self.was_there(valid(number), at));
        }
        let exactly = |number: &&u32| {
            let Validity { valid_from_ns, valid_to_ns } = valid(number);
            valid_from_ns <= at && valid_to_ns.is_none_or(|to| at < to)
        };
        let loosely = |number: &&u32| self.was_there(valid(number), at);
        let mut backwards = numbers.iter().rev();
        backwards.clone().find(exactly).or_else(|| backwards.find(loosely)).copied()
    }

    /// Whether a pod is there, or just gone: what is older is known only for samples of its time.
    pub fn is_there(&self, pod: &Pod) -> bool {
        self.was_there(pod.valid, self.built_ns)
    }

    fn was_there(&self, valid: Validity, at_ns: u64) -> bool {
        valid.valid_from_ns <= at_ns.saturating_add(SKEW_NS)
            && valid.valid_to_ns.is_none_or(|to| at_ns < to.saturating_add(self.grace_ns))
    }

    /// All pods, remembered ones first.
    pub fn pods(&self) -> &[Pod] {
        &self.pods
    }

    /// The names of all nodes that a pod or device is on.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        let named = self.pods.iter().map(|pod| &*pod.node);
        let named = named.chain(self.devices().map(|(device, _)| &*device.node));
        let nodes: std::collections::BTreeSet<&str> =
            named.filter(|node| !node.is_empty()).collect();
        nodes.into_iter()
    }

    /// The container with this id.
    pub fn container(&self, id: &str) -> Option<&Container> {
        self.containers.get(id)
    }

    /// All containers, remembered ones among them.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.values()
    }

    /// The labels there are devices under, in the order of [`Snapshot::holder`]'s numbers.
    pub fn device_labels(&self) -> impl ExactSizeIterator<Item = &str> {
        self.devices.iter().map(|(label, _)| &**label)
    }

    /// The pod that holds `device` of `node`, under the label with this number in [`Snapshot::device_labels`]. A pod that
    /// is just gone has taken its devices along.
    pub fn holder(&self, label: usize, node: &str, device: &str) -> Option<&Pod> {
        let (_, devices) = self.devices.get(label)?;
        let few = devices.get(&PairRef(node, device))?;
        let mut backwards = few.as_slice().iter().rev().map(|&number| self.holding(number));
        backwards.find(|(device, pod)| self.is_held(device, pod)).map(|(_, pod)| pod)
    }

    fn holding(&self, number: u32) -> (&Device, &Pod) {
        let Holding { device, pod } = &self.holdings[number as usize];
        (device, &self.pods[*pod as usize])
    }

    fn is_held(&self, device: &Device, pod: &Pod) -> bool {
        match device.valid.valid_to_ns {
            None => true,
            Some(to) => {
                // A living pod that gave a device back does not hold it any more.
                pod.valid.valid_to_ns.is_some() && self.built_ns < to.saturating_add(self.grace_ns)
            }
        }
    }

    /// The pod that held `device` of `node` at that moment (Unix nanoseconds), and since and until when. No grace: a device
    /// that was given back is nobody's.
    pub fn holder_at(
        &self,
        label: usize,
        node: &str,
        device: &str,
        at_ns: u64,
    ) -> Option<(&Pod, Validity)> {
        let (_, devices) = self.devices.get(label)?;
        let few = devices.get(&PairRef(node, device))?.as_slice();
        let holdings = || few.iter().map(|&number| self.holding(number));
        let ends_after = |to: Option<u64>| to.is_none_or(|to| at_ns < to);
        let exactly = holdings().rev().find(|(device, _)| {
            device.valid.valid_from_ns <= at_ns && ends_after(device.valid.valid_to_ns)
        });
        // The first that is known to have held it may have begun a little earlier than its clock says.
        let first = || {
            holdings().next().filter(|(device, _)| {
                device.valid.valid_from_ns <= at_ns.saturating_add(SKEW_NS)
                    && ends_after(device.valid.valid_to_ns)
            })
        };
        exactly.or_else(first).map(|(device, pod)| (pod, device.valid))
    }

    /// Whether anybody is known to hold `device` of `node` or to have held it.
    pub fn has_been_held(&self, label: usize, node: &str, device: &str) -> bool {
        let devices = self.devices.get(label);
        devices.is_some_and(|(_, devices)| devices.contains_key(&PairRef(node, device)))
    }

    /// Every device with the pod that holds it.
    pub fn devices(&self) -> impl Iterator<Item = (&Device, &Pod)> {
        let of_all_labels = self.devices.iter().flat_map(|(_, devices)| devices.values());
        of_all_labels.filter_map(|few| {
            let mut backwards = few.as_slice().iter().rev().map(|&number| self.holding(number));
            backwards.find(|(device, pod)| self.is_held(device, pod))
        })
    }

    /// Grows with every snapshot.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A number for the name of a pod or node, as [`Snapshot::unchanged_since`] takes it; never 0 nor the largest.
    pub fn key(name: &str) -> u32 {
        changes::key(name)
    }

    /// Whether nothing that concerns the pods and nodes with these numbers changed since the snapshot whose version has
    /// this lower half. `false` where that is not known any more.
    pub fn unchanged_since(&self, version: u32, keys: [u32; 2]) -> bool {
        self.changes.none_since(version, keys)
    }

    /// `placement` with all that its ids lead to: names, image and workload. What is not known stays absent.
    pub fn place(&self, placement: &Placement) -> Placement {
        let id = placement.container_id.as_deref();
        self.filled(placement.clone(), id.and_then(|id| self.container(id)))
    }

    /// Who a cgroup belongs to, with names: by the container id in its path, else by a container whose cgroup it is or
    /// lies in.
    pub fn place_cgroup(&self, cgroup: &Cgroup) -> Placement {
        if cgroup.placement.container_id.is_some() || self.by_cgroup.is_empty() {
            return self.place(&cgroup.placement);
        }
        let mut container = None;
        let mut path = cgroup.path.as_deref().unwrap_or("");
        while container.is_none() && !path.is_empty() {
            container = self.by_cgroup.get(path).and_then(|id| self.container(id));
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
        self.filled(cgroup.placement.clone(), container)
    }

    fn filled(&self, mut placement: Placement, container: Option<&Container>) -> Placement {
        let known = |text: &Arc<str>| (!text.is_empty()).then(|| Arc::clone(text));
        let or = |field: &mut Option<Arc<str>>, text: &Arc<str>| {
            *field = field.take().or_else(|| known(text));
        };
        if let Some(container) = container {
            or(&mut placement.container_id, &container.id);
            or(&mut placement.container_name, &container.name);
            or(&mut placement.container_image, &container.image);
            or(&mut placement.pod_uid, &container.pod_uid);
            or(&mut placement.pod_namespace, &container.pod_namespace);
            or(&mut placement.pod_name, &container.pod_name);
        }
        let pod = match (&placement.pod_uid, &placement.pod_namespace, &placement.pod_name) {
            (Some(uid), ..) => self.pod(uid),
            (None, Some(namespace), Some(name)) => self.pod_in(namespace, name),
            _ => None,
        };
        if let Some(pod) = pod {
            or(&mut placement.pod_uid, &pod.uid);
            or(&mut placement.pod_namespace, &pod.namespace);
            or(&mut placement.pod_name, &pod.name);
            if let Some(workload) = pod.workloads.first() {
                or(&mut placement.workload, &workload.name);
            }
        }
        placement
    }
}
