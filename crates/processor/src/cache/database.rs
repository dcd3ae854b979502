//! The inventory as the database's tables have it.

use std::collections::HashMap;

use super::inventory::{Device, Inventory, Pod, Workload};

/// Puts pods, devices, workloads and references together.
pub(crate) fn from_tables(tables: crosstalk_store::Inventory) -> Inventory {
    let workloads: HashMap<&str, &crosstalk_store::Workload> =
        tables.workloads.iter().map(|workload| (workload.uid.as_str(), workload)).collect();
    let mut of_pod: HashMap<&str, Vec<Workload>> = HashMap::new();
    for reference in &tables.references {
        if let Some(workload) = workloads.get(reference.workload_uid.as_str()) {
            of_pod.entry(&reference.pod_uid).or_default().push(Workload {
                // A workload that only a log line named may have no name of its own.
                name: workload.name.clone().unwrap_or_else(|| workload.uid.clone()),
                uid: workload.uid.clone(),
                kind: workload.kind.clone().unwrap_or_default(),
            });
        }
    }
    let pods = tables.pods.iter().map(|pod| Pod {
        name: pod.name.clone(),
        namespace: pod.namespace.clone(),
        uid: pod.uid.clone(),
        node: pod.node.clone().unwrap_or_default(),
        workloads: of_pod.remove(pod.uid.as_str()).unwrap_or_default(),
    });
    let pods = pods.collect();
    let devices = tables.devices.into_iter().map(|device| Device {
        node: device.node,
        label: Device::label_of(&device.label).to_owned(),
        device: device.name,
        pod_uid: device.pod_uid,
        ..Device::default()
    });
    Inventory { pods, devices: devices.collect() }
}
