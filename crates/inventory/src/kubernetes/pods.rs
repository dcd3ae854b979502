//! The pods as far as the watch has told, without any I/O.

use super::koordinator;
use crate::facts::{Container, Device, Facts, NearestOwner, Pod, Validity, Workload, role_of};
use crate::merge::Now;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Annotation with the devices a pod holds, for clusters whose device plugin or scheduler writes it:
/// `{"gpu": ["0", "1"], "rdma": ["mlx5_0"]}`.
const DEVICES_ANNOTATION: &str = "crosstalk.dev/devices";

/// A pod of the API, of which only the fields that matter here are read.
pub(super) type Object = kube::core::Object<Spec, Status>;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    node_name: Option<Arc<str>>,
    priority: Option<i64>,
    #[serde(default)]
    containers: Vec<ContainerSpec>,
    #[serde(default)]
    init_containers: Vec<ContainerSpec>,
    #[serde(default)]
    resource_claims: Vec<IgnoredAny>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct ContainerSpec {
    #[serde(default)]
    resources: Resources,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Resources {
    #[serde(default)]
    limits: HashMap<String, Quantity>,
}

/// Devices are counted in whole ones, written as text or as numbers.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Quantity {
    Text(String),
    Number(f64),
}

impl Quantity {
    fn is_none(&self) -> bool {
        match self {
            Quantity::Text(text) => text == "0",
            Quantity::Number(number) => *number == 0.0,
        }
    }
}

impl Spec {
    /// Whether the pod asks for devices: resources with a domain before their names that is not Kubernetes' own, or claims.
    fn asks_for_devices(&self) -> bool {
        let of_device = |(name, quantity): (&String, &Quantity)| {
            let domain = name.split_once('/').map(|(domain, _)| domain);
            let own =
                |domain: &str| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
            domain.is_some_and(|domain| !own(domain)) && !quantity.is_none()
        };
        let mut containers = self.containers.iter().chain(&self.init_containers);
        !self.resource_claims.is_empty()
            || containers.any(|container| container.resources.limits.iter().any(of_device))
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    phase: Option<String>,
    qos_class: Option<String>,
    start_time: Option<Time>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
    ephemeral_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ContainerStatus {
    name: Arc<str>,
    #[serde(default)]
    image: Arc<str>,
    /// `containerd://ID`, once it was created.
    #[serde(rename = "containerID")]
    id: Option<String>,
    #[serde(default)]
    state: State,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct State {
    terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terminated {
    finished_at: Option<Time>,
}

/// What a watch has built up.
#[derive(Debug, Default)]
pub(super) struct Pods {
    /// By UID.
    known: HashMap<Arc<str>, Known>,
    /// UIDs of those that changed, came or went since it was last told.
    unpublished: HashSet<Arc<str>>,
    /// Whether nobody wants to know of containers.
    without_containers: bool,
    /// By UID, as an earlier process knew them: whose owners cannot be asked for since has these.
    remembered: HashMap<Arc<str>, Pod>,
    /// UIDs of those that were told without their owners, which are still waited for.
    awaiting: HashSet<Arc<str>>,
    /// UIDs of those among them that are gone since: they are forgotten once it was told whose they were.
    leaving: HashSet<Arc<str>>,
}

/// Whom the chain of owners that begins with one leads to.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    /// The nearest that is a workload of its own.
    pub(super) nearest: &'a OwnerReference,
    pub(super) top: &'a OwnerReference,
    /// Whether that is all of it, as far as anybody may know.
    pub(super) learnt: bool,
    /// Whether it is not, and the rest is still waited for.
    pub(super) awaited: bool,
}

/// A pod, reduced to what is needed of it.
#[derive(Debug, PartialEq)]
struct Known {
    pod: Pod,
    owner: Option<OwnerReference>,
    containers: Vec<Container>,
    devices: Vec<(Arc<str>, Arc<str>)>,
}

/// The owner that controls an object, if any: there is at most one. Some custom controllers leave the mark out; a
/// single reference is then taken for it.
pub(super) fn controller(metadata: ObjectMeta) -> Option<OwnerReference> {
    let mut references = metadata.owner_references.unwrap_or_default();
    let marked = references.iter().position(|reference| reference.controller == Some(true));
    match (marked, references.as_slice()) {
        (Some(place), _) => Some(references.swap_remove(place)),
        (None, [only]) if only.controller.is_none() => references.pop(),
        _ => None,
    }
}

impl Pods {
    /// None yet.
    pub(super) fn new(containers: bool) -> Self {
        Pods { without_containers: !containers, ..Pods::default() }
    }

    fn read(&self, object: Object) -> Known {
        let mut known = Known::of(object);
        if self.without_containers {
            known.containers = Vec::new();
        }
        known
    }

    /// Takes over what an earlier process knew of their owners, until that can be asked for.
    pub(super) fn remember(&mut self, pods: Vec<Pod>) {
        let known = pods.into_iter().filter(|pod| !pod.owners_awaited);
        self.remembered = known.map(|pod| (Arc::clone(&pod.uid), pod)).collect();
    }

    /// Forgets what an earlier process knew of pods that are gone, or whose owners `is_learnt` says to be known. Gives the
    /// UIDs of the latter: they are to be told anew.
    pub(super) fn forget_remembered(
        &mut self,
        is_learnt: impl Fn(&OwnerReference) -> bool,
    ) -> Vec<Arc<str>> {
        let Pods { known, remembered, .. } = self;
        let mut learnt = Vec::new();
        remembered.retain(|uid, _| match known.get(uid) {
            Some(known) if !known.owner.as_ref().is_none_or(&is_learnt) => true,
            Some(_) => {
                learnt.push(Arc::clone(uid));
                false
            }
            None => false,
        });
        learnt
    }

    /// Begins anew with a whole list.
    pub(super) fn replace(&mut self, pods: Vec<Object>) {
        let read = pods.into_iter().map(|pod| self.read(pod));
        let known = read.map(|known| (Arc::clone(&known.pod.uid), known)).collect();
        let before = std::mem::replace(&mut self.known, known);
        for (uid, known) in before {
            if self.awaiting.contains(&uid) && !self.known.contains_key(&uid) {
                self.leave(known);
            }
        }
    }

    /// Keeps a pod that is gone until it was told whose it was: what was measured of it is still under way.
    fn leave(&mut self, mut known: Known) {
        let uid = Arc::clone(&known.pod.uid);
        known.pod.valid.valid_to_ns.get_or_insert(Now::here().unix_ns);
        self.leaving.insert(Arc::clone(&uid));
        self.known.insert(uid, known);
    }

    /// Takes a pod that is new or changed; whether that matters here. Most changes of a pod (probes, conditions) do not.
    pub(super) fn apply(&mut self, pod: Object) -> bool {
        let known = self.read(pod);
        let same = self.known.get(&known.pod.uid).is_some_and(|before| *before == known);
        if !same {
            self.unpublished.insert(Arc::clone(&known.pod.uid));
            self.known.insert(Arc::clone(&known.pod.uid), known);
        }
        !same
    }

    pub(super) fn delete(&mut self, pod: &Object) -> bool {
        let gone = pod.metadata.uid.as_deref().and_then(|uid| self.known.remove_entry(uid));
        let Some((uid, known)) = gone else { return false };
        if self.awaiting.contains(&uid) {
            self.leave(known);
        }
        self.unpublished.insert(uid);
        true
    }

    /// Whether a pod was told without its owners that are not waited for any more: known by now, or not for too long.
    pub(super) fn has_waited(&self, is_awaited: impl Fn(&OwnerReference) -> bool) -> bool {
        self.awaiting.iter().any(|uid| !self.waits(uid, &is_awaited))
    }

    /// The UIDs of all those pods, which are to be told anew.
    pub(super) fn take_waited(
        &mut self,
        is_awaited: impl Fn(&OwnerReference) -> bool,
    ) -> HashSet<Arc<str>> {
        let mut awaiting = std::mem::take(&mut self.awaiting);
        let waited = awaiting.extract_if(|uid| !self.waits(uid, &is_awaited)).collect();
        self.awaiting = awaiting;
        waited
    }

    fn waits(&self, uid: &str, is_awaited: impl Fn(&OwnerReference) -> bool) -> bool {
        self.known.get(uid).and_then(|known| known.owner.as_ref()).is_some_and(is_awaited)
    }

    /// Notes which pods were published without their owners. Those that are gone and whose owners were published can be
    /// forgotten; whether there are any.
    pub(super) fn note_published(&mut self, pods: &[Pod]) -> bool {
        let mut forgotten = false;
        for pod in pods {
            if pod.owners_awaited {
                self.awaiting.insert(Arc::clone(&pod.uid));
                continue;
            }
            self.awaiting.remove(&pod.uid);
            if self.leaving.remove(&pod.uid) {
                self.known.remove(&pod.uid);
                self.unpublished.insert(Arc::clone(&pod.uid));
                forgotten = true;
            }
        }
        forgotten
    }

    /// Those that changed, came or went since this was last asked.
    pub(super) fn take_unpublished(&mut self) -> HashSet<Arc<str>> {
        std::mem::take(&mut self.unpublished)
    }

    /// The UIDs of pods whose owner `is_above` says to be one that is looked for.
    pub(super) fn below<'a>(
        &'a self,
        is_above: impl Fn(&OwnerReference) -> bool + 'a,
    ) -> impl Iterator<Item = Arc<str>> + 'a {
        let below = move |known: &&'a Known| known.owner.as_ref().is_some_and(&is_above);
        self.known.values().filter(below).map(|known| Arc::clone(&known.pod.uid))
    }

    /// Every owner, with the namespace it lives in.
    pub(super) fn owners(&self) -> impl Iterator<Item = (&str, &OwnerReference)> {
        self.known.values().filter_map(|known| Some((&*known.pod.namespace, known.owner.as_ref()?)))
    }

    /// All pods with the workloads that `chain` finds for their owners.
    pub(super) fn facts<'a>(&'a self, chain: impl Fn(&'a OwnerReference) -> Chain<'a>) -> Facts {
        self.facts_of(self.known.values(), chain)
    }

    /// As [`Pods::facts`], of those with these UIDs that are there.
    pub(super) fn some<'a>(
        &'a self,
        uids: &[Arc<str>],
        chain: impl Fn(&'a OwnerReference) -> Chain<'a>,
    ) -> Facts {
        self.facts_of(uids.iter().filter_map(|uid| self.known.get(uid)), chain)
    }

    fn facts_of<'a>(
        &'a self,
        pods: impl Iterator<Item = &'a Known>,
        chain: impl Fn(&'a OwnerReference) -> Chain<'a>,
    ) -> Facts {
        let mut facts = Facts::default();
        for known in pods {
            let mut pod = known.pod.clone();
            let chain = known.owner.as_ref().map(&chain);
            let before = self.remembered.get(&pod.uid);
            match (chain, before) {
                (Some(Chain { learnt: false, .. }), Some(before)) => {
                    pod.workloads.clone_from(&before.workloads);
                    pod.nearest_owner.clone_from(&before.nearest_owner);
                }
                (Some(Chain { awaited: true, .. }), _) => pod.owners_awaited = true,
                (chain, _) => pod.set_owners(chain.as_ref()),
            }
            facts.devices.extend(known.devices());
            facts.containers.extend_from_slice(&known.containers);
            facts.pods.push(pod);
        }
        facts
    }
}

impl Pod {
    /// Whose it is by the chain of its owners.
    fn set_owners(&mut self, chain: Option<&Chain<'_>>) {
        let below = chain.filter(|chain| chain.nearest.uid != chain.top.uid);
        self.nearest_owner = below.map(|chain| NearestOwner {
            owner: workload(chain.nearest),
            top_uid: chain.top.uid.as_str().into(),
        });
        self.workloads = vec![match chain {
            Some(chain) => workload(chain.top),
            // A pod that nobody controls is its own workload.
            None => Workload {
                name: Arc::clone(&self.name),
                uid: Arc::clone(&self.uid),
                kind: "Pod".into(),
            },
        }];
    }
}

fn workload(owner: &OwnerReference) -> Workload {
    Workload {
        name: owner.name.as_str().into(),
        uid: owner.uid.as_str().into(),
        kind: owner.kind.as_str().into(),
    }
}

impl Known {
    fn devices(&self) -> impl Iterator<Item = Device> {
        let pod = &self.pod;
        self.devices.iter().map(|(label, device)| Device {
            node: Arc::clone(&pod.node),
            label: Arc::clone(label),
            device: Arc::clone(device),
            pod_uid: Arc::clone(&pod.uid),
            pod_namespace: Arc::clone(&pod.namespace),
            pod_name: Arc::clone(&pod.name),
            // One may wait for its devices for days, while another has them.
            valid: Validity {
                valid_from_ns: pod.started_ns.unwrap_or(pod.valid.valid_from_ns),
                ..pod.valid
            },
            ..Device::default()
        })
    }

    fn of(object: Object) -> Known {
        let Object { mut metadata, spec, status, .. } = object;
        let status = status.unwrap_or_default();
        let text = |text: Option<String>| text.unwrap_or_default().into();
        let valid_from_ns = metadata.creation_timestamp.take().and_then(unix_ns).unwrap_or(0);
        let started_ns = status.start_time.clone().and_then(unix_ns);
        let labels = metadata.labels.take().unwrap_or_default();
        let qos = koordinator::qos(&labels, status.qos_class.as_deref());
        // A finished pod holds its devices no longer, though its object stays.
        let finished = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
        let asks_for_devices = spec.asks_for_devices();
        let pod = Pod {
            name: text(metadata.name.take()),
            namespace: text(metadata.namespace.take()),
            uid: text(metadata.uid.take()),
            node: spec.node_name.unwrap_or_default(),
            workloads: Vec::new(),
            priority: koordinator::priority(&labels, spec.priority, qos).into(),
            qos: qos.into(),
            nearest_owner: None,
            role: role_of(|name| labels.get(name).map(|value| &**value)).into(),
            started_ns,
            finished_ns: finished.then(|| finished_ns(&status)),
            asks_for_devices,
            reports_devices: false,
            owners_awaited: false,
            valid: Validity { valid_from_ns, valid_to_ns: None },
        };
        let annotation =
            metadata.annotations.as_mut().and_then(|all| all.remove(DEVICES_ANNOTATION));
        let devices = annotation.filter(|_| !finished).map(|text| devices_of(&text));
        Known {
            containers: containers_of(&pod, status),
            devices: devices.unwrap_or_default(),
            owner: controller(metadata),
            pod,
        }
    }
}

fn unix_ns(time: Time) -> Option<u64> {
    u64::try_from(time.0.as_nanosecond()).ok()
}

/// When the last container of a finished pod ended; 0 where none tells.
fn finished_ns(status: &Status) -> u64 {
    let of_containers = status.container_statuses.iter().flatten();
    let ends =
        of_containers.filter_map(|status| status.state.terminated.as_ref()?.finished_at.as_ref());
    ends.cloned().filter_map(unix_ns).max().unwrap_or(0)
}

fn devices_of(annotation: &str) -> Vec<(Arc<str>, Arc<str>)> {
    let devices: HashMap<String, Vec<Arc<str>>> =
        serde_json::from_str(annotation).unwrap_or_default();
    let named = |(kind, names): (String, Vec<Arc<str>>)| {
        let label: Arc<str> = Device::label_of(&kind).into();
        names.into_iter().map(move |name| (Arc::clone(&label), name))
    };
    let mut devices: Vec<_> = devices.into_iter().flat_map(named).collect();
    devices.sort();
    devices
}

fn containers_of(pod: &Pod, status: Status) -> Vec<Container> {
    let lists = [
        status.container_statuses,
        status.init_container_statuses,
        status.ephemeral_container_statuses,
    ];
    let with_id = |status: ContainerStatus| {
        let id = status.id?;
        let (_engine, id) = id.split_once("://")?;
        Some(Container {
            id: id.into(),
            name: status.name,
            image: status.image,
            pod_uid: Arc::clone(&pod.uid),
            pod_namespace: Arc::clone(&pod.namespace),
            pod_name: Arc::clone(&pod.name),
            ..Container::default()
        })
    };
    lists.into_iter().flatten().flatten().filter_map(with_id).collect()
}

#[cfg(test)]
mod tests;
