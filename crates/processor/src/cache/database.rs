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
        role: pod.replica_role.as_deref().unwrap_or_default().into(),
        started_ns: ns(pod.started_at),
        valid: validity(pod),
        ..Pod::default()
    });
    let pods = pods.collect();
    let held: HashMap<&str, Validity> =
        tables.pods.iter().map(|pod| (pod.uid.as_str(), held(pod))).collect();
    let devices = tables.devices.into_iter().map(|device| Device {
        valid: held.get(device.pod_uid.as_str()).copied().unwrap_or_default(),
        node: device.node.into(),
        label: Device::label_of(&device.label).into(),
        device: device.name.into(),
        pod_uid: device.pod_uid.into(),
        ..Device::default()
    });
    Facts { pods, devices: devices.collect(), ..Facts::default() }
}

fn ns(time: Option<i64>) -> Option<u64> {
    time.and_then(|time| u64::try_from(time).ok()).filter(|time| *time > 0)
}

/// When there was such a pod, as far as the table tells.
fn validity(pod: &crosstalk_store::Pod) -> Validity {
    Validity { valid_from_ns: ns(pod.created_at).unwrap_or(0), valid_to_ns: ns(pod.deleted_at) }
}

/// When it had its devices: one may wait for them for days, while another has them.
fn held(pod: &crosstalk_store::Pod) -> Validity {
    let valid = validity(pod);
    Validity { valid_from_ns: ns(pod.started_at).unwrap_or(valid.valid_from_ns), ..valid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_held_from_when_its_pod_started_and_the_pods_part_is_known() {
        let pod = crosstalk_store::Pod {
            uid: "u".into(),
            replica_role: Some("master".into()),
            created_at: Some(5),
            started_at: Some(9),
            ..Default::default()
        };
        let waiting = crosstalk_store::Pod { uid: "v".into(), started_at: None, ..pod.clone() };
        let device =
            |pod: &str| crosstalk_store::Device { pod_uid: pod.into(), ..Default::default() };
        let facts = from_tables(crosstalk_store::Inventory {
            pods: vec![pod, waiting],
            devices: vec![device("u"), device("v")],
            ..Default::default()
        });
        assert_eq!((&*facts.pods[0].role, facts.pods[0].started_ns), ("master", Some(9)));
        assert_eq!(facts.pods[0].valid.valid_from_ns, 5);
        let held: Vec<u64> = facts.devices.iter().map(|held| held.valid.valid_from_ns).collect();
        assert_eq!(held, [9, 5], "as early as may be, where it is not told");
    }
}
