//! One moment's knowledge, indexed in parts; immutable.

mod devices;

use crate::cgroup::Cgroup;
use crate::cgroup::path::placement_of;
use crate::changes::{self, Changes};
use crate::doubt::Doubts;
use crate::facts::{Container, Pod, Validity};
use crate::index::{ContainerPart, DevicePart, Few, PairRef, PodPart};
use crate::parts::{PARTS, part_of};
use crosstalk_model::Placement;
use hashbrown::HashMap;
use std::sync::Arc;

/// The pods that a name alone leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named<'a> {
    /// One, or several that followed each other in one namespace: the latest.
    One(&'a Pod),
    /// Pods of several namespaces have this name.
    Several,
}

/// Clocks of nodes and of whoever dates facts differ, and creation times have whole seconds: what begins so little after
/// a moment is taken to have been there.
const SKEW_NS: u64 = 60_000_000_000;

/// So long after its end the owners of a pod may still be told.
const OWNERS_OF_GONE_NS: u64 = 600_000_000_000;

/// Everything known at one moment, what is over among it (see [`crate::Validity`]).
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// By name.
    pods: Vec<Arc<PodPart>>,
    /// By UID: the part that the pod is in.
    uids: Vec<Arc<HashMap<Arc<str>, u8>>>,
    /// By node.
    devices: Vec<Arc<DevicePart>>,
    containers: Arc<ContainerPart>,
    /// Labels there are devices under, sorted.
    labels: Vec<Arc<str>>,
    /// When this was put together, in Unix nanoseconds.
    built_ns: u64,
    /// How long after its end a pod is still spoken of.
    grace_ns: u64,
    version: u64,
    changes: Changes,
    doubts: Arc<Doubts>,
    /// When the inventory began.
    begun_ns: u64,
}

impl Default for Snapshot {
    fn default() -> Self {
        fn parts<P: Default>() -> Vec<Arc<P>> {
            (0..PARTS).map(|_| Arc::default()).collect()
        }
        Snapshot {
            pods: parts(),
            uids: parts(),
            devices: parts(),
            containers: Arc::default(),
            labels: Vec::new(),
            built_ns: 0,
            grace_ns: 0,
            version: 0,
            changes: Changes::default(),
            doubts: Arc::default(),
            begun_ns: 0,
        }
    }
}

/// A moment, and for how long after its end what is over counts as there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Built {
    pub(crate) at_ns: u64,
    pub(crate) grace_ns: u64,
    pub(crate) version: u64,
    pub(crate) changes: Changes,
    pub(crate) doubts: Arc<Doubts>,
    pub(crate) begun_ns: u64,
}

impl Snapshot {
    /// Puts another part of pods in the place of one.
    pub(crate) fn set_pods(&mut self, number: usize, part: PodPart) {
        let before = std::mem::replace(&mut self.pods[number], Arc::new(part));
        let part = &self.pods[number];
        for uid in before.by_uid.keys().filter(|uid| !part.by_uid.contains_key(*uid)) {
            let uids = &mut self.uids[part_of(uid)];
            if uids.get(uid) == Some(&(number as u8)) {
                Arc::make_mut(uids).remove(uid);
            }
        }
        for uid in part.by_uid.keys() {
            let uids = &mut self.uids[part_of(uid)];
            if uids.get(uid) != Some(&(number as u8)) {
                Arc::make_mut(uids).insert(Arc::clone(uid), number as u8);
            }
        }
    }

    /// Puts another part of devices in the place of one.
    pub(crate) fn set_devices(&mut self, number: usize, part: DevicePart) {
        self.devices[number] = Arc::new(part);
    }

    pub(crate) fn set_containers(&mut self, part: ContainerPart) {
        self.containers = Arc::new(part);
    }

    /// Finds which labels there are devices under; whether they are others than before.
    pub(crate) fn set_labels(&mut self) -> bool {
        let parts = self.devices.iter().flat_map(|part| part.labels());
        let labels: std::collections::BTreeSet<&Arc<str>> = parts.collect();
        let labels: Vec<Arc<str>> = labels.into_iter().map(Arc::clone).collect();
        let other = labels != self.labels;
        self.labels = labels;
        other
    }

    pub(crate) fn set_built(&mut self, built: Built) {
        let Built { at_ns, grace_ns, version, changes, doubts, begun_ns } = built;
        (self.built_ns, self.grace_ns) = (at_ns, grace_ns);
        (self.version, self.changes) = (version, changes);
        (self.doubts, self.begun_ns) = (doubts, begun_ns);
    }

    pub(crate) fn doubts(&self) -> &Doubts {
        &self.doubts
    }

    /// How many parts another snapshot does not share.
    #[cfg(test)]
    pub(crate) fn parts_not_of(&self, other: &Snapshot) -> usize {
        fn differing<P>(one: &[Arc<P>], other: &[Arc<P>]) -> usize {
            one.iter().zip(other).filter(|(one, other)| !Arc::ptr_eq(one, other)).count()
        }
        differing(&self.pods, &other.pods)
            + differing(&self.uids, &other.uids)
            + differing(&self.devices, &other.devices)
            + usize::from(!Arc::ptr_eq(&self.containers, &other.containers))
    }

    /// The pod with this UID.
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        let part = *self.uids[part_of(uid)].get(uid)?;
        let part = &self.pods[usize::from(part)];
        part.by_uid.get(uid).map(|&pod| &part.pods[pod as usize])
    }

    /// The pod of this namespace and name; the latest, if several followed each other.
    pub fn pod_in(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pod_in_at(namespace, name, None)
    }

    /// The pod that had this namespace and name at that moment (Unix nanoseconds), or has it now.
    pub fn pod_in_at(&self, namespace: &str, name: &str, at_ns: Option<u64>) -> Option<&Pod> {
        let part = &self.pods[part_of(name)];
        let few = part.by_name.get(&PairRef(namespace, name))?;
        self.latest(part, few, at_ns)
    }

    /// The pod that had this name at that moment (Unix nanoseconds), or has it now, whatever its namespace. One of another
    /// namespace is a reason for doubt also when it is just gone: late samples may be its own.
    pub fn pod_named_at(&self, name: &str, at_ns: Option<u64>) -> Option<Named<'_>> {
        let part = &self.pods[part_of(name)];
        let few = part.by_bare_name.get(name)?;
        let one = self.latest(part, few, at_ns)?;
        let at = at_ns.unwrap_or(self.built_ns);
        let other = |number: &u32| {
            let pod = &part.pods[*number as usize];
            pod.namespace != one.namespace && self.was_there(pod.valid, at)
        };
        Some(if few.as_slice().iter().any(other) { Named::Several } else { Named::One(one) })
    }

    /// Of pods that followed each other, the one that was there: the one whose time it was, else the last that was just
    /// gone.
    fn latest<'a>(&self, part: &'a PodPart, few: &Few, at_ns: Option<u64>) -> Option<&'a Pod> {
        let at = at_ns.unwrap_or(self.built_ns);
        let pod = |number: &u32| &part.pods[*number as usize];
        let valid = |number: &u32| pod(number).valid;
        let numbers = few.as_slice();
        if let [number] = numbers {
            return Some(pod(number)).filter(|pod| self.was_there(pod.valid, at));
        }
        let exactly = |number: &&u32| {
            let Validity { valid_from_ns, valid_to_ns } = valid(number);
            valid_from_ns <= at && valid_to_ns.is_none_or(|to| at < to)
        };
        let loosely = |number: &&u32| self.was_there(valid(number), at);
        let mut backwards = numbers.iter().rev();
        backwards.clone().find(exactly).or_else(|| backwards.find(loosely)).map(pod)
    }

    /// Whether a pod is there, or just gone: what is older is known only for samples of its time.
    pub fn is_there(&self, pod: &Pod) -> bool {
        self.was_there(pod.valid, self.built_ns)
    }

    fn was_there(&self, valid: Validity, at_ns: u64) -> bool {
        valid.valid_from_ns <= at_ns.saturating_add(SKEW_NS)
            && valid.valid_to_ns.is_none_or(|to| at_ns < to.saturating_add(self.grace_ns))
    }

    /// Whether it is still waited for the owners of this pod. Of one that is gone for long nobody will tell them any more.
    pub fn awaits_owners(&self, pod: &Pod) -> bool {
        let gone_for_long = |to: u64| to.saturating_add(OWNERS_OF_GONE_NS) < self.built_ns;
        pod.owners_awaited && !pod.valid.valid_to_ns.is_some_and(gone_for_long)
    }

    /// Whether a source hears of the pods of this namespace as they come; `None` where none hears of any.
    pub fn follows_pods_of(&self, namespace: &str) -> Option<bool> {
        self.doubts.follows.as_ref().map(|follows| follows.pods_of(namespace))
    }

    /// All pods; of those with one name the remembered ones first.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().flat_map(|part| &part.pods)
    }

    /// The names of all nodes that a pod or device is on.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        let named = self.pods().map(|pod| &*pod.node);
        let named = named.chain(self.devices().map(|(device, _)| &*device.node));
        let nodes: std::collections::BTreeSet<&str> =
            named.filter(|node| !node.is_empty()).collect();
        nodes.into_iter()
    }

    /// The container with this id.
    pub fn container(&self, id: &str) -> Option<&Container> {
        self.containers.by_id.get(id)
    }

    /// All containers, remembered ones among them.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.by_id.values()
    }

    /// When the inventory began, in Unix nanoseconds.
    pub fn begun_ns(&self) -> u64 {
        self.begun_ns
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
        self.place_within(cgroup.path.as_deref().unwrap_or(""), &cgroup.placement)
    }

    /// The same, of the cgroup at a path.
    pub fn place_path(&self, path: &str) -> Placement {
        self.place_within(path, &placement_of(path))
    }

    fn place_within(&self, mut path: &str, placement: &Placement) -> Placement {
        if placement.container_id.is_some() || self.containers.by_cgroup.is_empty() {
            return self.place(placement);
        }
        let mut container = None;
        while container.is_none() && !path.is_empty() {
            container = self.containers.by_cgroup.get(path).and_then(|id| self.container(id));
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
        self.filled(placement.clone(), container)
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
