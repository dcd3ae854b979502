//! One moment's knowledge, indexed in parts; immutable.

use crate::cgroup::Cgroup;
use crate::cgroup::path::placement_of;
use crate::changes::{self, Changes};
use crate::doubt::{Doubt, Doubts};
use crate::facts::{Container, Device, Pod, Validity};
use crate::index::{ContainerPart, DevicePart, Few, PairRef, PodPart};
use crate::merge::Now;
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

/// So long after its node took a pod on it is waited for the news of which devices it was given.
const AWAITED_NS: u64 = 300_000_000_000;

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

    /// The labels there are devices under, in the order of [`Snapshot::holder`]'s numbers.
    pub fn device_labels(&self) -> impl ExactSizeIterator<Item = &str> {
        self.labels.iter().map(|label| &**label)
    }

    /// The pod that holds `device` of `node`, under the label with this number in [`Snapshot::device_labels`]. A pod that
    /// is just gone has taken its devices along.
    pub fn holder(&self, label: usize, node: &str, device: &str) -> Option<&Pod> {
        let mut backwards = self.held(label, node, device)?.rev();
        backwards.find(|(device, pod)| self.is_held(device, pod)).map(|(_, pod)| pod)
    }

    /// Who held a device, one after another, with the pods that are known.
    fn held<'a>(
        &'a self,
        label: usize,
        node: &str,
        device: &str,
    ) -> Option<impl DoubleEndedIterator<Item = (&'a Device, &'a Pod)> + use<'a>> {
        let held = self.devices[part_of(node)].held(self.labels.get(label)?, node, device);
        Some(held.filter_map(move |device| Some((device, self.holder_of(device, None)?))))
    }

    /// The pod that a device was given to, where that is known. Of pods that followed each other under the name that the
    /// device's source knows, the one of that moment; the latest where none is given.
    fn holder_of(&self, device: &Device, at_ns: Option<u64>) -> Option<&Pod> {
        if !device.pod_uid.is_empty() {
            return self.pod(&device.pod_uid);
        }
        let part = &self.pods[part_of(&device.pod_name)];
        let named = part.by_name.get(&PairRef(&device.pod_namespace, &device.pod_name))?;
        let mut backwards = named.as_slice().iter().rev().map(|&pod| &part.pods[pod as usize]);
        let Some(at) = at_ns else { return backwards.next() };
        // No grace, as for devices: what a pod that is gone held is nobody's.
        let there = |pod: &&Pod, at_latest: u64| {
            let Validity { valid_from_ns, valid_to_ns } = pod.valid;
            valid_from_ns <= at_latest && valid_to_ns.is_none_or(|to| at < to)
        };
        // A pod that was first heard of from who knows names alone is the one that was heard of by its UID later.
        let known = backwards.clone().filter(|pod| !pod.uid.is_empty());
        let loosely = at.saturating_add(SKEW_NS);
        known
            .clone()
            .find(|pod| there(pod, at))
            .or_else(|| known.clone().find(|pod| there(pod, loosely)))
            .or_else(|| backwards.clone().find(|pod| there(pod, at)))
            .or_else(|| backwards.find(|pod| there(pod, loosely)))
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
        let (pod, mut valid) = self.said_to_hold(label, node, device, at_ns)?;
        // That a pod is gone is often seen late, and its devices may be those of one that has started since.
        if pod.valid.valid_to_ns.is_some()
            && let Some(from) =
                self.awaits_devices_from(node).filter(|from| valid.valid_from_ns < *from)
        {
            valid.valid_to_ns = Some(valid.valid_to_ns.map_or(from, |to| to.min(from)));
        }
        valid.valid_to_ns.is_none_or(|to| at_ns < to).then_some((pod, valid))
    }

    /// The same, as far as those tell who tell of devices and pods.
    fn said_to_hold(
        &self,
        label: usize,
        node: &str,
        device: &str,
        at_ns: u64,
    ) -> Option<(&Pod, Validity)> {
        let label = self.labels.get(label)?;
        let mut found: Option<(&Pod, Validity)> = None;
        let (mut before, mut is_first) = (None, true);
        for device in self.devices[part_of(node)].held(label, node, device) {
            let there = self.holder_of(device, Some(at_ns));
            let Some(pod) = there.or_else(|| self.holder_of(device, None)) else { continue };
            let valid = held_by(device, pod, before);
            before = Some(pod);
            let (begins, ended) = (valid.valid_from_ns, valid.valid_to_ns);
            // The first that is known to have held it may have begun a little earlier than its clock says.
            let slack = if there.is_some() && std::mem::take(&mut is_first) { SKEW_NS } else { 0 };
            let held = begins <= at_ns.saturating_add(slack) && ended.is_none_or(|to| at_ns < to);
            if there.is_some() && held {
                found = Some((pod, valid));
            } else if let Some((_, known)) = &mut found {
                // That it was given back is often seen only after the next has it, or even had it.
                if begins > at_ns {
                    let until = known.valid_to_ns.map_or(begins, |until| until.min(begins));
                    known.valid_to_ns = Some(until);
                } else if begins > known.valid_from_ns {
                    found = None;
                } else if let Some(to) = ended.filter(|to| *to <= at_ns) {
                    known.valid_from_ns = known.valid_from_ns.max(to);
                }
            }
        }
        found
    }

    /// Who held `device` of `node` last before whoever has it at that moment (Unix nanoseconds), or before nobody has, and since
    /// and until when.
    pub fn holder_before(
        &self,
        label: usize,
        node: &str,
        device: &str,
        at_ns: u64,
    ) -> Option<(&Pod, Validity)> {
        let name = self.labels.get(label)?;
        let held = self.holder_at(label, node, device, at_ns);
        let until = held.map_or(at_ns, |(_, valid)| valid.valid_from_ns);
        let ends = self.devices[part_of(node)].held(name, node, device).filter_map(|device| {
            let of_pod = self.holder_of(device, None).and_then(|pod| pod.valid.valid_to_ns);
            device.valid.valid_to_ns.into_iter().chain(of_pod).min()
        });
        let ends = ends.filter(|end| *end <= until).chain(held.map(|_| until));
        let mut ends: Vec<u64> = ends.collect();
        ends.sort_unstable();
        // That one has given it back may be seen only when the next has it: the latest end after which somebody had it counts.
        ends.into_iter().rev().find_map(|end| {
            let (pod, valid) = self.holder_at(label, node, device, end.checked_sub(1)?)?;
            Some((pod, Validity { valid_to_ns: Some(end), ..valid }))
        })
    }

    /// When the inventory began, in Unix nanoseconds.
    pub fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    /// Why it is not known who held devices of `node` under the label with this number at that moment (Unix nanoseconds): who
    /// told of them is not heard any more. `None` where that is known.
    pub fn doubt<'a>(&self, label: usize, node: &'a str, at_ns: u64) -> Option<Doubt<'a>> {
        let label = self.labels.get(label)?;
        let told_by = self.devices[part_of(node)].told_by(label, node);
        self.doubts.of(told_by, node, at_ns)
    }

    /// Whether this is a node of whose devices somebody told.
    pub fn knows_node(&self, node: &str) -> bool {
        self.devices[part_of(node)].knows_node(node) || self.doubts.knows_node(node)
    }

    /// Whether a source tells of this node, or will, which devices its pods were given.
    pub fn is_told_of(&self, node: &str) -> bool {
        self.doubts.will_be_told_of(node)
    }

    /// Whether `node` had taken a pod on by that moment (Unix nanoseconds) that asks for devices, and it is still to be told
    /// which ones it was given. That is waited for only so long: some kinds of devices nobody tells of.
    pub fn awaits_devices(&self, node: &str, at_ns: u64) -> bool {
        self.awaits_devices_from(node).is_some_and(|from| from <= at_ns)
    }

    /// From when on that is so.
    fn awaits_devices_from(&self, node: &str) -> Option<u64> {
        let awaiting = || self.pods.iter().filter_map(|part| part.awaiting.get(node)).flatten();
        awaiting().next().filter(|_| self.is_told_of(node))?;
        let since = Now::here().unix_ns.saturating_sub(AWAITED_NS);
        awaiting().copied().filter(|started| (*started).max(self.begun_ns) > since).min()
    }

    /// Whether devices of `node` are known to be held, or to have been, under the label with this number.
    pub fn has_devices(&self, label: usize, node: &str) -> bool {
        let label = self.labels.get(label);
        label.is_some_and(|label| self.devices[part_of(node)].has_devices(label, node))
    }

    /// Whether anybody is known to hold `device` of `node` or to have held it.
    pub fn has_been_held(&self, label: usize, node: &str, device: &str) -> bool {
        self.held(label, node, device).is_some_and(|mut held| held.next().is_some())
    }

    /// Every device with the pod that holds it.
    pub fn devices(&self) -> impl Iterator<Item = (&Device, &Pod)> {
        self.devices.iter().flat_map(|part| part.all()).filter_map(|held| {
            let mut known =
                held.rev().filter_map(|device| Some((device, self.holder_of(device, None)?)));
            known.find(|(device, pod)| self.is_held(device, pod))
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

/// When a pod held a device, which `before` had before it. A source that knows pods by name alone goes on saying so when
/// another of that name follows, and says it late when a pod is new: such a pod has had its devices since its node took it
/// on, unless whoever had them before lives on and gave them away.
fn held_by(device: &Device, pod: &Pod, before: Option<&Pod>) -> Validity {
    if !device.pod_uid.is_empty() {
        return device.valid;
    }
    let ends = device.valid.valid_to_ns.into_iter().chain(pod.valid.valid_to_ns);
    let heard = device.valid.valid_from_ns.max(pod.valid.valid_from_ns);
    let free = before.is_none_or(|before| before.valid.valid_to_ns.is_some());
    let started = pod.started_ns.filter(|_| free);
    Validity {
        valid_from_ns: started.map_or(heard, |started| started.min(heard)),
        valid_to_ns: ends.min(),
    }
}
