//! What an agent says of its node.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crosstalk_inventory::{Device, Facts, Pod};
use serde::Deserialize;

use super::{MAX_DEVICES, MAX_NAME_BYTES, Untaken};

/// What an agent says of its node: everything it knows, each time.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
    /// The node.
    #[schema(value_type = String)]
    pub(super) node: Arc<str>,
    /// Its devices that were given to somebody.
    pub(super) devices: Vec<Given>,
    /// Its pods, those among them that were given no device.
    #[serde(default)]
    pub(super) pods: Vec<Named>,
}

/// A pod of the node.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Named {
    /// Its namespace.
    #[schema(value_type = String)]
    pub(super) namespace: Arc<str>,
    /// Its name.
    #[schema(value_type = String)]
    pub(super) pod: Arc<str>,
}

/// A device and whom it was given to.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    /// The kubelet's name of such devices (`nvidia.com/gpu`), a type (`gpu`, `rdma`), or the metric label itself.
    pub(super) resource: String,
    /// Its id: a number, a name or a UUID; of a part of a GPU (`mig`) the card and the instance, `0/7`.
    #[schema(value_type = String)]
    pub(super) device: Arc<str>,
    /// The pod's namespace.
    #[schema(value_type = String)]
    pub(super) namespace: Arc<str>,
    /// The pod's name.
    #[schema(value_type = String)]
    pub(super) pod: Arc<str>,
    /// The container in it.
    #[serde(default)]
    #[schema(value_type = String)]
    pub(super) container: Arc<str>,
}

impl Report {
    pub(super) fn check(&self) -> Result<(), Untaken> {
        if self.devices.len() > MAX_DEVICES || self.pods.len() > MAX_DEVICES {
            return Err(Untaken::Devices);
        }
        if self.node.is_empty() {
            return Err(Untaken::NoNode);
        }
        let of_given = |g: &Given| {
            [g.resource.len(), g.device.len(), g.namespace.len(), g.pod.len(), g.container.len()]
        };
        let of_pods = self.pods.iter().flat_map(|named| [named.namespace.len(), named.pod.len()]);
        let lengths =
            self.devices.iter().flat_map(of_given).chain(of_pods).chain([self.node.len()]);
        if lengths.max() > Some(MAX_NAME_BYTES) { Err(Untaken::Name) } else { Ok(()) }
    }
}

pub(super) fn facts_of(report: &Report, is_of_interest: impl Fn(&Named) -> bool) -> Facts {
    let mut facts = Facts::default();
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
    }
    let with_devices = report.devices.iter().map(|given| (&given.namespace, &given.pod));
    let others = report.pods.iter().filter(|named| is_of_interest(named));
    let others = others.map(|named| (&named.namespace, &named.pod));
    let mut pods = HashSet::new();
    for (namespace, name) in with_devices.chain(others).filter(|pod| pods.insert(*pod)) {
        facts.pods.push(Pod {
            name: Arc::clone(name),
            namespace: Arc::clone(namespace),
            node: Arc::clone(&report.node),
            reports_devices: true,
            ..Pod::default()
        });
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
        if Device::is_a_share(&self.resource, &self.device) {
            return Vec::new();
        }
        let id = Device::shared(&self.device).map_or_else(|| Arc::clone(&self.device), Arc::from);
        let slice = Device::slice_of(&id).map(|slice| (Device::SLICE.into(), slice.into()));
        let own = (Device::label_of(&self.resource).into(), id);
        [own].into_iter().chain(slice).collect()
    }
}
