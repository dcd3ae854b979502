//! One moment's knowledge, indexed; immutable.

use crate::cgroup::Cgroup;
use crate::facts::{Container, Device, Facts, Pod};
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

#[derive(Debug, Clone, Copy)]
enum NamedPlace {
    One(u32),
    Several,
}

/// Everything known at one moment, what is over among it (see [`crate::Validity`]).
#[derive(Debug, Default)]
pub struct Snapshot {
    pods: Vec<Pod>,
    by_uid: HashMap<Arc<str>, u32>,
    /// By namespace and name.
    by_name: HashMap<Pair, u32>,
    by_bare_name: HashMap<Arc<str>, NamedPlace>,
    containers: HashMap<Arc<str>, Container>,
    /// Container ids by cgroup path.
    by_cgroup: HashMap<Arc<str>, Arc<str>>,
    /// By label.
    devices: Vec<(Arc<str>, Held)>,
}

/// By node and device: the fact, and the number of its pod.
type Held = HashMap<Pair, (Device, u32)>;

impl Snapshot {
    /// Indexes what is there and what is only remembered; where both claim a place, what is there has it.
    pub(crate) fn build(current: &Facts, remembered: Facts) -> Snapshot {
        let mut snapshot = Snapshot::default();
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
            self.by_name.insert(name, number);
            self.note_bare_name(&pod, number);
            self.pods.push(pod);
        }
    }

    /// A pod that followed another of the same namespace and name is no reason for doubt. One of another namespace is,
    /// also when it is gone: late samples may be its own.
    fn note_bare_name(&mut self, pod: &Pod, number: u32) {
        let other = match self.by_bare_name.get(&pod.name) {
            Some(NamedPlace::One(other)) => Some(&self.pods[*other as usize]),
            Some(NamedPlace::Several) => return,
            None => None,
        };
        let doubt = other.is_some_and(|other| other.namespace != pod.namespace);
        let named = if doubt { NamedPlace::Several } else { NamedPlace::One(number) };
        self.by_bare_name.insert(Arc::clone(&pod.name), named);
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
                "" => self.by_name.get(&PairRef(&device.pod_namespace, &device.pod_name)),
                uid => self.by_uid.get(uid),
            };
            let Some(&pod) = pod else { continue };
            let place = self.devices.iter().position(|(label, _)| *label == device.label);
            let place = place.unwrap_or_else(|| {
                self.devices.push((Arc::clone(&device.label), HashMap::new()));
                self.devices.len() - 1
            });
            let key = Pair(Arc::clone(&device.node), Arc::clone(&device.device));
            self.devices[place].1.insert(key, (device, pod));
        }
    }

    /// The pod with this UID.
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        self.by_uid.get(uid).map(|&pod| &self.pods[pod as usize])
    }

    /// The pod of this namespace and name; the latest, if several followed each other.
    pub fn pod_in(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.by_name.get(&PairRef(namespace, name)).map(|&pod| &self.pods[pod as usize])
    }

    /// The pod of this name, whatever its namespace.
    pub fn pod_named(&self, name: &str) -> Option<Named<'_>> {
        self.by_bare_name.get(name).map(|named| match named {
            NamedPlace::One(pod) => Named::One(&self.pods[*pod as usize]),
            NamedPlace::Several => Named::Several,
        })
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

    /// The pod that holds `device` of `node`, under the label with this number in [`Snapshot::device_labels`].
    pub fn holder(&self, label: usize, node: &str, device: &str) -> Option<&Pod> {
        let (_, devices) = self.devices.get(label)?;
        devices.get(&PairRef(node, device)).map(|(_, pod)| &self.pods[*pod as usize])
    }

    /// Every device with the pod that holds it.
    pub fn devices(&self) -> impl Iterator<Item = (&Device, &Pod)> {
        let of_all_labels = self.devices.iter().flat_map(|(_, devices)| devices.values());
        of_all_labels.map(|(device, pod)| (device, &self.pods[*pod as usize]))
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
