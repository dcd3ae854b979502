//! From the labels of a series to its pod.

use std::ops::Deref;
use std::sync::Arc;

use crosstalk_inventory::{Named, Pod};
use crosstalk_remote_write::Label;

use super::roles::Roles;

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

/// What is known at one moment, and how labels speak of it.
#[derive(Debug)]
pub struct Snapshot {
    known: Arc<crosstalk_inventory::Snapshot>,
    roles: Arc<Roles>,
}

impl Deref for Snapshot {
    type Target = crosstalk_inventory::Snapshot;

    fn deref(&self) -> &Self::Target {
        &self.known
    }
}

impl Snapshot {
    /// `roles` must have been made for the device labels of `known`.
    pub(super) fn new(known: Arc<crosstalk_inventory::Snapshot>, roles: Arc<Roles>) -> Self {
        Snapshot { known, roles }
    }

    /// The pod that a series with these labels is about, if it belongs to a workload.
    pub fn find(&self, labels: &[Label<'_>]) -> Result<&Pod, Miss> {
        let said = self.roles.read(labels);
        if let Some(node) = said.node() {
            for (place, device) in said.devices.iter().enumerate() {
                let held = device.and_then(|device| self.known.holder(place, node, device));
                if let Some(pod) = held {
                    return with_workload(pod);
                }
            }
        }
        let mut miss = None;
        for (place, name) in said.pods.iter().enumerate() {
            let Some(name) = name else { continue };
            let namespace = self.roles.namespace(&said, place);
            match self.by_labels(name, namespace, said.uid()) {
                Ok(pod) => return with_workload(pod),
                Err(reason) => miss = miss.or(Some(reason)),
            }
        }
        if miss.is_none()
            && let Some(pod) = said.uid().and_then(|uid| self.known.pod(uid))
        {
            return with_workload(pod);
        }
        let device_said = said.node().is_some() && said.devices.iter().any(Option::is_some);
        Err(miss.unwrap_or(if device_said { Miss::UnknownDevice } else { Miss::NoPodLabel }))
    }

    /// The pod of this name: by UID and name, by namespace and name, without a namespace by a name that only one
    /// namespace has; never one that the UID contradicts.
    pub fn by_labels(
        &self,
        name: &str,
        namespace: Option<&str>,
        uid: Option<&str>,
    ) -> Result<&Pod, Miss> {
        if let Some(pod) = uid.and_then(|uid| self.known.pod(uid))
            && *pod.name == *name
        {
            return Ok(pod);
        }
        let pod = match namespace {
            // A source that knows no namespaces knows the pod by its bare name.
            Some(namespace) => self
                .known
                .pod_in(namespace, name)
                .or_else(|| self.known.pod_in("", name))
                .ok_or(Miss::UnknownPod)?,
            None => match self.known.pod_named(name) {
                Some(Named::One(pod)) => pod,
                Some(Named::Several) => return Err(Miss::AmbiguousPod),
                None => return Err(Miss::UnknownPod),
            },
        };
        match uid {
            // Exporters also call other things `uid`, user numbers for example: only what looks like a Kubernetes UID
            // can contradict.
            Some(uid) if looks_like_uid(uid) && !pod.uid.is_empty() && *pod.uid != *uid => {
                Err(Miss::OtherUid)
            }
            _ => Ok(pod),
        }
    }
}

fn with_workload(pod: &Pod) -> Result<&Pod, Miss> {
    if pod.workloads.is_empty() { Err(Miss::NoWorkload) } else { Ok(pod) }
}

fn looks_like_uid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
