//! The pods as far as the watch has told, without any I/O.

use std::collections::HashMap;

use super::objects::{OwnerReference, Pod, Status, WatchEvent, controller};
use crate::cache::{Device, Inventory, Pod as CachedPod, Workload};

/// Annotation with the devices a pod holds, for clusters whose device plugin or scheduler writes it:
/// `{"gpu": ["0", "1"], "rdma": ["mlx5_0"]}`.
const DEVICES_ANNOTATION: &str = "crosstalk.dev/devices";

/// What a watch has built up.
#[derive(Debug, Default)]
pub(super) struct State {
    pods: HashMap<String, Known>,
    /// Where the next watch begins.
    pub(super) resource_version: String,
}

/// A pod, reduced to what is needed of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    namespace: String,
    name: String,
    node: String,
    owner: Option<OwnerReference>,
    devices: Vec<(String, String)>,
}

/// What an event asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Something changed.
    Changed,
    /// Nothing to do.
    Nothing,
    /// The server no longer knows our version.
    ListAgain,
    /// The server reports an error.
    Failed(String),
}

impl State {
    /// Begins anew with a whole list.
    pub(super) fn replace(&mut self, pods: impl Iterator<Item = Pod>, resource_version: String) {
        self.pods = pods.map(|pod| (pod.metadata.uid.clone(), Known::of(pod))).collect();
        self.resource_version = resource_version;
    }

    /// Takes one line of a watch.
    pub(super) fn apply(&mut self, line: &[u8]) -> Next {
        let event: WatchEvent<'_> = match serde_json::from_slice(line) {
            Ok(event) => event,
            Err(error) => return Next::Failed(format!("watch event: {error}")),
        };
        if event.r#type == "ERROR" {
            let status: Status = serde_json::from_str(event.object.get()).unwrap_or_default();
            return match status.code {
                410 => Next::ListAgain,
                code => Next::Failed(format!("watch: {code} {}", status.message)),
            };
        }
        let pod: Pod = match serde_json::from_str(event.object.get()) {
            Ok(pod) => pod,
            Err(error) => return Next::Failed(format!("watch event: {error}")),
        };
        self.resource_version.clone_from(&pod.metadata.resource_version);
        let uid = pod.metadata.uid.clone();
        match event.r#type {
            "ADDED" | "MODIFIED" => {
                let known = Known::of(pod);
                match self.pods.insert(uid, known.clone()) {
                    // Most changes of a pod (probes, conditions) mean nothing here.
                    Some(before) if before == known => Next::Nothing,
                    _ => Next::Changed,
                }
            }
            "DELETED" => match self.pods.remove(&uid) {
                Some(_) => Next::Changed,
                None => Next::Nothing,
            },
            // BOOKMARK, and kinds of events to come.
            _ => Next::Nothing,
        }
    }

    /// Every distinct owner, with the namespace it lives in.
    pub(super) fn owners(&self) -> impl Iterator<Item = (&str, &OwnerReference)> {
        self.pods.values().filter_map(|pod| Some((pod.namespace.as_str(), pod.owner.as_ref()?)))
    }

    /// The pods with the workloads that `top` finds for their owners.
    pub(super) fn inventory(&self, top: impl Fn(&OwnerReference) -> OwnerReference) -> Inventory {
        let mut inventory = Inventory::default();
        for (uid, pod) in &self.pods {
            let top = pod.owner.as_ref().map(&top);
            // A pod that nobody controls is its own workload.
            let workload = match top {
                Some(top) => Workload { name: top.name, uid: top.uid, kind: top.kind },
                None => {
                    Workload { name: pod.name.clone(), uid: uid.clone(), kind: "Pod".to_owned() }
                }
            };
            for (label, device) in &pod.devices {
                inventory.devices.push(Device {
                    node: pod.node.clone(),
                    label: label.clone(),
                    device: device.clone(),
                    pod_uid: uid.clone(),
                    pod_namespace: pod.namespace.clone(),
                    pod_name: pod.name.clone(),
                });
            }
            inventory.pods.push(CachedPod {
                name: pod.name.clone(),
                namespace: pod.namespace.clone(),
                uid: uid.clone(),
                node: pod.node.clone(),
                workloads: vec![workload],
            });
        }
        inventory
    }
}

impl Known {
    fn of(pod: Pod) -> Known {
        // A finished pod holds its devices no longer, though its object stays.
        let finished = matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
        let devices = pod.metadata.annotations.get(DEVICES_ANNOTATION).filter(|_| !finished);
        let devices: HashMap<String, Vec<String>> =
            devices.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let named = |(kind, names): (String, Vec<String>)| {
            let label = Device::label_of(&kind).to_owned();
            names.into_iter().map(move |name| (label.clone(), name)).collect::<Vec<_>>()
        };
        let mut devices: Vec<(String, String)> = devices.into_iter().flat_map(named).collect();
        devices.sort();
        Known {
            owner: controller(&pod.metadata.owner_references).cloned(),
            namespace: pod.metadata.namespace,
            name: pod.metadata.name,
            node: pod.spec.node_name,
            devices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(kind: &str, version: &str, node: &str) -> Vec<u8> {
        let pod = json!({
            "metadata": {
                "name": "p", "namespace": "ns", "uid": "u", "resourceVersion": version,
                "annotations": {"crosstalk.dev/devices": "{\"gpu\": [\"1\"]}"},
            },
            "spec": {"nodeName": node},
        });
        json!({"type": kind, "object": pod}).to_string().into_bytes()
    }

    #[test]
    fn only_changes_that_matter_count() {
        let mut state = State::default();
        assert_eq!(state.apply(&event("ADDED", "1", "n1")), Next::Changed);
        assert_eq!(state.apply(&event("MODIFIED", "2", "n1")), Next::Nothing);
        assert_eq!(state.apply(&event("MODIFIED", "3", "n2")), Next::Changed);
        assert_eq!(state.resource_version, "3");
        let inventory = state.inventory(OwnerReference::clone);
        assert_eq!(inventory.devices[0].label, "gpu_id");
        assert_eq!(inventory.pods[0].workloads[0].kind, "Pod");
        assert_eq!(state.apply(&event("BOOKMARK", "9", "")), Next::Nothing);
        assert_eq!(state.resource_version, "9");
        assert_eq!(state.apply(&event("DELETED", "10", "n2")), Next::Changed);
        assert!(state.inventory(OwnerReference::clone).pods.is_empty());
    }

    #[test]
    fn an_expired_version_asks_for_a_new_list() {
        let mut state = State::default();
        let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410}}).to_string();
        assert_eq!(state.apply(gone.as_bytes()), Next::ListAgain);
        assert!(matches!(state.apply(b"{"), Next::Failed(_)));
    }
}
