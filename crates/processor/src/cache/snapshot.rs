//! One moment's knowledge, indexed; immutable.

use std::hash::{Hash, Hasher};

use crosstalk_remote_write::Label;
use hashbrown::{Equivalent, HashMap};

use super::inventory::{Device, Inventory, Pod, Workload};
use super::roles::{LabelNames, MAX_NAMES, Roles};

/// Why a series has no workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Miss {
    /// No label names a pod, nor a device on a node.
    NoPodLabel,
    /// No such device, and no label names a pod.
    UnknownDevice,
    /// No such pod.
    UnknownPod,
    /// Several pods have this name and no label tells them apart.
    AmbiguousPod,
    /// A pod of this name is known under another UID.
    OtherUid,
    /// The pod is known but belongs to no workload.
    NoWorkload,
}

impl Miss {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Miss; 6] = [
        Miss::NoPodLabel,
        Miss::UnknownDevice,
        Miss::UnknownPod,
        Miss::AmbiguousPod,
        Miss::OtherUid,
        Miss::NoWorkload,
    ];

    /// The reason as metrics and tags show it.
    pub fn name(self) -> &'static str {
        match self {
            Miss::NoPodLabel => "no_pod_label",
            Miss::UnknownDevice => "unknown_device",
            Miss::UnknownPod => "unknown_pod",
            Miss::AmbiguousPod => "ambiguous_pod",
            Miss::OtherUid => "other_uid",
            Miss::NoWorkload => "no_workload",
        }
    }
}

/// A pod in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEntry {
    /// Namespace; empty when not known.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// UID; empty when not known.
    pub uid: Box<str>,
    /// Node; empty when not known.
    pub node: Box<str>,
    /// Workloads.
    pub workloads: Vec<Workload>,
    /// Whether it is deleted and only remembered.
    pub departed: bool,
}

/// A pair of strings as a key, looked up without building one.
#[derive(Debug, PartialEq, Eq)]
struct Pair(Box<str>, Box<str>);

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

/// Pods that share a name.
#[derive(Debug)]
enum Named {
    One(u32),
    Several,
}

/// Everything known at one moment.
#[derive(Debug)]
pub struct Snapshot {
    pods: Vec<PodEntry>,
    by_uid: HashMap<Box<str>, u32>,
    /// By namespace and name.
    by_name: HashMap<Pair, u32>,
    by_bare_name: HashMap<Box<str>, Named>,
    /// By device label: node and device to pod.
    devices: Vec<(Box<str>, HashMap<Pair, u32>)>,
    roles: Roles,
}

impl Snapshot {
    /// Indexes what is there and what is only remembered; where both claim a place, what is there has it.
    pub fn build(current: &Inventory, remembered: &Inventory, names: &LabelNames) -> Snapshot {
        let mut snapshot = Snapshot {
            pods: Vec::with_capacity(current.pods.len() + remembered.pods.len()),
            by_uid: HashMap::new(),
            by_name: HashMap::new(),
            by_bare_name: HashMap::new(),
            devices: Vec::new(),
            roles: Roles::default(),
        };
        // Last in wins, so the remembered go first, the longest gone before the others.
        snapshot.add_pods(&remembered.pods, true);
        snapshot.add_pods(&current.pods, false);
        snapshot.add_devices(&remembered.devices);
        snapshot.add_devices(&current.devices);
        let labels: Vec<&str> = snapshot.devices.iter().map(|(label, _)| &**label).collect();
        snapshot.roles = Roles::new(names, &labels);
        snapshot
    }

    fn add_pods(&mut self, pods: &[Pod], departed: bool) {
        for pod in pods {
            let number = self.pods.len() as u32;
            self.pods.push(PodEntry {
                namespace: pod.namespace.as_str().into(),
                name: pod.name.as_str().into(),
                uid: pod.uid.as_str().into(),
                node: pod.node.as_str().into(),
                workloads: pod.workloads.clone(),
                departed,
            });
            if !pod.uid.is_empty() {
                self.by_uid.insert(pod.uid.as_str().into(), number);
            }
            let name = Pair(pod.namespace.as_str().into(), pod.name.as_str().into());
            self.by_name.insert(name, number);
            self.note_bare_name(&pod.name, number);
        }
    }

    /// A pod that followed another of the same namespace and name is no reason for doubt. One of another namespace is,
    /// also when it is gone: late samples may be its own.
    fn note_bare_name(&mut self, name: &str, number: u32) {
        let other = match self.by_bare_name.get(name) {
            Some(Named::One(other)) => Some(&self.pods[*other as usize]),
            Some(Named::Several) => return,
            None => None,
        };
        let doubt =
            other.is_some_and(|other| *other.namespace != *self.pods[number as usize].namespace);
        let named = if doubt { Named::Several } else { Named::One(number) };
        self.by_bare_name.insert(name.into(), named);
    }

    fn add_devices(&mut self, devices: &[Device]) {
        for device in devices {
            let pod = match device.pod_uid.as_str() {
                "" => self.by_name.get(&PairRef(&device.pod_namespace, &device.pod_name)),
                uid => self.by_uid.get(uid),
            };
            let Some(&pod) = pod else { continue };
            let place = self.devices.iter().position(|(label, _)| **label == *device.label);
            let place = place.unwrap_or_else(|| {
                self.devices.push((device.label.as_str().into(), HashMap::new()));
                self.devices.len() - 1
            });
            let key = Pair(device.node.as_str().into(), device.device.as_str().into());
            self.devices[place].1.insert(key, pod);
        }
    }

    /// The pod that a series with these labels is about, if it belongs to a workload.
    pub fn find(&self, labels: &[Label<'_>]) -> Result<&PodEntry, Miss> {
        let said = self.roles.read(labels);
        if let Some(node) = said.node() {
            for (place, (_, pods)) in self.devices.iter().take(MAX_NAMES).enumerate() {
                let held = said.devices[place].and_then(|device| pods.get(&PairRef(node, device)));
                if let Some(&pod) = held {
                    return self.with_workload(pod);
                }
            }
        }
        let mut miss = None;
        for (place, name) in said.pods.iter().enumerate() {
            let Some(name) = name else { continue };
            let namespace = self.roles.namespace(&said, place);
            match self.by_labels(name, namespace, said.uid()) {
                Ok(pod) => return self.with_workload(pod),
                Err(reason) => miss = miss.or(Some(reason)),
            }
        }
        if miss.is_none()
            && let Some(&pod) = said.uid().and_then(|uid| self.by_uid.get(uid))
        {
            return self.with_workload(pod);
        }
        let device_said = said.node().is_some() && said.devices.iter().any(Option::is_some);
        Err(miss.unwrap_or(if device_said { Miss::UnknownDevice } else { Miss::NoPodLabel }))
    }

    fn by_labels(
        &self,
        name: &str,
        namespace: Option<&str>,
        uid: Option<&str>,
    ) -> Result<u32, Miss> {
        if let Some(&pod) = uid.and_then(|uid| self.by_uid.get(uid))
            && *self.pods[pod as usize].name == *name
        {
            return Ok(pod);
        }
        let pod = match namespace {
            Some(namespace) => match self.by_name.get(&PairRef(namespace, name)) {
                Some(&pod) => pod,
                // A source that knows no namespaces knows the pod by its bare name.
                None => *self.by_name.get(&PairRef("", name)).ok_or(Miss::UnknownPod)?,
            },
            None => match self.by_bare_name.get(name) {
                Some(Named::One(pod)) => *pod,
                Some(Named::Several) => return Err(Miss::AmbiguousPod),
                None => return Err(Miss::UnknownPod),
            },
        };
        let known = &self.pods[pod as usize].uid;
        match uid {
            // Exporters also call other things `uid`, user numbers for example: only what looks like a Kubernetes UID
            // can contradict.
            Some(uid) if looks_like_uid(uid) && !known.is_empty() && **known != *uid => {
                Err(Miss::OtherUid)
            }
            _ => Ok(pod),
        }
    }

    fn with_workload(&self, pod: u32) -> Result<&PodEntry, Miss> {
        let pod = &self.pods[pod as usize];
        if pod.workloads.is_empty() { Err(Miss::NoWorkload) } else { Ok(pod) }
    }

    /// The pod with this UID.
    pub fn pod_by_uid(&self, uid: &str) -> Option<&PodEntry> {
        self.by_uid.get(uid).map(|&pod| &self.pods[pod as usize])
    }

    /// The pod of this name: by UID and name, by namespace and name, without a namespace by a name that only one
    /// namespace has; never one that the UID contradicts.
    pub fn pod_named(
        &self,
        name: &str,
        namespace: Option<&str>,
        uid: Option<&str>,
    ) -> Option<&PodEntry> {
        self.by_labels(name, namespace, uid).ok().map(|pod| &self.pods[pod as usize])
    }

    /// All pods, remembered ones among them.
    pub fn pods(&self) -> &[PodEntry] {
        &self.pods
    }

    /// Every device with its pod: node, label, device, pod.
    pub fn devices(&self) -> impl Iterator<Item = (&str, &str, &str, &PodEntry)> {
        self.devices.iter().flat_map(move |(label, devices)| {
            devices.iter().map(move |(Pair(node, device), &pod)| {
                (&**node, &**label, &**device, &self.pods[pod as usize])
            })
        })
    }
}

fn looks_like_uid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
