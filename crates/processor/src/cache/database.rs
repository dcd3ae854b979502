//! The inventory as the database's tables have it.

use std::collections::HashMap;

use crosstalk_inventory::{Device, Facts, Pod, Validity, Workload};

/// Puts pods, devices, workloads and references together.
pub(crate) fn from_tables(tables: crosstalk_store::Inventory) -> Facts {
    let workloads: HashMap<&str, &crosstalk_store::Workload> =
        tables.workloads.iter().map(|workload| (workload.uid.as_str(), workload)).collect();
    let mut of_pod: HashMap<&str, Vec<Workload>> = HashMap::new();
    for reference in &tables.references {
        if let Some(workload) = workloads.get(reference.workload_uid.as_str()) {
            of_pod.entry(&reference.pod_uid).or_default().push(Workload {
                // A workload that only a log line named may have no name of its own.
                name: workload.name.as_deref().unwrap_or(&workload.uid).into(),
                uid: workload.uid.as_str().into(),
                kind: workload.kind.as_deref().unwrap_or_default().into(),
            });
        }
    }
    let pods = tables.pods.iter().map(|pod| Pod {
        name: pod.name.as_str().into(),
        namespace: pod.namespace.as_str().into(),
        uid: pod.uid.as_str().into(),
        node: pod.node.as_deref().unwrap_or_default().into(),
        workloads: of_pod.remove(pod.uid.as_str()).unwrap_or_default(),
        valid: validity(pod),
        ..Pod::default()
    });
    let pods = pods.collect();
    let valid: HashMap<&str, Validity> =
        tables.pods.iter().map(|pod| (pod.uid.as_str(), validity(pod))).collect();
    let devices = tables.devices.into_iter().map(|device| Device {
        valid: valid.get(device.pod_uid.as_str()).copied().unwrap_or_default(),
        node: device.node.into(),
        label: Device::label_of(&device.label).into(),
        device: device.name.into(),
        pod_uid: device.pod_uid.into(),
        ..Device::default()
    });
    Facts { pods, devices: devices.collect(), ..Facts::default() }
}

/// When there was such a pod, as far as the table tells.
fn validity(pod: &crosstalk_store::Pod) -> Validity {
    let ns = |time: Option<i64>| time.and_then(|time| u64::try_from(time).ok());
    Validity {
        valid_from_ns: ns(pod.created_at).unwrap_or(0),
        valid_to_ns: ns(pod.deleted_at).filter(|to| *to > 0),
    }
}
